"""The settings of queues as HTTP documents."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from longshore.core.bucket import HIGHEST_RATE, LARGEST_BURST, LOWEST_RATE
from longshore.core.flow import LARGEST, QueueSettings

__all__ = ["SettingsPatch", "SettingsView", "changes", "view"]

Jobs = Annotated[int, Meta(ge=1, le=LARGEST)]
Rate = Annotated[float, Meta(ge=LOWEST_RATE, le=HIGHEST_RATE)]
Burst = Annotated[int, Meta(ge=1, le=LARGEST_BURST)]


class SettingsPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings to override; what is left out stays, and null lets the code's word hold."""

    max_running: Jobs | UnsetType | None = UNSET
    """Jobs of the queue that run at once, in the whole fleet."""
    rate: Rate | UnsetType | None = UNSET
    """Jobs that start per second, in the whole fleet; counted in thousandths."""
    burst: Burst | UnsetType | None = UNSET
    """Jobs that may start at once after a pause."""
    max_depth: Jobs | UnsetType | None = UNSET
    """Jobs that may wait; past it submits are refused (429)."""


class SettingsView(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a queue; null: nothing is said."""

    max_running: int | None = None
    """Jobs of the queue that run at once, in the whole fleet."""
    rate: float | None = None
    """Jobs that start per second, in the whole fleet."""
    burst: int | None = None
    """Jobs that may start at once after a pause; null: what the rate brings in a second."""
    max_depth: int | None = None
    """Jobs that may wait; past it submits are refused (429)."""


def view(settings: QueueSettings) -> SettingsView:
    """As it is shown."""
    return SettingsView(**{name: getattr(settings, name) for name in _FIELDS})


def changes(patch: SettingsPatch) -> dict[str, object]:
    """What a patch says."""
    found = msgspec.structs.asdict(patch)
    return {name: value for name, value in found.items() if value is not UNSET}


_FIELDS = SettingsView.__struct_fields__
