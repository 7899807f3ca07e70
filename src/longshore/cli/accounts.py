"""Tenants and API keys as programs and people see them."""

from collections.abc import Sequence

from longshore.cli import documents, tables
from longshore.cli.documents import Document
from longshore.cli.render import Sheet, Table
from longshore.core.account import CAPS, ApiKey, Tenant

__all__ = [
    "key_document",
    "key_table",
    "tenant_document",
    "tenant_sheet",
    "tenant_table",
]


def tenant_document(it: Tenant) -> Document:
    """A tenant; one that was always there has no beginning."""
    return {
        "name": it.name,
        "is_disabled": it.is_disabled,
        "requires_idempotency_key": it.requires_idempotency_key,
        "rate": it.rate,
        "burst": it.burst,
        "weight": it.weight,
        **{name: getattr(it, name) for name in CAPS},
        "created_at": documents.instant(it.created_at or None),
    }


def tenant_table(them: Sequence[Tenant], now: int) -> Table:
    """Tenants, one per line."""
    return Table(
        columns=("name", "limit", "weight", "idempotency key", "created", ""),
        rows=[
            (
                it.name,
                _limit(it),
                f"{it.weight}",
                "required" if it.requires_idempotency_key else "optional",
                tables.when(it.created_at or None, now),
                "disabled" if it.is_disabled else "",
            )
            for it in them
        ],
        empty="no tenants",
    )


def tenant_sheet(it: Tenant, keys: Sequence[ApiKey], now: int) -> Sheet:
    """Everything about one tenant."""
    live = sum(key.is_live(now) for key in keys)
    return Sheet(
        [
            ("name", it.name),
            ("state", "disabled: its keys are refused" if it.is_disabled else "enabled"),
            ("limit", _limit(it)),
            ("weight", f"{it.weight}"),
            ("idempotency key", "required" if it.requires_idempotency_key else "optional"),
            ("caps", _caps(it)),
            ("keys", f"{live} live, {len(keys) - live} ended"),
            ("created", tables.when(it.created_at, now) if it.created_at else None),
        ]
    )


def key_document(it: ApiKey, now: int) -> Document:
    """What is known of a key; its secret is not."""
    return {
        "id": it.id,
        "tenant": it.tenant,
        "scopes": list(it.scopes),
        "queues": list(it.queues),
        "types": list(it.types),
        "label": it.label,
        "state": _state(it, now),
        "created_at": documents.instant(it.created_at),
        "expires_at": documents.instant(it.expires_at),
        "revoked_at": documents.instant(it.revoked_at),
        "last_used_at": documents.instant(it.last_used_at),
        "previous_until": documents.instant(it.previous_until),
    }


def grant_words(it: ApiKey) -> str:
    """What a key may be used for."""
    words = ", ".join(it.scopes)
    if it.queues:
        words += f"; queues {', '.join(it.queues)}"
    if it.types:
        words += f"; types {', '.join(it.types)}"
    return words


def key_table(them: Sequence[ApiKey], now: int) -> Table:
    """Keys, one per line."""
    return Table(
        columns=("id", "tenant", "scopes", "state", "used", "label"),
        rows=[
            (
                it.id,
                it.tenant or "(all)",
                grant_words(it),
                _words(it, now),
                tables.when(it.last_used_at, now),
                it.label,
            )
            for it in them
        ],
        empty="no keys; make one with `longshore keys create`",
    )


def _caps(it: Tenant) -> str:
    given = {name.removeprefix("max_"): getattr(it, name) for name in CAPS}
    some = {name.replace("_", " "): most for name, most in given.items() if most is not None}
    return ", ".join(f"{most:g} {name}" for name, most in some.items())


def _limit(it: Tenant) -> str:
    limit = it.limit
    return "none" if limit is None else f"{limit.rate:g} jobs/s, {limit.burst} at once"


def _state(it: ApiKey, now: int) -> str:
    if it.revoked_at is not None:
        return "revoked"
    return "live" if it.is_live(now) else "expired"


def _words(it: ApiKey, now: int) -> str:
    state = _state(it, now)
    if state == "live" and it.expires_at is not None:
        return f"expires {tables.when(it.expires_at, now)}"
    if state == "live":
        return state
    return f"{state} {tables.when(it.revoked_at or it.expires_at, now)}"
