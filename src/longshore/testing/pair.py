"""Two engines that get the same calls, and must give the same answers."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from longshore.contract import (
    Engine,
    Exchanged,
    JobFilter,
    Lapsed,
    QueueCounts,
    Reference,
    Renewed,
    Session,
)
from longshore.core import event
from longshore.core.job import (
    Claim,
    Held,
    Job,
    JobId,
    NewJob,
    Report,
    Settlement,
    Submitted,
    Verdict,
)
from longshore.core.settle import outcome
from longshore.errors import LongshoreError
from longshore.records import schedules
from longshore.testing.factories import a_job
from longshore.testing.manual import reference
from longshore.testing.model import ModelEngine

__all__ = ["Check", "Pair", "PairedSession", "counts"]

T = TypeVar("T")

EVERY = 100_000
MANY = 100


class Check(Protocol):
    """Looks into an engine's own tables."""

    async def look(self, jobs: Sequence[Job]) -> None:
        """Raise AssertionError unless these are all the jobs that are there."""
        ...

    async def close(self) -> None:
        """Let go of the tables."""
        ...


class Pair:
    """An engine beside the model. The first difference between them is an AssertionError.

    What a caller keeps between calls (claims, references, tokens) is the model's; the
    engine's own handles and tokens are looked up when it is asked.
    """

    def __init__(
        self,
        engine: Engine,
        model: ModelEngine,
        check: Check | None = None,
        census: Counter[str] | None = None,
    ) -> None:
        self._check = check
        self.engine = engine
        self.model = model
        self.census = Counter[str]() if census is None else census
        """How many jobs had what happen to them."""
        self.tokens: dict[int, int] = {}
        self._loop = asyncio.new_event_loop()
        self._handles: dict[int, int] = {}
        self._jobs: list[Job] = []

    def run(self, call: Awaitable[T]) -> T:
        """Wait for one call of one engine."""
        return self._loop.run_until_complete(call)

    def close(self) -> None:
        """Close both engines and the check, and the loop they ran on."""
        if self._check is not None:
            self.run(self._check.close())
        self.run(self.engine.close())
        self.run(self.model.close())
        self._loop.close()

    def ask(self, call: Callable[[Engine], Awaitable[T]]) -> T:
        """The model's answer, after the engine gave the same; both may raise the same error."""
        answers = self.outcomes(call(self.engine), call(self.model))
        return self.agreed(*answers)

    def new(self, options: dict[str, Any]) -> NewJob:
        """A job with such of these options as the engine knows."""
        job = a_job(**options)
        return job if self.engine.traits.ordering_keys else replace(job, ordering_key=None)

    def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Submit to both. Jobs of one call that are not alike may stand in any order."""
        answers = self.ask(lambda engine: engine.submit(jobs))
        asked = list(dict.fromkeys(job.id for job in jobs))
        accepted = {one.id for one in answers if one.verdict is Verdict.ACCEPTED}
        self.census["submitted"] += len(accepted)
        if len(accepted) > 1:
            page = self.run(self.engine.find(JobFilter(), limit=len(accepted)))
            order = [job.id for job in reversed(page.jobs)]
            assert set(order) == accepted, "the last to come are the newest"
            by_id = {job.id: job for job in reversed(jobs)}
            for alike in _alike([by_id[job_id] for job_id in asked if job_id in accepted]):
                assert [job_id for job_id in order if job_id in alike] == list(alike)
            self.model.rearrange(order)
        return answers

    def jobs(self, which: JobFilter | None = None) -> list[Job]:
        """All, or those of a filter, as the model knows them."""
        return self.run(_jobs(self.model, which or JobFilter()))

    def outcomes(self, engine: Awaitable[T], model: Awaitable[T]) -> tuple[Any, Any]:
        """What each call returned or raised."""
        return self.run(_outcomes(engine, model))

    def agreed(self, engine: Any, model: Any) -> Any:
        """The answer, if both are the same."""
        if isinstance(model, LongshoreError):
            assert type(engine) is type(model), f"{engine!r} instead of {model!r}"
            raise model
        assert engine == model, f"{engine!r} instead of {model!r}"
        return model

    def meet(self, engine: Sequence[Claim | Held], model: Sequence[Claim | Held]) -> None:
        """Note under which handles the two know the same jobs."""
        by_id = {one.id: one.handle for one in engine}
        self._handles |= {one.handle: by_id[one.id] for one in model if one.id in by_id}

    def there(self, names: Sequence[Reference]) -> list[Reference]:
        """The engine's names for these claims."""
        return [(self._handle(handle), delivery) for handle, delivery in names]

    def settlements_there(self, settlements: Sequence[Settlement]) -> list[Settlement]:
        """The same settlements for the engine's claims."""
        return [replace(one, handle=self._handle(one.handle)) for one in settlements]

    def reports_there(self, reports: Sequence[Report]) -> list[Report]:
        """The same reports of the engine's claims."""
        return [replace(one, handle=self._handle(one.handle)) for one in reports]

    def lapsed(self) -> list[Lapsed]:
        """Every lapsed session, as the model lists it."""
        there, here = self.outcomes(
            self.engine.expired_sessions(grace=0, limit=EVERY),
            self.model.expired_sessions(grace=0, limit=EVERY),
        )
        assert len(there) == len(here)
        for theirs, ours in zip(there, here, strict=True):
            self.meet(theirs.held, ours.held)
            assert theirs.token == self.tokens[ours.token]
            assert theirs.worker == ours.worker
            assert _nameless(theirs.held) == _nameless(ours.held)
        return here

    def compare(self) -> None:
        """Everything that people can see is the same on both sides."""
        there, here = self.outcomes(_seen(self.engine), _seen(self.model))
        sessions = [
            replace(view, token=self.tokens[view.token]) for view in here.pop("sessions")
        ]
        self.agreed(there.pop("sessions"), sessions)
        self.agreed(there, here)
        self._compare_jobs()

    def _compare_jobs(self) -> None:
        """A listing takes a store longer than all else: not again what the check will see."""
        jobs = self.jobs()
        if self._check is None or jobs != self._jobs:
            self.agreed(self.run(_jobs(self.engine, JobFilter())), jobs)
        if self._check is not None:
            self.run(self._check.look(jobs))
        self._jobs = jobs

    def compare_events(self) -> None:
        """Every job has the same story on both sides, told in growing positions."""
        there, here = self._story(self.engine), self._story(self.model)
        assert there == here, f"{there!r} instead of {here!r}"

    def _story(self, engine: Engine) -> dict[JobId, list[tuple[str, int, str | None]]]:
        batches = self.run(engine.events(after=0, limit=EVERY))
        positions = [batch.position for batch in batches]
        assert positions == sorted(set(positions))
        story: dict[JobId, list[tuple[str, int, str | None]]] = {}
        for batch in batches:
            for one in event.expand(batch):
                story.setdefault(one.job_id, []).append((one.name, one.at, one.trace))
        return story

    def _handle(self, handle: int) -> int:
        return self._handles.get(handle, -handle)


class PairedSession:
    """A session with each of the two, and what its worker knows."""

    def __init__(self, pair: Pair, engine: Session, model: Session) -> None:
        self.pair = pair
        self.engine = engine
        self.model = model
        self.number = 0
        self.held: list[Claim] = []
        self.gone: list[Claim] = []
        """Claims that were once held: everything about them is stale."""
        self._claimed_by: dict[Reference, int] = {}
        self._last: dict[str, Any] = {"started": (), "progress": (), "settlements": ()}

    def __repr__(self) -> str:
        return f"session {self.model.token} after exchange {self.number}"

    def exchange(
        self,
        *,
        started: Sequence[Reference] = (),
        progress: Sequence[Report] = (),
        settlements: Sequence[Settlement] = (),
        want: int = 0,
        queues: Sequence[str] | None = None,
        number: int | None = None,
    ) -> Exchanged:
        """The next exchange, or one with another number, with both."""
        sent: dict[str, Any] = {
            "started": started,
            "progress": progress,
            "settlements": settlements,
            "want": want,
            "queues": queues,
        }
        answer = self._exchange(self.number + 1 if number is None else number, sent)
        self.number += 1
        self._last = sent
        self._count(settlements, answer)
        self._drop((one.handle, one.delivery) for one in settlements)
        self.held += answer.claims
        self._claimed_by |= {reference(claim): self.number for claim in answer.claims}
        return answer

    def repeat(self) -> Exchanged:
        """The last exchange once more."""
        return self._exchange(self.number, self._last)

    def renew(
        self, *, number: int, held: Sequence[Claim] | None, started: Sequence[Reference]
    ) -> Renewed:
        """Renew with both. What is no longer held is dropped here too."""
        names = None if held is None else [reference(claim) for claim in held]
        there_held = None if names is None else self.pair.there(names)
        there, here = self.pair.outcomes(
            self.engine.renew(number=number, held=there_held, started=self.pair.there(started)),
            self.model.renew(number=number, held=names, started=started),
        )
        if isinstance(here, LongshoreError) or isinstance(there, LongshoreError):
            return self.pair.agreed(there, here)
        assert sorted(there.cancel) == sorted(self.pair.there(here.cancel))
        assert sorted(there.lost) == sorted(self.pair.there(here.lost))
        self.pair.agreed(replace(there, cancel=[], lost=[]), replace(here, cancel=[], lost=[]))
        if names is not None:
            self._drop(
                name
                for name, claimed_by in self._claimed_by.items()
                if claimed_by <= number and name not in names
            )
        return here

    def _count(self, settlements: Sequence[Settlement], answer: Exchanged) -> None:
        """Note what came of an exchange, and what overtook a job that was claimed before it."""
        census, claimed = self.pair.census, len(answer.claims)
        census["claimed"] += claimed
        census["claimed by the hundred"] += claimed if claimed > MANY else 0
        settled = {(one.handle, one.delivery): one for one in settlements}
        for stale in answer.stale:
            settled.pop(stale, None)
        is_overtaking = False
        for claim in self.held:
            one = settled.get(reference(claim))
            if one is None:
                is_overtaking = True
            else:
                census[outcome(one)] += 1
                census[f"{outcome(one)} out of order"] += is_overtaking

    def _drop(self, names: Iterable[Reference]) -> None:
        dropped = set(names)
        self.gone += [claim for claim in self.held if reference(claim) in dropped]
        self.held = [claim for claim in self.held if reference(claim) not in dropped]

    def _exchange(self, number: int, sent: dict[str, Any]) -> Exchanged:
        sent_there: dict[str, Any] = {
            **sent,
            "started": self.pair.there(sent["started"]),
            "progress": self.pair.reports_there(sent["progress"]),
            "settlements": self.pair.settlements_there(sent["settlements"]),
        }
        there: Any = self.pair.run(_outcome(self.engine.exchange(number, **sent_there)))
        if not isinstance(there, LongshoreError):
            self.pair.model.prefer([claim.id for claim in there.claims])
        here: Any = self.pair.run(_outcome(self.model.exchange(number, **sent)))
        if isinstance(here, LongshoreError) or isinstance(there, LongshoreError):
            return self.pair.agreed(there, here)
        self.pair.meet(there.claims, here.claims)
        assert _nameless(there.claims) == _nameless(here.claims)
        assert sorted(there.stale) == sorted(self.pair.there(here.stale))
        assert sorted(there.cancel) == sorted(self.pair.there(here.cancel))
        assert (there.now, there.look_in) == (here.now, here.look_in)
        assert there.fair == here.fair
        return here


async def _outcomes(engine: Awaitable[Any], model: Awaitable[Any]) -> tuple[Any, Any]:
    return await _outcome(engine), await _outcome(model)


async def _outcome(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except LongshoreError as error:
        return error


async def counts(engine: Engine, tenant: str | None = None) -> list[QueueCounts]:
    """Every queue, without what was pruned: when that is forgotten is the engine's affair."""
    return [replace(one, pruned=0) for one in await engine.counts(tenant=tenant)]


async def _jobs(engine: Engine, which: JobFilter) -> list[Job]:
    return (await engine.find(which, limit=EVERY)).jobs


async def _seen(engine: Engine) -> dict[str, Any]:
    return {
        "counts": await counts(engine),
        "schedules": await schedules.every(engine),
        "sessions": (await engine.sessions()).sessions,
    }


def _alike(jobs: Iterable[NewJob]) -> Iterable[dict[JobId, None]]:
    """The ids of jobs that differ in nothing a queue cares about, in their order."""
    found: dict[tuple[object, ...], dict[JobId, None]] = {}
    for job in jobs:
        where = (job.queue, job.type, job.tenant, job.priority, job.run_at, job.delay)
        limits = (job.max_attempts, job.timeout, job.ordering_key is not None)
        found.setdefault((*where, *limits), {})[job.id] = None
    return found.values()


def _nameless(claims: Sequence[Claim | Held]) -> list[Claim | Held]:
    """The same without handles, which are each engine's own; held jobs in one order."""
    nameless = [replace(one, handle=0) for one in claims]
    if nameless and isinstance(nameless[0], Held):
        return sorted(nameless, key=lambda one: one.id)
    return nameless
