"""A Hypothesis state machine that looks for a difference between an engine and the model."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from msgspec.structs import replace

from longshore.contract import Engine, JobFilter, Retention
from longshore.core import settle
from longshore.core.job import Claim, JobId, NewJob, Settlement
from longshore.core.schedule import DueSchedule, Firing, Overlap, Shot
from longshore.core.state import JobChange, State
from longshore.errors import LeaseLostError, LongshoreError, QueueNotOpenedError
from longshore.records import pauses as records_pauses
from longshore.records import schedules
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import DAY, HOUR, MINUTE, SECOND, a_job, a_schedule
from longshore.testing.manual import reference
from longshore.testing.model import ModelEngine
from longshore.testing.pair import EVERY, Check, Pair, PairedSession, counts
from longshore.testing.strategies import (
    QUEUES,
    TENANTS,
    TYPES,
    filters,
    job_options,
    pauses,
    reports_of,
    retentions,
    settlement_of,
    some_of,
    some_queues,
    some_types,
    spans,
)

__all__ = ["EngineMachine"]

NAMES = ("hourly", "nightly")

has_jobs = precondition(lambda self: bool(self.jobs))
has_sessions = precondition(lambda self: bool(self.sessions))
has_claims = precondition(lambda self: any(session.held for session in self.sessions))
has_lost_sessions = precondition(lambda self: bool(self.lost))
has_schedules = precondition(lambda self: self.has_schedules)


class EngineMachine(RuleBasedStateMachine):
    """Any engine against the model: every rule does the same to both, and all must agree."""

    def __init__(
        self,
        open_engine: Callable[[ManualClock], Engine],
        check: Check | None = None,
        census: Counter[str] | None = None,
    ) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.pair = Pair(open_engine(self.clock), ModelEngine(self.clock), check, census)
        self.pair.run(self.pair.engine.migrate())
        self.jobs: list[NewJob] = []
        self.sessions: list[PairedSession] = []
        self.lost: list[PairedSession] = []
        self.has_schedules = False

    def teardown(self) -> None:
        """Compare what was told, then close both."""
        try:
            self.pair.compare_events()
        finally:
            self.pair.close()

    @invariant()
    def both_look_the_same(self) -> None:
        """Every job, count, session and schedule, also in the engine's own tables."""
        self.pair.compare()

    @rule(batch=st.lists(job_options, min_size=1, max_size=30))
    def submit(self, batch: list[dict[str, Any]]) -> None:
        """New jobs; some share keys with each other and with older ones."""
        jobs = [self.pair.new(options) for options in batch]
        self.pair.submit(jobs)
        self.jobs += jobs

    @has_jobs
    @rule(data=st.data(), options=job_options, ago=spans)
    def submit_again(self, data: st.DataObject, options: dict[str, Any], ago: int) -> None:
        """A known id between new ones, and a due time that has passed."""
        known = data.draw(st.sampled_from(self.jobs))
        late = self.pair.new(options | {"run_at": self.clock.now() - ago})
        batch = [self.pair.new(options), known, late, replace(known, priority=1)]
        self.pair.submit(batch)
        self.jobs += [batch[0], late]

    @initialize(batch=st.lists(job_options, min_size=3, max_size=12))
    def begin_with_work(self, batch: list[dict[str, Any]]) -> None:
        """Else most histories would be over before anything was claimed."""
        self.open_session(list(QUEUES), list(TYPES), DAY)
        self.submit(batch)
        self._or_lose(self.sessions[0], lambda: self.sessions[0].exchange(want=5))

    @rule(queues=some_queues, types=some_types, lease=st.sampled_from([5 * SECOND, HOUR, DAY]))
    def open_session(self, queues: list[str], types: list[str], lease: int) -> None:
        """A worker arrives."""
        offer: dict[str, Any] = {"queues": queues, "types": types, "lease": lease}
        name = f"w{len(self.pair.tokens)}"
        there, here = (
            self.pair.run(engine.open_session(worker=name, **offer))
            for engine in (self.pair.engine, self.pair.model)
        )
        self.pair.tokens[here.token] = there.token
        self.sessions.append(PairedSession(self.pair, there, here))

    @has_sessions
    @rule(
        data=st.data(), want=st.integers(1, 12) | st.just(300), queues=st.none() | some_queues
    )
    def claim(self, data: st.DataObject, want: int, queues: list[str] | None) -> None:
        """A worker reports starts and claims."""
        session = data.draw(st.sampled_from(self.sessions))
        told = self._told(data, session.held)
        self._or_lose(session, lambda: session.exchange(**told, want=want, queues=queues))

    @has_claims
    @rule(data=st.data(), want=st.sampled_from([0, 0, 1, 3, 300]))
    def settle(self, data: st.DataObject, want: int) -> None:
        """A worker settles some of what it holds, and may claim more in the same breath."""
        session = self._holder(data)
        told = self._told(data, session.held)
        ended = data.draw(some_of(session.held, least=1))
        settlements = [self._settlement(data, claim) for claim in ended]
        self._or_lose(
            session, lambda: session.exchange(**told, settlements=settlements, want=want)
        )

    @has_sessions
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """An answer was lost, and the worker sends its last exchange again."""
        session = data.draw(st.sampled_from(self.sessions))
        if session.number:
            self._or_lose(session, session.repeat)

    @has_sessions
    @rule(data=st.data(), ahead=st.sampled_from([-2, -1, 2]))
    def exchange_out_of_order(self, data: st.DataObject, ahead: int) -> None:
        """A number that is neither the last nor the next."""
        session = data.draw(st.sampled_from(self.sessions))
        settlements = [self._settlement(data, claim) for claim in session.held[:3]]
        number = session.number + ahead
        self._may_fail(lambda: session.exchange(number=number, settlements=settlements, want=5))

    @has_sessions
    @rule(data=st.data())
    def settle_what_is_not_held(self, data: st.DataObject) -> None:
        """Old claims and other sessions' claims, one that is held among them."""
        session = data.draw(st.sampled_from(self.sessions))
        every = [*self.sessions, *self.lost]
        others = [claim for one in every for claim in [*one.gone, *one.held]]
        strange = [claim for claim in data.draw(some_of(others)) if claim not in session.held]
        told = self._told(data, strange)
        settlements = [settle.released(claim) for claim in [*strange, *session.held[:1]]]
        self._or_lose(session, lambda: session.exchange(**told, settlements=settlements))

    @has_sessions
    @rule(data=st.data(), back=st.integers(0, 1), compares=st.booleans())
    def renew(self, data: st.DataObject, back: int, compares: bool) -> None:
        """A renewal, with or without a list; the list may leave claims out, or be too long."""
        session = data.draw(st.sampled_from(self.sessions))
        started = [reference(claim) for claim in data.draw(some_of(session.held))]
        known = [*session.held, *session.gone[:2]]
        holding = data.draw(some_of(known)) if compares else None
        number = max(session.number - back, 0)
        self._or_lose(
            session, lambda: session.renew(number=number, held=holding, started=started)
        )

    @has_sessions
    @rule(data=st.data(), politely=st.booleans())
    def end_session(self, data: st.DataObject, politely: bool) -> None:
        """Someone asks a worker to drain, or it leaves."""
        session = data.draw(st.sampled_from(self.sessions))
        if politely:
            self.pair.run(self.pair.engine.drain_session(session.engine.token))
            self.pair.run(self.pair.model.drain_session(session.model.token))
        else:
            self._close(session)

    @has_lost_sessions
    @rule(data=st.data())
    def use_a_lost_session(self, data: st.DataObject) -> None:
        """A worker comes back too late, and tries everything."""
        session = data.draw(st.sampled_from(self.lost))
        self.lost.remove(session)
        settlements = [settle.released(claim) for claim in session.held]
        progress = data.draw(reports_of(session.held))
        self._may_fail(
            lambda: session.exchange(progress=progress, settlements=settlements, want=5)
        )
        self._may_fail(session.repeat)
        self._may_fail(lambda: session.renew(number=99, held=[], started=[]))
        self._close(session)

    @rule(span=spans)
    def advance(self, span: int) -> None:
        """Time passes."""
        self.clock.advance(span)

    @has_claims
    @rule(data=st.data())
    def outlive_a_worker(self, data: st.DataObject) -> None:
        """The lease of a worker that holds jobs runs out; the others renew in time."""
        dead = self._holder(data)
        for session in self.sessions:
            if session is not dead and session.model.lease >= dead.model.lease:
                self._renew(session)
        self.clock.advance(dead.model.lease)
        for session in self.sessions:
            if session is not dead:
                self._renew(session)

    @rule(limit=st.sampled_from([1, EVERY, EVERY]))
    def promote(self, limit: int) -> None:
        """A promote tick. Which of those that are due at the same time goes first is open."""
        waiting = self.pair.jobs(JobFilter(state=State.SCHEDULED))
        due = sorted(job.run_at for job in waiting)
        most = EVERY if due[:1] == due[1:2] else limit
        self.pair.ask(lambda engine: engine.promote(limit=most))

    @rule(data=st.data())
    def reclaim(self, data: st.DataObject) -> None:
        """A reclaim tick; it may leave out some of what was held. The living are spared."""
        for session in self.sessions:
            self._reclaim(session.model.token, [], grace=10 * DAY)
        for lapsed in self.pair.lapsed():
            decided = [settle.lost(held) for held in data.draw(some_of(lapsed.held))]
            self._reclaim(lapsed.token, decided, grace=0)

    @has_jobs
    @rule(
        data=st.data(),
        change=st.sampled_from(["cancel", "replay", "retry", "purge"]),
        independent=st.booleans(),
    )
    def order(self, data: st.DataObject, change: JobChange, independent: bool) -> None:
        """An operator orders something for some jobs, which may not be allowed."""
        ids = data.draw(st.lists(self._job_ids(), min_size=1, max_size=2))
        tenant = data.draw(st.sampled_from([None, None, None, TENANTS[0]]))
        self._may_fail(
            lambda: self.pair.ask(
                lambda engine: engine.change(
                    change, ids, reason="ordered", tenant=tenant, independent=independent
                )
            )
        )

    @has_claims
    @rule(data=st.data())
    def cancel_what_runs(self, data: st.DataObject) -> None:
        """Someone wants a running job to stop; its holder may not have heard of it yet."""
        claim = data.draw(st.sampled_from(self._holder(data).held))
        self._may_fail(
            lambda: self.pair.ask(
                lambda engine: engine.change("cancel", [claim.id], reason="stop")
            )
        )

    @rule(named=pauses, verb=st.sampled_from(["pause", "resume", "resume"]))
    def pause_or_resume(self, named: dict[str, str], verb: str) -> None:
        """A queue, a type, or a type in one queue; whether or not it was paused."""
        change = getattr(records_pauses, verb)
        self.pair.ask(lambda engine: change(engine, **named))

    @rule(retention=retentions)
    def prune(self, retention: Retention) -> None:
        """Everything that is old enough. How much that was is each engine's own count."""
        for engine in (self.pair.engine, self.pair.model):
            self.pair.run(engine.prune(retention, limit=EVERY))

    @rule(
        name=st.sampled_from(NAMES),
        tenant=st.sampled_from(TENANTS),
        ahead=st.sampled_from([-HOUR, -MINUTE, 0, MINUTE]),
        is_paused=st.booleans(),
    )
    def put_schedule(self, name: str, tenant: str, ahead: int, is_paused: bool) -> None:
        """A new definition, or another one; its next due time may lie in the past."""
        due = (self.clock.now() + ahead) // MINUTE * MINUTE
        schedule = a_schedule(
            name=name,
            tenant=tenant,
            queue=QUEUES[0],
            type=TYPES[0],
            next_due=due,
            is_paused=is_paused,
            overlap=Overlap.SKIP,
        )
        self.pair.ask(lambda engine: schedules.put(engine, schedule))
        self.has_schedules = True

    @has_schedules
    @rule(data=st.data(), misses=st.integers(1, 3))
    def fire(self, data: st.DataObject, misses: int) -> None:
        """Fire all that is due; a second scheduler comes too late."""
        due = self.pair.ask(lambda engine: schedules.due(engine, limit=EVERY))
        for one in due:
            firing = self._firing(one, misses, is_skipped=data.draw(st.booleans()))
            self.pair.ask(lambda engine, firing=firing: engine.fire(firing))
            late = self.pair.ask(lambda engine, firing=firing: engine.fire(firing))
            assert late == []

    @has_schedules
    @rule(name=st.sampled_from(NAMES), tenant=st.sampled_from(TENANTS))
    def delete_schedule(self, name: str, tenant: str) -> None:
        """Whether or not there is one."""
        self._may_fail(
            lambda: self.pair.ask(lambda engine: schedules.delete(engine, name, tenant=tenant))
        )

    @has_jobs
    @rule(data=st.data(), which=filters, tenant=st.none() | st.sampled_from(TENANTS))
    def look(self, data: st.DataObject, which: JobFilter, tenant: str | None) -> None:
        """A filtered listing, a tenant's counts, one job and its history."""
        job_id = data.draw(self._job_ids())
        self.pair.ask(lambda engine: engine.find(which, limit=EVERY))
        self.pair.ask(lambda engine: counts(engine, tenant))
        self._may_fail(
            lambda: self.pair.ask(lambda engine: engine.attempts(job_id, tenant=tenant))
        )
        self._may_fail(lambda: self.pair.ask(lambda engine: engine.get(job_id, tenant=tenant)))

    def _job_ids(self) -> st.SearchStrategy[JobId]:
        return st.sampled_from(self.jobs).map(lambda job: job.id)

    def _told(self, data: st.DataObject, claims: list[Claim]) -> dict[str, Any]:
        """Starts and progress of some of these."""
        started = [reference(claim) for claim in data.draw(some_of(claims))]
        return {"started": started, "progress": data.draw(reports_of(claims))}

    def _holder(self, data: st.DataObject) -> PairedSession:
        return data.draw(st.sampled_from([one for one in self.sessions if one.held]))

    def _reclaim(self, token: int, decided: list[Settlement], *, grace: int) -> None:
        there = self.pair.settlements_there(decided)
        self.pair.agreed(
            *self.pair.outcomes(
                self.pair.engine.end_session(self.pair.tokens[token], there, grace=grace),
                self.pair.model.end_session(token, decided, grace=grace),
            )
        )

    def _renew(self, session: PairedSession) -> None:
        self._or_lose(session, lambda: session.renew(number=0, held=None, started=[]))

    def _close(self, session: PairedSession) -> None:
        self.pair.agreed(*self.pair.outcomes(session.engine.close(), session.model.close()))
        self._lose(session)

    def _lose(self, session: PairedSession) -> None:
        if session in self.sessions:
            self.sessions.remove(session)
            self.lost.append(session)

    def _settlement(self, data: st.DataObject, claim: Claim) -> Settlement:
        return settlement_of(data, claim, self.clock.now())

    def _firing(self, due: DueSchedule, misses: int, *, is_skipped: bool) -> Firing:
        schedule, first = due.schedule, due.schedule.next_due or 0
        shots = tuple(
            Shot(
                first + number * MINUTE,
                None if is_skipped else self._fired_job(schedule.tenant),
            )
            for number in range(misses)
        )
        return Firing(schedule.name, schedule.tenant, first, shots, first + misses * MINUTE)

    def _fired_job(self, tenant: str) -> NewJob:
        job = a_job(queue=QUEUES[0], type=TYPES[0], tenant=tenant)
        self.jobs.append(job)
        return job

    def _or_lose(self, session: PairedSession, call: Callable[[], object]) -> None:
        try:
            call()
        except LeaseLostError:
            self._lose(session)
        except QueueNotOpenedError:
            return  # both refuse, apply nothing and keep the number

    def _may_fail(self, call: Callable[[], object]) -> None:
        try:
            call()
        except LongshoreError:
            return
