"""The part of the contract that keeps a log of who did what, and of what happened."""

from typing import Protocol

from longshore.core.audit import Chained, Entry, Kind, Standing
from longshore.core.consumer import Cursor

__all__ = ["Audit"]


class Audit(Protocol):
    """Keeps a chain of entries.

    What somebody changes leaves an audit record in the same commit (`core.audit_record` says
    which). `chain` makes entries of them.
    """

    async def chain(
        self, *, limit: int, cursor: Cursor | None = None, after: int = 0
    ) -> Chained:
        """Chain up to `limit` recorded orders; with a cursor, so many batches of events too.

        Those are the ones behind the position `after`, and the cursor moves on in the same
        commit: each is chained once. CursorLostError, and nothing is chained, if the cursor is
        another's.
        """
        ...

    async def audit_entries(
        self,
        *,
        limit: int,
        after: int | None = None,
        before: int | None = None,
        kind: Kind | None = None,
    ) -> list[Entry]:
        """Up to `limit` entries `after` a number, oldest first, or `before` one, newest first.

        Before a number those of one kind, if one is named. Anything else is a ConfigError.
        """
        ...

    async def audit_standing(self) -> Standing:
        """Where the log begins and ends."""
        ...
