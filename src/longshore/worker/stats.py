"""What a worker has done since it started, as plain numbers."""

from dataclasses import dataclass

__all__ = ["WorkerStats"]


@dataclass(slots=True)
class WorkerStats:
    """Counters that only grow. A settlement counts once the engine has accepted it."""

    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    """Attempts that ended in an error or a timeout; each is also retried or dead."""
    retried: int = 0
    snoozed: int = 0
    dead: int = 0
    cancelled: int = 0
    released: int = 0
    """Given back uncharged: by a drain, or after waiting too long for a slot."""
    stale: int = 0
    """Settlements that the engine refused: the job was no longer this worker's."""
    timeouts: int = 0
    lost_leases: int = 0
    exchanges: int = 0
    resent: int = 0
    """Exchanges that had to be sent again because no answer came."""
    lost_keepers: int = 0
    """Keepers that died; each was replaced."""
