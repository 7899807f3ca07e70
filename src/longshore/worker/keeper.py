"""The worker's side of its keeper: start it, see that it lives, start another, dismiss it."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from longshore.core.backoff import Backoff
from longshore.runtime.clock import Clock
from longshore.runtime.flight import FlightRecord, open_memory
from longshore.runtime.keeper_config import IGNORED, Orders, encode
from longshore.worker.lease import Identity
from longshore.worker.stats import WorkerStats

__all__ = ["KeeperOffer", "KeeperProcess"]

log = logging.getLogger("longshore.worker")

_BOOT = (
    "import sys; sys.path[:] = sys.argv[1:]; from longshore.keeper.__main__ import main; main()"
)
"""The modules of this very process, and nothing that a site or the environment adds."""
_LOOK = 0.5
_ATTEMPTS = 16_384
"""Attempts that can be told apart, beside those that run: so many may have ended at full speed
while one exchange is under way."""
_STARTING = 30.0
"""Seconds after which a keeper that was never seen to look is given up."""
_STEADY = 10.0
"""Seconds after which a keeper counts as healthy, and the next is started at once."""
_LONGEST_PAUSE = 30.0
_LEAVING = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOffer:
    """What the composition root knows and a keeper needs."""

    url: str
    """The engine's, with its secrets."""
    log_level: str = "info"
    logs_json: bool = False
    metrics_folder: str | None = None
    """Where the worker and its neighbours count, if it has any."""
    stuck_after: float = 60.0
    exit_when_stuck: bool = False
    ready_file: str | None = None
    backoffs: Mapping[str, Backoff] = field(default_factory=dict[str, Backoff])
    """The worker knows them: by type, where it is not the usual."""


class KeeperProcess:
    """One keeper at a time, and the flight record they share with this process.

    A worker without a keeper works all the same: it renews its lease itself, and only its death
    is noticed later. So nothing here ends a worker.
    """

    def __init__(
        self,
        offer: KeeperOffer,
        identity: Identity,
        *,
        rooms: int,
        clock: Clock,
        stats: WorkerStats,
    ) -> None:
        self._offer = offer
        self._worker = identity.worker
        self._lease = identity.lease
        self._clock = clock
        self._stats = stats
        self._capacity = rooms + _ATTEMPTS
        self._memory = open_memory(self._capacity)
        self._self = os.pidfd_open(os.getpid())
        self.record = FlightRecord(self._memory, self._capacity)
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._start_at = 0.0
        self._pause = _LOOK

    @property
    def pid(self) -> int | None:
        """The keeper's, while there is one."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start a keeper, or note when to try again."""
        now = self._clock.monotonic()
        self._started, self._start_at = now, now + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        paths = [path or os.getcwd() for path in sys.path]
        try:
            with _deaf():
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _BOOT, *paths],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(self._memory, self._self),
                    # Away from the worker's terminal and group: it has to outlive the worker.
                    start_new_session=True,
                    bufsize=0,
                )
        except (OSError, TypeError) as error:  # embedded interpreters have no executable
            log.warning("keeper not started", extra={"error": str(error)})
            return
        self._process = process
        # One write of a few hundred bytes: a pipe takes them at once.
        with suppress(BrokenPipeError):
            assert process.stdin is not None
            process.stdin.write(encode(self._orders()))
        log.info("keeper started", extra={"worker": self._worker, "pid": process.pid})

    async def tick(self) -> float:
        """See that there is a keeper; if there is none, start one within a second.

        That this is called at all is the pulse of the event loop.
        """
        now = self._clock.monotonic()
        self.record.beat(now)
        process = self._process
        if process is not None and (code := process.poll()) is not None:
            log.warning("keeper died", extra={"worker": self._worker, "code": code})
            self._stats.lost_keepers += 1
            self._forget(process)
            if now - self._started >= _STEADY:
                self._pause = _LOOK
        if self._process is None:
            if now >= self._start_at:
                self.start()
        elif self._is_stuck(now):
            log.warning("keeper stands still, ended", extra={"worker": self._worker})
            self._process.kill()
        return _LOOK

    async def close(self) -> None:
        """Send the keeper away. A session that could not be ended is left for it to bury."""
        self.record.leave()
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            if not await _has_ended(process):
                self._leave_behind(process)
        os.close(self._memory)
        os.close(self._self)

    def _leave_behind(self, process: subprocess.Popen[bytes]) -> None:
        """End it if it has nothing to do; else let it try on, even after this process."""
        log.warning("keeper left behind", extra={"worker": self._worker, "pid": process.pid})
        if not self.record.token:
            process.kill()
            process.wait(_LEAVING)
        else:
            process.returncode = 0  # nobody here will ask for it again

    def _is_stuck(self, now: float) -> bool:
        seen = self.record.keeper_pulse
        limit = max(self._lease, _STEADY) if seen >= self._started else _STARTING
        return now - max(seen, self._started) > limit

    def _forget(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        process.stdin.close()
        self._process = None

    def _orders(self) -> Orders:
        return Orders(
            url=self._offer.url,
            worker=self._worker,
            lease=self._lease,
            memory=self._memory,
            capacity=self._capacity,
            process=self._self,
            stuck_after=self._offer.stuck_after,
            exit_when_stuck=self._offer.exit_when_stuck,
            ready_file=self._offer.ready_file,
            backoffs=dict(self._offer.backoffs),
            log_level=self._offer.log_level,
            logs_json=self._offer.logs_json,
            metrics_folder=self._offer.metrics_folder,
        )


@contextmanager
def _deaf() -> Generator[None]:
    """What is started in here does not hear these signals, not even before it ignores them.

    The worker hears them afterwards.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait for the process, for a second at most: it may have a session to bury."""
    if process.poll() is not None:
        return True
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    descriptor = os.pidfd_open(process.pid)
    loop.add_reader(descriptor, over.set)
    try:
        async with asyncio.timeout(_LEAVING):
            await over.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return process.poll() is not None
