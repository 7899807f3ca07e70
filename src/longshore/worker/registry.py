"""What a worker can run: handlers by type name."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from longshore.core.backoff import Backoff
from longshore.errors import ConfigError

__all__ = ["Execution", "Handler", "Registry"]


class Execution(StrEnum):
    """Where a handler runs."""

    ASYNC = "async"
    """On the worker's event loop; the function is a coroutine function."""
    THREAD = "thread"
    """In one of the worker's threads; a plain function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """One task as the worker sees it.

    Decoding and running are apart, so that an error in the one is never taken for the other's.
    """

    type: str
    decode: Callable[[bytes], Any]
    """The payload's arguments, or PayloadError."""
    run: Callable[[Any], Awaitable[object] | object]
    """Call the function with what `decode` returned."""
    execution: Execution = Execution.ASYNC
    encode_result: Callable[[object], bytes | None] = field(default=lambda _: None)
    """The result as stored; None for nothing. Raises PayloadError when it cannot be kept."""
    backoff: Backoff = field(default_factory=Backoff)
    retry_delay: Callable[[int], int] | None = None
    """Overrides the backoff: failures so far → microseconds."""


class Registry:
    """Handlers by type name."""

    def __init__(self, handlers: Iterable[Handler] = ()) -> None:
        self._handlers: dict[str, Handler] = {}
        for handler in handlers:
            self.add(handler)

    def add(self, handler: Handler) -> None:
        """Register it. Two handlers of one type are a ConfigError."""
        if handler.type in self._handlers:
            raise ConfigError(f"two tasks are registered as {handler.type!r}; rename one")
        self._handlers[handler.type] = handler

    def get(self, type_name: str) -> Handler | None:
        """The handler of this type."""
        return self._handlers.get(type_name)

    @property
    def types(self) -> tuple[str, ...]:
        """Every type name, sorted."""
        return tuple(sorted(self._handlers))
