"""The queues of an app: what its code says of them."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Literal, Protocol, TypedDict, Unpack

from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core import limit_settings, units
from longshore.core.account import DEFAULT_TENANT, Tenant
from longshore.core.limit_settings import QueueFlow, QueueSettings
from longshore.core.ordering_key import Line
from longshore.errors import ConfigError
from longshore.operations.backend import Backend
from longshore.operations.declarations import Declarations
from longshore.options import Duration, microseconds
from longshore.records import tenants

__all__ = ["QueueOptions", "Queues"]


class QueueOptions(TypedDict, total=False):
    """What code can say of a queue; an operator may override each."""

    order: Literal["strict", "aging", "fair"]
    """Who goes first: the more urgent, whatever waits; or with aging, where a priority level is
    worth a fixed wait; or tenants take turns. Strict unless given."""
    aging: Duration | str
    """With the order `aging`: what a priority level is worth; a minute unless given."""
    max_running: int
    """Jobs of the queue that run at once, in the whole fleet."""
    rate: float | str
    """Jobs that start per second, in the whole fleet: a number, or `"30/m"`."""
    burst: int
    """Jobs that may start at once after a pause; unless given, what the rate brings in a
    second."""
    retry_rate: float | str
    """Retries that come back per second, in the whole fleet: a number, or `"30/m"`; unless
    given, about as many as normally succeed."""
    max_depth: int
    """Jobs that may wait; past it submits are refused with QueueFullError."""
    max_depth_per_tenant: int
    """Jobs of one tenant that may wait; past it the tenant's submits are refused."""
    max_running_per_key: int
    """Jobs of one ordering key that run at once; unless given one, in their order."""
    rate_per_key: float | str
    """Jobs of one ordering key that start per second, retries apart: a number, or `"30/m"`."""
    burst_per_key: int
    """Those that may start at once after a pause; unless given, what the rate brings in a
    second."""
    on_dead: Literal["continue", "block"]
    """What becomes of the jobs behind one that died, of the same ordering key: they go on, or
    wait until someone releases the key or replays the job. They go on unless given."""


class Home(Protocol):
    """What queues need of their app."""

    @property
    def engine(self) -> Engine:
        """The engine, or ConfigError while the app is not open."""
        ...

    @property
    def backend(self) -> Backend:
        """The engine, or a service in front of one."""
        ...


class Queues:
    """`app.queue("mail", …)` says how much of a queue may run.

    It is stored when a worker of the app starts, and then holds for the whole fleet, unless an
    operator overrides it. Iterates over what the code declares.
    """

    def __init__(self, app: Home) -> None:
        self._app = app
        self._declared: dict[str, QueueSettings] = {}

    def __call__(self, name: str, **options: Unpack[QueueOptions]) -> None:
        """Declare a queue's settings; declaring it again changes them.

        A rate is a number per second, or a text such as `"100/s"`, `"30/m"` or `"5/h"`.
        """
        said = {field: _read(field, value) for field, value in options.items()}
        if refused := sorted(said.keys() - limit_settings.ENFORCED):
            raise ConfigError(f"{refused[0]} is not a setting of queues")
        settings = replace(QueueSettings(), **said)
        limit_settings.validate(name, settings)
        if fault := limit_settings.useless(settings, limit_settings.said(settings)):
            raise ConfigError(f"{fault}; give both")
        self._declared[name] = settings

    def __iter__(self) -> Iterator[QueueFlow]:
        return (QueueFlow(name, settings) for name, settings in self._declared.items())

    async def weigh(self, tenant: str, weight: int) -> None:
        """Set a tenant's share of fair queues. It counts from the next claim on."""
        engine = self._app.engine
        await tenants.create(engine, Tenant(name=tenant))
        await tenants.change(engine, tenant, lambda seen: replace(seen, weight=weight))

    async def blocked(self, *, limit: int = 100, tenant: str | None = None) -> list[Line]:
        """Lines, the jobs of one ordering key, that dead jobs block."""
        return await self._app.engine.blocked_lines(limit=limit, tenant=tenant)

    async def release(self, queue: str, key: str, *, tenant: str = DEFAULT_TENANT) -> bool:
        """Let a blocked line go on without its dead jobs; False if none block it."""
        return await self._app.engine.release_line(queue, key, tenant=tenant)

    async def store(self) -> None:
        """Store what is declared. Workers do so when they start."""
        await self._app.backend.declare(Declarations(queues=dict(self._declared)))


def _read(field: str, value: object) -> object:
    if field == "order" and value in list(limit_settings.Order):
        return limit_settings.Order(str(value))
    if field == "on_dead" and value in list(limit_settings.OnDead):
        return limit_settings.OnDead(str(value))
    if field in limit_settings.RATES and isinstance(value, str):
        try:
            return units.rate(value)
        except ValueError as error:
            raise ConfigError(f"{field}: {error}") from None
    if field == "aging" and isinstance(value, str | timedelta | int | float):
        try:
            return microseconds(units.duration(value) if isinstance(value, str) else value)
        except (ValueError, OverflowError) as error:
            raise ConfigError(f"{field}: {error}") from None
    return value
