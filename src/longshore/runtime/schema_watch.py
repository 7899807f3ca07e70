"""Notice when the store's schema moves on to where this code cannot follow."""

import random
from collections.abc import Awaitable, Callable

from longshore.errors import EngineBusyError, EngineUnavailableError, SchemaError

__all__ = ["Outlook"]

_EVERY = 5.0
_EARLIEST = 0.75


class Outlook:
    """Looks every few seconds whether this code may still work on the store.

    Whoever migrates announces it and waits for those who have to leave, so they have to look,
    and there is time to finish what runs.
    """

    def __init__(
        self,
        ping: Callable[[], Awaitable[None]],
        *,
        on_refused: Callable[[], None],
        has_looked: bool = False,
        rng: random.Random | None = None,
    ) -> None:
        """`has_looked`: whoever asks has just been let in, and the first look comes later."""
        self._ping = ping
        self._on_refused = on_refused
        self._has_looked = has_looked
        self._rng = rng or random.Random()
        self.refusal: SchemaError | None = None
        """Why this code has to leave, and what to do about it."""

    async def tick(self) -> float:
        """Ask the store."""
        if not self._has_looked and self.refusal is None:
            try:
                await self._ping()
            except SchemaError as error:
                self.refusal = error
                self._on_refused()
            except (EngineBusyError, EngineUnavailableError, TimeoutError):
                pass  # those who have work to do with the engine complain of it
        self._has_looked = False
        return _EVERY * self._rng.uniform(_EARLIEST, 1.0)

    def leave(self) -> None:
        """Raise the refusal, if there was one, once everything has been left in order."""
        if self.refusal is not None:
            raise self.refusal
