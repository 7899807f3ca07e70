"""The queues of an app: what its code says of them."""

from collections.abc import Iterator
from typing import Protocol, TypedDict, Unpack

from msgspec.structs import replace

from longshore import overriding
from longshore.core import flow, quantity
from longshore.core.flow import QueueFlow, QueueSettings
from longshore.engine import Engine
from longshore.errors import ConfigError

__all__ = ["QueueOptions", "Queues"]


class QueueOptions(TypedDict, total=False):
    """What code can say of a queue; an operator may override each."""

    max_running: int
    """Jobs of the queue that run at once, in the whole fleet."""
    rate: float | str
    """Jobs that start per second, in the whole fleet: a number, or `"30/m"`."""
    burst: int
    """Jobs that may start at once after a pause; unless given, what the rate brings in a
    second."""
    max_depth: int
    """Jobs that may wait; past it submits are refused with QueueFullError."""


class Home(Protocol):
    """What queues need of their app."""

    @property
    def engine(self) -> Engine:
        """The engine, or ConfigError while the app is not open."""
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
        if refused := sorted(said.keys() - flow.ENFORCED):
            raise ConfigError(f"{refused[0]} is not a setting of queues")
        settings = replace(QueueSettings(), **said)
        flow.validate(name, settings)
        for burst, rate in flow.BURSTS.items():
            if getattr(settings, burst) is not None and getattr(settings, rate) is None:
                raise ConfigError(f"{burst} says nothing without {rate}; give both")
        self._declared[name] = settings

    def __iter__(self) -> Iterator[QueueFlow]:
        return (QueueFlow(name, settings) for name, settings in self._declared.items())

    async def store(self) -> None:
        """Store what is declared. Workers do so when they start."""
        for name, settings in self._declared.items():
            await overriding.declare(self._app.engine, name, settings)


def _read(field: str, value: object) -> object:
    if field in flow.RATES and isinstance(value, str):
        try:
            return quantity.rate(value)
        except ValueError as error:
            raise ConfigError(f"{field}: {error}") from None
    return value
