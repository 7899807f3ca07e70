"""What an engine answers to workers, keepers and schedulers."""

import msgspec

from longshore.core.job import Claim, Held

__all__ = ["Exchanged", "Lapsed", "Promoted", "Reference", "Renewed", "Share"]

Reference = tuple[int, int]
"""(handle, delivery): names one claim inside its session."""


class Exchanged(msgspec.Struct, frozen=True):
    """The answer to an exchange. Sending the same number again returns the same answer."""

    now: int
    """The engine's clock, to translate local instants into engine time."""
    claims: list[Claim]
    stale: list[Reference] = []
    """Settlements that were refused: the claim was no longer this session's."""
    cancel: list[Reference] = []
    """Held claims whose jobs someone asked to cancel."""
    is_paused: bool = False
    """Every wanted queue is paused: nothing will come until one is resumed."""
    look_in: int | None = None
    """A limit held jobs back: microseconds after which it pays to ask again, if no wake-up
    comes before."""
    fair: tuple[str, ...] = ()
    """Of the queues that the claims are from, those whose tenants take turns."""
    waited: float = 0.0
    """Seconds that passed before the exchange began: see `Session.claim_at_wakeup`."""


class Share(msgspec.Struct, frozen=True):
    """How a session shares one of its queues with the other sessions that are live."""

    queue: str
    place: int = 0
    """How many older ones serve it."""
    of: int = 1
    """How many do, this one among them."""
    retry_rate: float | None = None
    """Retries that come back per second, in the whole fleet; null: as many as normally
    succeed."""
    max_running: int | None = None
    rate: float | None = None


class Renewed(msgspec.Struct, frozen=True):
    """The answer to a renewal."""

    now: int
    expires_at: int
    cancel: list[Reference] = []
    lost: list[Reference] = []
    """Held claims that are no longer this session's: stop their handlers."""
    released: int = 0
    """Claims of this session that it did not know of; they went back, uncharged."""
    is_quiet: bool = False
    """Someone asked this worker to drain."""
    shares: list[Share] = []
    """By queue; a keeper, who decides nothing, is not told."""


class Promoted(msgspec.Struct, frozen=True):
    """What a promote tick did."""

    count: int
    next_due_in: int | None
    """Microseconds until the next scheduled job is due; None when there is none."""


class Lapsed(msgspec.Struct, frozen=True):
    """A session whose lease ran out, and the jobs it left."""

    token: int
    worker: str
    held: list[Held]
