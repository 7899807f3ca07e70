"""The schedules of a world: what they promise, and whether that came true.

Some worlds begin in the autumn night in which the clocks of Berlin are set back, in the first
of two hours that are both called two. A schedule that names the hour is due in that one only,
and one that runs in every hour in both.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from random import Random

from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core.schedule import CatchUp, Schedule, declared
from longshore.records import schedules
from longshore_lab.checkers import Finding
from longshore_lab.clerk import TYPE
from longshore_lab.firing import Beaten, judge
from longshore_lab.records import DueRan, Entry

__all__ = ["Calendar"]

_SECOND = 1_000_000
_HOUR = 3_600 * _SECOND
_STEP = 5 * _SECOND
_NEW_YEAR = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * _SECOND
_FOLD = int(datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp()) * _SECOND
"""When the clocks of Berlin go from three back to two."""
_BEAT = Beaten(
    Schedule(
        name="beat",
        type=TYPE,
        every=3 * _SECOND,
        catch_up=CatchUp.ALL,
        catch_up_limit=1_000,
    ),
    3 * _SECOND,
)
_IN_BERLIN = replace(_BEAT.schedule, every=None, timezone="Europe/Berlin")
_EVERY_HOUR = Beaten(replace(_IN_BERLIN, name="every hour", cron="*/5 * * * * *"), _STEP)
_AT_TWO = Beaten(replace(_IN_BERLIN, name="at two", cron="*/5 * 2 * * *"), _STEP)
_EXAMPLES = 5


class Calendar:
    """When a world begins, and what is due in it."""

    def __init__(self, rng: Random) -> None:
        is_autumn = rng.random() < 0.25
        self.begins = _FOLD - rng.randrange(30 * _SECOND) if is_autumn else _NEW_YEAR
        """Microseconds since the epoch."""
        self._beaten = [_BEAT, _EVERY_HOUR, _AT_TWO] if is_autumn else [_BEAT]
        self._begun = 0
        self._due: set[tuple[str, int]] = set()

    async def declare(self, engine: Engine) -> None:
        """Put the schedules in."""
        self._begun = await engine.now()
        for one in self._beaten:
            await schedules.put(engine, declared(one.schedule, now=self._begun))

    async def is_behind(self, engine: Engine, moment: int) -> bool:
        """Whether something that was due then has not been fired."""
        return any((one.next_due or 0) <= moment for one in await schedules.every(engine))

    async def withdraw(self, engine: Engine, moment: int) -> None:
        """Take the schedules out: nothing more is due, and all that was until then has fired.

        An engine that says itself how far it came cannot say that it stood still.
        """
        ends = {
            one.name: max(one.next_due or 0, moment + 1)
            for one in await schedules.every(engine)
        }
        for one in self._beaten:
            name = one.schedule.name
            await schedules.delete(engine, name)
            until = min(ends[name], _FOLD) if one is _AT_TWO else ends[name]
            self._due |= {(name, due) for due in one.due_times(self._begun, until)}

    def beats(self, entries: Iterable[Entry]) -> Finding:
        """Every due time of a schedule has one job."""
        verdict = judge(self._due, _ran(entries))
        wrong = [
            f"{due} of {name!r} {how}"
            for how, those in (
                ("was missed", verdict.missed),
                ("had two jobs", verdict.doubled),
                ("is no due time", verdict.strange),
            )
            for name, due in those
        ]
        return Finding("beats", len(self._due), len(wrong), wrong[:_EXAMPLES])

    def folded(self, entries: Iterable[Entry]) -> int:
        """How many jobs ran for local times that come twice."""
        return sum(_FOLD - _HOUR <= one.due < _FOLD + _HOUR for one in _ran(entries))


def _ran(entries: Iterable[Entry]) -> list[DueRan]:
    return [one.record for one in entries if isinstance(one.record, DueRan)]
