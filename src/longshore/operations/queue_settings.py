"""The settings of queues as documents."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from longshore.core.limit_settings import (
    LARGEST,
    LONGEST_AGING_US,
    OnDead,
    Order,
    QueueSettings,
)
from longshore.core.token_bucket import HIGHEST_RATE, LARGEST_BURST, LOWEST_RATE
from longshore.errors import ConfigError
from longshore.operations.fields import seconds

__all__ = ["SettingsPatch", "SettingsView", "changes", "view"]

Jobs = Annotated[int, Meta(ge=1, le=LARGEST)]
_SECOND = 1_000_000
Aging = Annotated[float, Meta(ge=0, le=LONGEST_AGING_US // _SECOND)]
Rate = Annotated[float, Meta(ge=LOWEST_RATE, le=HIGHEST_RATE)]
Burst = Annotated[int, Meta(ge=1, le=LARGEST_BURST)]


class SettingsPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings to override; what is left out stays, and null lets the code's word hold."""

    order: Order | UnsetType | None = UNSET
    """Who goes first: by priority alone, with aging, or tenants take turns."""
    aging_seconds: Aging | UnsetType | None = UNSET
    """With the order `aging`: what a priority level is worth."""
    max_running: Jobs | UnsetType | None = UNSET
    """Jobs of the queue that run at once, in the whole fleet."""
    rate: Rate | UnsetType | None = UNSET
    """Jobs that start per second, in the whole fleet; counted in thousandths."""
    burst: Burst | UnsetType | None = UNSET
    """Jobs that may start at once after a pause."""
    retry_rate: Rate | UnsetType | None = UNSET
    """Retries that come back per second, in the whole fleet; counted in thousandths."""
    max_depth: Jobs | UnsetType | None = UNSET
    """Jobs that may wait; past it submits are refused (429)."""
    max_depth_per_tenant: Jobs | UnsetType | None = UNSET
    """Jobs of one tenant that may wait; past it the tenant's submits are refused (429)."""
    max_running_per_key: Jobs | UnsetType | None = UNSET
    """Jobs of one ordering key that run at once."""
    rate_per_key: Rate | UnsetType | None = UNSET
    """Jobs of one ordering key that start per second, retries apart; counted in thousandths."""
    burst_per_key: Burst | UnsetType | None = UNSET
    """Jobs of one ordering key that may start at once after a pause."""
    on_dead: OnDead | UnsetType | None = UNSET
    """What becomes of the jobs behind one that died, of the same ordering key."""


class SettingsView(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a queue; null: nothing is said."""

    order: Order | None = None
    """Who goes first; null: `strict`."""
    aging_seconds: float | None = None
    """With the order `aging`: what a priority level is worth; null: a minute."""
    max_running: int | None = None
    """Jobs of the queue that run at once, in the whole fleet."""
    rate: float | None = None
    """Jobs that start per second, in the whole fleet."""
    burst: int | None = None
    """Jobs that may start at once after a pause; null: what the rate brings in a second."""
    retry_rate: float | None = None
    """Retries that come back per second, in the whole fleet; null: about as many as normally
    succeed."""
    max_depth: int | None = None
    """Jobs that may wait; past it submits are refused (429)."""
    max_depth_per_tenant: int | None = None
    """Jobs of one tenant that may wait; past it the tenant's submits are refused (429)."""
    max_running_per_key: int | None = None
    """Jobs of one ordering key that run at once; null: one, in their order."""
    rate_per_key: float | None = None
    """Jobs of one ordering key that start per second, retries apart."""
    burst_per_key: int | None = None
    """Those that may start at once after a pause; null: what the rate brings in a second."""
    on_dead: OnDead | None = None
    """What becomes of the jobs behind one that died; null: `continue`."""


def view(settings: QueueSettings) -> SettingsView:
    """As it is shown."""
    shown = {name: getattr(settings, name) for name in _FIELDS if name != "aging_seconds"}
    return SettingsView(**shown, aging_seconds=seconds(settings.aging))


def changes(given: Mapping[str, object]) -> dict[str, object]:
    """Settings of a document as the core has them, or ConfigError.

    The core checks the numbers when they are stored.
    """
    said = dict(given)
    if refused := sorted(said.keys() - set(_FIELDS)):
        raise ConfigError(f"{refused[0]} is not a setting of queues")
    for field, kind in (("order", Order), ("on_dead", OnDead)):
        value = said.get(field)
        if value is not None:
            if value not in list(kind):
                raise ConfigError(f"{field} is {value!r:.80}; it can be {', '.join(kind)}")
            said[field] = kind(str(value))
    if "aging_seconds" in said:
        aging = said.pop("aging_seconds")
        is_number = isinstance(aging, int | float)
        said["aging"] = round(aging * _SECOND) if is_number else aging
    return said


_FIELDS = SettingsView.__struct_fields__
