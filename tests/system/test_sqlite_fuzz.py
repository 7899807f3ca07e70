"""Processes that do everything at once to one file, and are killed; the history must add up."""

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.event import SETTLED, Event, Name, expand
from longshore.core.job import JobId
from longshore.core.state import State, Verb
from longshore.engines import open_engine
from longshore.testing.harness import eventually

PROGRAM = Path(__file__).with_name("fuzz_process.py")

WAITS, SCHEDULED, HELD, BEGUN, FAILED = "waits", "scheduled", "held", "begun", "failed"
DOOMED, BEGUN_DOOMED = "doomed", "begun and doomed"
DONE, DEAD, CANCELLED, GONE = "succeeded", "dead", "cancelled", "gone"

# What each event may come upon, and where it leads. A claim writes no event: whatever needs
# one may come upon a job that waits.
LIFE: dict[Name, dict[str, str]] = {
    Name.READY: {SCHEDULED: WAITS},
    Name.STARTED: {HELD: BEGUN, DOOMED: BEGUN_DOOMED},
    Name.SUCCEEDED: {BEGUN: DONE, BEGUN_DOOMED: DONE},
    Name.FAILED: {BEGUN: FAILED, BEGUN_DOOMED: "failed and doomed"},
    Name.RETRYING: {FAILED: SCHEDULED},
    Name.SNOOZED: {BEGUN: SCHEDULED},
    Name.RELEASED: {HELD: WAITS, BEGUN: WAITS},
    Name.RECLAIMED: {HELD: WAITS, BEGUN: WAITS},
    Name.DEAD: {FAILED: DEAD, "failed and doomed": DEAD},
    Name.CANCEL_REQUESTED: {HELD: DOOMED, BEGUN: BEGUN_DOOMED},
    Name.CANCELLED: dict.fromkeys(
        (WAITS, SCHEDULED, HELD, BEGUN, DOOMED, BEGUN_DOOMED, "failed and doomed"), CANCELLED
    ),
    Name.REPLAYED: {DEAD: WAITS, CANCELLED: WAITS},
    Name.PURGED: {DONE: GONE, DEAD: GONE, CANCELLED: GONE},
}
ENDINGS = set(SETTLED.values())
FINISHED = {State.SUCCEEDED: DONE, State.DEAD: DEAD, State.CANCELLED: CANCELLED}


class Fleet:
    """The processes, each with a log of what it was answered."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._rng = random.Random(seed)
        self._processes: list[subprocess.Popen[str]] = []
        self._started = 0

    def start(self) -> None:
        self._started += 1
        log = self._folder / f"{self._started}.log"
        process = subprocess.Popen(
            [
                sys.executable,
                PROGRAM,
                f"sqlite:///{self._folder}/jobs.db",
                str(self._rng.randrange(1 << 30)),
                log,
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        self._processes.append(process)

    def kill_one(self) -> None:
        self._kill(self._processes.pop(self._rng.randrange(len(self._processes))))

    def kill_all(self) -> None:
        while self._processes:
            self._kill(self._processes.pop())

    def lines(self, word: str) -> list[list[str]]:
        """What the logs say about this; a line that a kill cut off is left out."""
        found: list[list[str]] = []
        for log in sorted(self._folder.glob("*.log")):
            for line in log.read_text().splitlines(keepends=True):
                words = line.split()
                if line.endswith("\n") and words[0] == word:
                    found.append(words[1:])
        return found

    def _kill(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def _bury_everyone(engine: Engine) -> None:
    async def is_quiet() -> bool:
        for one in await engine.expired_sessions(grace=0, limit=1_000):
            lost = [settle.lost(held) for held in one.held]
            await engine.end_session(one.token, lost, grace=0)
        return not (await engine.sessions()).sessions and not await engine.expired_sessions(
            grace=0, limit=1
        )

    await eventually(is_quiet, within=10)


async def _lives(engine: Engine) -> dict[JobId, list[Event]]:
    lives: dict[JobId, list[Event]] = defaultdict(list)
    after = 0
    while batches := await engine.events(after=after, limit=500):
        for batch in batches:
            assert batch.position > after
            after = batch.position
            for event in expand(batch):
                lives[event.job_id].append(event)
    return lives


def _walk(life: list[Event]) -> set[str]:
    """Every place where a job with this life can be, or an AssertionError."""
    assert life[0].name is Name.SUBMITTED
    places = {WAITS, SCHEDULED}
    for event in life[1:]:
        assert event.name is not Name.SUBMITTED, "submitted twice"
        if event.name not in {Name.READY, Name.REPLAYED, Name.PURGED} and WAITS in places:
            places = places | {HELD}
        steps = LIFE[event.name]
        places = {steps[place] for place in places if place in steps}
        assert places, f"{event.name} cannot come here: {[one.name.value for one in life]}"
    return places


def _check_counters(row: sqlite3.Row, life: list[Event]) -> None:
    names = [event.name for event in life]
    endings = [
        event
        for event in life
        if event.name in ENDINGS
        and (event.name is not Name.CANCELLED or "delivery" in event.details)
    ]
    told = [event.details.get("delivery", place) for place, event in enumerate(endings, 1)]
    assert told == list(range(1, len(endings) + 1)), "a delivery ended twice, or not at all"
    assert row["delivery"] == len(endings)
    assert row["attempt"] == names.count(Name.STARTED)
    while Name.REPLAYED in names:
        names = names[names.index(Name.REPLAYED) + 1 :]
    assert row["failures"] == names.count(Name.FAILED)
    assert row["crashes"] + row["lapses"] == names.count(Name.RECLAIMED)


async def _check(engine: Engine, path: Path, fleet: Fleet) -> Counter[str]:
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    rows = {row["id"]: row for row in db.execute("select * from longshore_jobs")}
    lives = await _lives(engine)
    for job_id, life in lives.items():
        places = _walk(life)
        row = rows.get(job_id)
        if row is None:
            assert places & {GONE, DONE, CANCELLED}, f"lost in {places}"
            continue
        assert State(row["state"]) is not State.RUNNING, "held by nobody who lives"
        assert FINISHED.get(State(row["state"]), row["state"]) in places | {
            "ready" if WAITS in places else ""
        }
        assert (row["finished_at"] is not None) == (row["state"] in FINISHED)
        _check_counters(row, life)
    assert rows.keys() <= lives.keys(), "a job that nobody was told of"
    _check_answers(fleet, lives)
    await _check_counts(engine, db)
    assert db.execute("pragma integrity_check").fetchone()[0] == "ok"
    db.close()
    return Counter(event.name.value for life in lives.values() for event in life)


def _check_answers(fleet: Fleet, lives: dict[JobId, list[Event]]) -> None:
    assert fleet.lines("crash") == []
    for (job_id,) in fleet.lines("accepted"):
        assert JobId(bytes.fromhex(job_id)) in lives, "accepted and lost"
    for job_id, delivery, verb in fleet.lines("settled"):
        endings = [
            event.name
            for event in lives[JobId(bytes.fromhex(job_id))]
            if event.name in ENDINGS
            and (event.name is not Name.CANCELLED or "delivery" in event.details)
        ]
        # Where a cancel was requested, the engine heeded that instead.
        ended = endings[int(delivery) - 1]
        assert ended in {SETTLED[Verb(verb)], Name.CANCELLED}, "settled and undone"


async def _check_counts(engine: Engine, db: sqlite3.Connection) -> None:
    for tenant in (None, "acme"):
        counted = {
            (one.queue, state): getattr(one, state)
            for one in await engine.counts(tenant=tenant)
            for state in State
            if getattr(one, state)
        }
        found = db.execute(
            "select queue, state, count(*) from longshore_jobs"
            " where ? is null or tenant = ? group by queue, state",
            (tenant, tenant),
        )
        assert counted == {(queue, State(state)): number for queue, state, number in found}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "seconds"),
    [
        pytest.param(3, 4, marks=pytest.mark.slow),
        pytest.param(6, 120, marks=pytest.mark.prove),
    ],
)
async def test_whatever_is_done_and_killed_every_job_has_one_legal_history(
    tmp_path: Path, processes: int, seconds: int
) -> None:
    seed = int(os.environ.get("LONGSHORE_SEED", random.randrange(1 << 30)))
    sys.stderr.write(f"LONGSHORE_SEED={seed}\n")
    engine = open_engine(f"sqlite:///{tmp_path}/jobs.db")
    await engine.migrate()
    fleet, rng = Fleet(tmp_path, seed), random.Random(seed)
    try:
        for _ in range(processes):
            fleet.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(rng.random())
            fleet.kill_one()
            fleet.start()
    finally:
        fleet.kill_all()

    await _bury_everyone(engine)
    seen = await _check(engine, tmp_path / "jobs.db", fleet)

    errors = Counter(words[0] for words in fleet.lines("error"))
    sys.stderr.write(f"{dict(seen)}\n{dict(errors)}\n")
    assert seen[Name.SUCCEEDED] > 0
    await engine.close()
