"""The part of the contract that tells what happened: to spectators, and to consumers.

A spectator reads on from any position and leaves no trace. A consumer has a name and a cursor
in the store: what it has not passed is kept, and one process at a time reads for it.
"""

from collections.abc import Sequence
from typing import Protocol

from longshore.contract.records import Put
from longshore.core.consumer import Consumer, Cursor
from longshore.core.event import EventBatch, Span

__all__ = ["Outbox"]


class Outbox(Protocol):
    """Reads what happened."""

    async def events(
        self, *, after: int, limit: int, cursor: Cursor | None = None
    ) -> list[EventBatch]:
        """Up to `limit` batches with a position greater than `after`, in order of commit.

        Without a cursor, for spectators: what they have not read is not kept for them, and
        where the engine's machine loses power, the last they saw may not have happened.
        For the holder of a cursor, or CursorLostError: what is returned has happened for good,
        and may be handed on.
        """
        ...

    async def span(self) -> Span:
        """Which positions are kept. What was committed before the call is not behind `last`."""
        ...

    async def take_cursor(self, consumer: str, *, holder: str, lease: int) -> Cursor | None:
        """The right to read for the consumer; None while another holder has it.

        It lasts for `lease` microseconds and as long after as nobody else takes it; reading
        and advancing extend it. A name that is new is remembered: from then on pruning keeps
        what it has not passed, and it begins with the oldest event that is there.
        """
        ...

    async def advance(
        self,
        cursor: Cursor,
        *,
        position: int,
        quarantined: Sequence[Put] = (),
        releases: bool = False,
    ) -> None:
        """The consumer is done with everything up to `position`; or CursorLostError.

        Events that it was not able to hand on are stored as records in the same commit. Never
        goes back. With `releases` another holder may take the cursor at once.
        """
        ...

    async def consumers(self) -> list[Consumer]:
        """Every consumer, by name."""
        ...

    async def delete_consumer(self, name: str) -> bool:
        """Forget a consumer, so that nothing is kept for it; whether there was one."""
        ...
