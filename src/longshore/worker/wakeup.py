"""What ends the fetcher's waits."""

import asyncio
from collections.abc import Callable

__all__ = ["Bell"]


class Bell(asyncio.Event):
    """An event that can also be heard where nobody waits for the event itself."""

    def __init__(self) -> None:
        super().__init__()
        self.on_ring: Callable[[], None] | None = None

    def set(self) -> None:
        """Ring."""
        super().set()
        if self.on_ring is not None:
            self.on_ring()
