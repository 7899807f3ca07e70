"""What chaos does, and a plan of it that a seed decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import NamedTuple

from longshore_lab.records import FaultKind

__all__ = [
    "OF_STORE_AND_WIRE",
    "ON_A_FILE",
    "ON_A_SERVER",
    "PROCESSES",
    "Harm",
    "Span",
    "Stroke",
    "plan",
]

_LONGEST = 4.0
"""Seconds a fault of wire, disk or lock lasts at most: well within the lease."""


class Harm(StrEnum):
    """What the supervisor does."""

    KILL_WORKER = "kill -9 a worker"
    STOP_WORKER = "SIGSTOP a worker for two leases"
    TERMINATE_WORKER = "SIGTERM a worker"
    KILL_PRODUCER = "kill -9 the producer"
    KILL_SCHEDULER = "kill -9 a scheduler"
    KILL_API = "kill -9 the HTTP service that the producer submits through"
    KILL_RELAY = "kill -9 the relay"
    FILL_DISK = "fill the disk under the store, then free it"
    SKEW = "set the clock of each process, by up to five minutes of its own"
    SET_BACK = "set the machine's clock back by up to ten seconds"
    HOLD_LOCK = "hold the write lock of the file"
    CRASH = "crash the server (pg_ctl stop -m immediate) and start it"
    TERMINATE_BACKENDS = "pg_terminate_backend every connection"
    DELAY = "delay every packet by 50–200 ms"
    RESET = "reset every connection"
    REFUSE = "reset connections, old and new"
    BLACKHOLE = "let nothing through"
    HALF_OPEN = "close the server's side only"
    LOSE_ANSWERS = "carry out what is asked, and lose the answer"


PROCESSES = {
    Harm.KILL_WORKER: ("worker", FaultKind.KILL),
    Harm.STOP_WORKER: ("worker", FaultKind.STOP),
    Harm.TERMINATE_WORKER: ("worker", FaultKind.TERMINATE),
    Harm.KILL_PRODUCER: ("producer", FaultKind.KILL),
    Harm.KILL_SCHEDULER: ("scheduler", FaultKind.KILL),
    Harm.KILL_API: ("api", FaultKind.KILL),
    Harm.KILL_RELAY: ("relay", FaultKind.KILL),
}
"""What is done to processes: to which, and what."""

ON_A_SERVER = tuple(one for one in Harm if one not in (Harm.SET_BACK, Harm.HOLD_LOCK))
"""A file has no server and no wire, and its clock is that of the processes."""
ON_A_FILE = (*PROCESSES, Harm.FILL_DISK, Harm.SET_BACK, Harm.HOLD_LOCK)
OF_STORE_AND_WIRE = frozenset(Harm) - PROCESSES.keys() - {Harm.SKEW, Harm.SET_BACK}
"""After which the fleet has to be back at work by itself."""

_WEIGHTS: dict[Harm, int] = {
    Harm.KILL_WORKER: 4,
    Harm.STOP_WORKER: 2,
    Harm.TERMINATE_WORKER: 2,
    Harm.KILL_PRODUCER: 1,
    Harm.KILL_SCHEDULER: 1,
    Harm.KILL_API: 1,
    Harm.KILL_RELAY: 1,
    Harm.FILL_DISK: 2,
    Harm.SKEW: 2,
    Harm.SET_BACK: 1,
    Harm.HOLD_LOCK: 3,
    Harm.CRASH: 2,
    Harm.TERMINATE_BACKENDS: 2,
    Harm.DELAY: 3,
    Harm.RESET: 3,
    Harm.REFUSE: 2,
    Harm.BLACKHOLE: 3,
    Harm.HALF_OPEN: 2,
    Harm.LOSE_ANSWERS: 3,
}


@dataclass(frozen=True, slots=True)
class Stroke:
    """One fault of a plan."""

    after: float
    """Seconds since the one before was over."""
    harm: Harm
    lasts: float
    choice: float
    """Which process, how long a delay, how far a clock: a share of what there is."""


class Span(NamedTuple):
    """From when to when something was not whole, on the clock of the ledgers."""

    began: int
    whole: int
    """The same as `began` where nothing has to be mended: a kill, a reset."""


def plan(
    seed: int, seconds: float, *, of: Sequence[Harm] = ON_A_SERVER, every: float = 3.0
) -> list[Stroke]:
    """Every kind once, in an order that the seed decides, then by weight."""
    random = Random(seed)
    count = max(int(seconds / every), 1)
    first = random.sample(list(of), len(of))
    weights = [_WEIGHTS[one] for one in of]
    more = random.choices(list(of), weights, k=max(count - len(first), 0))
    return [
        Stroke(
            every * (0.5 + random.random()),
            harm,
            0.5 + random.random() * (_LONGEST - 0.5),
            random.random(),
        )
        for harm in [*first, *more][:count]
    ]
