"""One trial: what every process that takes part in it has to know."""

from pathlib import Path

import msgspec

from longshore_lab.mix import Mix

__all__ = ["Trial"]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A load, a store and a place for the ledgers. Travels to each process as JSON."""

    url: str
    folder: str
    """Where the ledgers and the outside world are kept."""
    seed: int = 1
    jobs: int = 20_000
    batch: int = 100
    """Jobs per submit call."""
    pace: float = 0.0
    """Seconds the producer waits between two calls."""
    rate: float = 0.0
    """Open loop: so many jobs arrive per second, whether or not the queue keeps up; 0 for one
    call after the other."""
    in_flight: int = 0
    """Closed loop: a call is made while fewer jobs than this have not ended; 0 for no limit."""
    begins: int = 0
    """Open loop: when the first job is meant to arrive, on the clock of the ledgers."""
    ends: int = 0
    """Closed loop: when to send no more, on the same clock; 0 for all jobs."""
    keyed_every: int = 10
    """Every so many calls, the jobs carry idempotency keys; 0 for never."""
    lease_seconds: float = 5.0
    concurrency: int = 128
    drain_seconds: float = 5.0
    max_attempts: int = 3
    slow_scale: float = 0.1
    long_share: float = 0.0005
    has_keepers: bool = False
    """Beside each worker a process reports its death, as `longshore worker` has it."""
    sabotage: str | None = None
    """A fault to plant in the workers; see `sabotage`."""
    door: int = 0
    """The port of an HTTP service that the producer submits through; 0 for the store itself."""

    @property
    def mix(self) -> Mix:
        """The orders. The long ones take a third longer than the lease lasts."""
        return Mix(
            seed=self.seed,
            slow_scale=self.slow_scale,
            long_share=self.long_share,
            long_seconds=self.lease_seconds * 4 / 3,
        )

    def due(self, seq: int) -> int:
        """Open loop: when the order is meant to arrive. Orders of one call arrive together."""
        return self.begins + round(seq // self.batch * self.batch * 1_000_000 / self.rate)

    @property
    def ledgers(self) -> Path:
        """The folder of all ledgers."""
        return Path(self.folder) / "ledgers"

    @property
    def world(self) -> Path:
        """The file of the outside world."""
        return Path(self.folder) / "world"

    @property
    def topic(self) -> Path:
        """The file that relays ship to."""
        return Path(self.folder) / "topic"

    @property
    def enough(self) -> Path:
        """Open loop: once this file is there, no more is sent, though jobs are left."""
        return Path(self.folder) / "enough"

    @property
    def entrance(self) -> str:
        """Where the producer submits."""
        return f"http://127.0.0.1:{self.door}" if self.door else self.url

    def talk(self, worker: str) -> Path:
        """Where a worker says whether it waits for an answer."""
        return Path(self.folder) / f"{worker}.talk"

    def pack(self) -> str:
        """The trial as one word of a command line."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def unpack(cls, packed: str) -> "Trial":
        """What `pack` was given."""
        return msgspec.json.decode(packed, type=cls)
