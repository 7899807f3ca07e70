"""The calls of the contract that no service answers: they are made beside the store."""

from collections.abc import Sequence
from typing import NoReturn

from longshore.core.account import Access
from longshore.core.audit import Chained
from longshore.core.bucket import Borrowed
from longshore.core.consumer import Cursor, Quarantined
from longshore.core.deed import Tally
from longshore.core.door import Refusal
from longshore.core.event import EventBatch
from longshore.core.job import Settlement, Submitted
from longshore.core.schedule import DueSchedule, Firing
from longshore.core.webhook import Endpoint
from longshore.engine import Lapsed, Promoted, Retention
from longshore.errors import NotOverHttpError

__all__ = ["RefusedCalls"]


class RefusedCalls:
    """Maintenance, delivery of events and webhooks, and what the service asks for itself.

    Whoever holds a key must not be able to end another worker's session, to fire or prune for
    everyone, or to read the secrets that webhooks are signed with.
    """

    async def owner_of(self, token: int) -> str | None:
        """Refused: the service knows whose sessions are."""
        refuse("telling whose a session is")

    async def promote(self, *, limit: int) -> Promoted:
        """Refused: the service promotes."""
        refuse("promoting")

    async def lapsed(self, *, grace: int, limit: int) -> list[Lapsed]:
        """Refused: the service reclaims."""
        refuse("reclaiming")

    async def reclaim(
        self, token: int, settlements: Sequence[Settlement], *, grace: int
    ) -> int:
        """Refused: the service reclaims."""
        refuse("reclaiming")

    async def due_schedules(self, *, limit: int) -> list[DueSchedule]:
        """Refused: a scheduler fires."""
        refuse("firing schedules")

    async def fire(self, firing: Firing) -> list[Submitted]:
        """Refused: a scheduler fires."""
        refuse("firing schedules")

    async def prune(self, retention: Retention, *, limit: int) -> int:
        """Refused: a scheduler prunes."""
        refuse("pruning")

    async def chain(
        self, *, limit: int, cursor: Cursor | None = None, after: int = 0
    ) -> Chained:
        """Refused: a scheduler chains the audit log."""
        refuse("chaining the audit log")

    async def note_submits(self, tally: Tally) -> None:
        """Refused: the service notes who submitted."""
        refuse("noting who submitted")

    async def take_cursor(self, consumer: str, *, holder: str, lease: int) -> Cursor | None:
        """Refused: a relay reads for consumers."""
        refuse("reading for a consumer of events")

    async def unread(self, cursor: Cursor, *, after: int, limit: int) -> list[EventBatch]:
        """Refused: a relay reads for consumers."""
        refuse("reading for a consumer of events")

    async def advance(
        self, cursor: Cursor, *, position: int, quarantined: Sequence[Quarantined] = ()
    ) -> None:
        """Refused: a relay reads for consumers."""
        refuse("reading for a consumer of events")

    async def leave_cursor(self, cursor: Cursor) -> None:
        """Refused: a relay reads for consumers."""
        refuse("reading for a consumer of events")

    async def mute(self, is_muted: bool) -> bool:
        """Refused: a scheduler watches the outbox."""
        refuse("leaving out progress")

    async def is_muted(self) -> bool:
        """Refused: a scheduler watches the outbox."""
        refuse("leaving out progress")

    async def put_webhook(self, endpoint: Endpoint, *, seen: Endpoint | None = None) -> bool:
        """Refused: the routes of webhooks are `/v1/webhooks`."""
        refuse("managing webhooks", "; use the routes /v1/webhooks")

    async def get_webhook(self, endpoint_id: str, *, tenant: str | None = None) -> Endpoint:
        """Refused: the routes of webhooks are `/v1/webhooks`."""
        refuse("managing webhooks", "; use the routes /v1/webhooks")

    async def webhooks(self, *, tenant: str | None = None) -> list[Endpoint]:
        """Refused: the routes of webhooks are `/v1/webhooks`."""
        refuse("managing webhooks", "; use the routes /v1/webhooks")

    async def delete_webhook(self, endpoint_id: str, *, tenant: str | None = None) -> None:
        """Refused: the routes of webhooks are `/v1/webhooks`."""
        refuse("managing webhooks", "; use the routes /v1/webhooks")

    async def enter_webhook(
        self, endpoint_id: str, holder: str, *, most: int, lease: int
    ) -> Refusal | None:
        """Refused: webhooks are delivered by workers beside the store."""
        refuse("delivering webhooks")

    async def leave_webhook(
        self, endpoint_id: str, holder: str, *, is_success: bool | None
    ) -> None:
        """Refused: webhooks are delivered by workers beside the store."""
        refuse("delivering webhooks")

    async def had_keys(self) -> bool:
        """Refused: the service asks for it itself."""
        refuse("checking keys")

    async def find_access(self, key_id: str) -> Access | None:
        """Refused: the service asks for it itself."""
        refuse("checking keys")

    async def note_use(self, key_ids: Sequence[str]) -> None:
        """Refused: the service asks for it itself."""
        refuse("checking keys")

    async def borrow(self, name: str, *, rate: float, burst: int, want: int) -> Borrowed:
        """Refused: the service asks for it itself."""
        refuse("counting requests")


def refuse(what: str, instead: str = "; run it where the store can be reached") -> NoReturn:
    """NotOverHttpError."""
    raise NotOverHttpError(f"{what} is not done over HTTP{instead}")
