"""What a worker can run: handlers by type name."""

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from longshore.core.backoff import Backoff
from longshore.core.poison import MAX_CRASHES
from longshore.errors import ConfigError
from longshore.worker.app_locator import Origin

__all__ = ["Execution", "Handler", "Hook", "Registry"]


class Execution(StrEnum):
    """Where a handler runs."""

    ASYNC = "async"
    """On the worker's event loop; the function is a coroutine function."""
    THREAD = "thread"
    """In one of the worker's threads; a plain function."""
    PROCESS = "process"
    """In a child process of the worker; either."""


@dataclass(frozen=True, slots=True)
class Hook:
    """What a task wants done after something happened to a job of its."""

    run: Callable[[Any], Any]
    """Call it with what the handler's `decode` returned."""
    is_async: bool


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
    is_async: bool = False
    """Where the execution does not tell: the function is a coroutine function."""
    max_crashes: int = MAX_CRASHES
    """A job that was there when so many processes died, and alone in the last, is dead."""
    memory_bytes: int | None = None
    """The most memory its process may hold; without it, what the worker allows."""
    on_cancelled: tuple[Hook, ...] = ()
    """Run in the worker after a job of this type was cancelled while it ran."""


class Registry:
    """Handlers by type name."""

    def __init__(
        self,
        handlers: Iterable[Handler] = (),
        *,
        origin: Callable[[Collection[str]], Origin] | None = None,
        isolated: Collection[str] = (),
        builtin: Collection[str] = (),
    ) -> None:
        self._handlers: dict[str, Handler] = {}
        self._origin = origin
        self.isolated = frozenset(isolated)
        """The types whose suspects run in child processes, wherever the others run."""
        self.builtin = frozenset(builtin)
        """The types of Longshore's own tasks: a child process runs them without the app."""
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

    def origin(self, types: Collection[str]) -> Origin:
        """Where a child process finds these types, or ConfigError.

        Either all of them are built in, or none is.
        """
        if self._origin is None:
            raise ConfigError("these tasks have no module that a child process could import")
        return self._origin(types)

    def handlers_in(self, execution: Execution) -> dict[str, Handler]:
        """Those that run there, by type name."""
        named = self._handlers.items()
        return {name: one for name, one in named if one.execution is execution}

    @property
    def backoffs(self) -> dict[str, Backoff]:
        """By type name, where it is not the usual."""
        usual = Backoff()
        named = self._handlers.items()
        return {name: one.backoff for name, one in named if one.backoff != usual}

    @property
    def types(self) -> tuple[str, ...]:
        """Every type name, sorted."""
        return tuple(sorted(self._handlers))
