"""Tenants and API keys as people see them."""

from collections.abc import Sequence
from datetime import datetime

from longshore.cli import tables
from longshore.cli.render import Sheet, Table
from longshore.core.account import CAPS, Tenant
from longshore.operations.keys import KeyView
from longshore.operations.tenants import TenantView

__all__ = ["grant_words", "key_table", "tenant_sheet", "tenant_table"]


def tenant_table(them: Sequence[TenantView], now: datetime) -> Table:
    """Tenants, one per line."""
    return Table(
        columns=("name", "limit", "weight", "idempotency key", "created", ""),
        rows=[
            (
                it.name,
                _limit(it),
                f"{it.weight}",
                "required" if it.requires_idempotency_key else "optional",
                tables.ago(it.created_at, now),
                "disabled" if it.is_disabled else "",
            )
            for it in them
        ],
        empty="no tenants",
    )


def tenant_sheet(it: TenantView, keys: Sequence[KeyView], now: datetime) -> Sheet:
    """Everything about one tenant."""
    live = sum(key.state == "live" for key in keys)
    return Sheet(
        [
            ("name", it.name),
            ("state", "disabled: its keys are refused" if it.is_disabled else "enabled"),
            ("limit", _limit(it)),
            ("weight", f"{it.weight}"),
            ("idempotency key", "required" if it.requires_idempotency_key else "optional"),
            ("caps", _caps(it)),
            ("keys", f"{live} live, {len(keys) - live} ended"),
            ("created", tables.ago(it.created_at, now) if it.created_at else None),
        ]
    )


def grant_words(it: KeyView) -> str:
    """What a key may be used for."""
    words = ", ".join(it.scopes)
    if it.queues:
        words += f"; queues {', '.join(it.queues)}"
    if it.types:
        words += f"; types {', '.join(it.types)}"
    return words


def key_table(them: Sequence[KeyView], now: datetime) -> Table:
    """Keys, one per line."""
    return Table(
        columns=("id", "tenant", "scopes", "state", "used", "label"),
        rows=[
            (
                it.id,
                it.tenant or "(all)",
                grant_words(it),
                _words(it, now),
                tables.ago(it.last_used_at, now),
                it.label,
            )
            for it in them
        ],
        empty="no keys; make one with `longshore keys create`",
    )


def _caps(it: TenantView) -> str:
    given = {name.removeprefix("max_"): getattr(it, name) for name in CAPS}
    some = {name.replace("_", " "): most for name, most in given.items() if most is not None}
    return ", ".join(f"{most:g} {name}" for name, most in some.items())


def _limit(it: TenantView) -> str:
    limit = Tenant(name=it.name, rate=it.rate, burst=it.burst).limit
    return "none" if limit is None else f"{limit.rate:g} jobs/s, {limit.burst} at once"


def _words(it: KeyView, now: datetime) -> str:
    if it.state == "live" and it.expires_at is not None:
        return f"expires {tables.ago(it.expires_at, now)}"
    if it.state == "live":
        return it.state
    return f"{it.state} {tables.ago(it.revoked_at or it.expires_at, now)}"
