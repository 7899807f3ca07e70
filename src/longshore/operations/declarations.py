"""What the code of an app declares: its queues, breakers and schedules, stored together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longshore.core import limit_settings
from longshore.core.account import DEFAULT_TENANT
from longshore.core.limit_settings import BreakerSettings, QueueSettings
from longshore.core.schedule import Schedule
from longshore.operations.local import EngineOperations
from longshore.operations.schedule_documents import definition_of
from longshore.operations.schedules import store_schedules
from longshore.records import breaker_settings, queue_settings

__all__ = ["DeclarationOperations", "Declarations"]

_DURATIONS = frozenset({"aging", "window", "cooldown"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Declarations:
    """What an app declares. What it leaves out stays as it is."""

    queues: Mapping[str, QueueSettings] = field(default_factory=dict[str, QueueSettings])
    breakers: Mapping[str, BreakerSettings] = field(default_factory=dict[str, BreakerSettings])
    """By the types of jobs."""
    schedules: Sequence[Schedule] = ()

    def __bool__(self) -> bool:
        return bool(self.queues or self.breakers or self.schedules)

    def documents(self) -> dict[str, dict[str, Any]]:
        """The bodies of `PUT /v1/declarations` by tenant: a schedule belongs to one.

        Queues and breakers are everyone's, and go with the first.
        """
        tenants = dict.fromkeys(one.tenant for one in self.schedules) or {DEFAULT_TENANT: None}
        bodies: dict[str, dict[str, Any]] = {
            tenant: {
                "schedules": [
                    {"name": one.name, **definition_of(one)}
                    for one in self.schedules
                    if one.tenant == tenant
                ]
            }
            for tenant in tenants
        }
        bodies[next(iter(tenants))] |= {
            "queues": {name: _settings(one) for name, one in self.queues.items()},
            "breakers": {name: _settings(one) for name, one in self.breakers.items()},
        }
        return bodies


class DeclarationOperations(EngineOperations):
    """What is done with declarations on an engine."""

    async def declare(self, declared: Declarations) -> None:
        """Store what code declares. Writes only what differs, and no operator's override."""
        engine = self._engine
        if declared.queues:
            await queue_settings.declare(engine, declared.queues)
        if declared.breakers:
            await breaker_settings.declare(engine, declared.breakers)
        if declared.schedules:
            await store_schedules(engine, declared.schedules)


def _settings(it: QueueSettings | BreakerSettings) -> dict[str, Any]:
    return dict(_field(name, value) for name, value in limit_settings.said(it).items())


def _field(name: str, value: Any) -> tuple[str, Any]:
    return (f"{name}_seconds", value / 1_000_000) if name in _DURATIONS else (name, value)
