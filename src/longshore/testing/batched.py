"""The state machine of engines and model, with batches in play."""

from collections.abc import Collection
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from longshore.core.job import Claim
from longshore.core.state import TERMINAL, JobChange, State
from longshore.testing.factories import DAY
from longshore.testing.machine import EngineMachine, has_claims, has_jobs
from longshore.testing.manual import reference
from longshore.testing.pair import PairedSession
from longshore.testing.strategies import QUEUES, TYPES, an_end, batch_of, seeds

__all__ = ["BatchedMachine"]

few = st.sampled_from([1, 3, 40])


class BatchedMachine(EngineMachine):
    """As its parent, and hundreds of jobs come, are claimed, and end in any order.

    What becomes of each is chosen by a seed: one number is drawn where there would be no room
    for a thousand. So a counterexample shrinks by its steps, and not by single jobs of a batch.
    """

    @initialize(size=st.sampled_from([0, 0, 30, 200, 300]), seed=seeds)
    def begin_with_a_batch(self, size: int, seed: int) -> None:
        """So that what is done to single jobs later is often done to members of a batch."""
        if size:
            self.work_off_a_batch(size, seed)

    @rule(size=st.integers(1, 300), seed=seeds)
    def submit_many(self, size: int, seed: int) -> None:
        """A large call."""
        self.submit(batch_of(size, seed))

    @rule(want=st.sampled_from([20, 300]))
    def claim_many(self, want: int) -> None:
        """A worker for everything claims a lot."""
        session = self._worker()
        self._or_lose(session, lambda: session.exchange(want=want))

    @has_claims
    @rule(data=st.data(), seed=seeds)
    def finish_in_any_order(self, data: st.DataObject, seed: int) -> None:
        """A worker ends most of what it holds, in a few exchanges."""
        self._finish(self._holder(data), Random(seed))

    @rule(size=st.sampled_from([10, 60, 150, 300]), seed=seeds)
    def work_off_a_batch(self, size: int, seed: int) -> None:
        """A batch comes, and a worker claims it and whatever else there is."""
        self.submit(batch_of(size, seed))
        session = self._worker()
        self._or_lose(session, lambda: session.exchange(want=300))
        self.both_look_the_same()
        self._finish(session, Random(seed))

    @has_jobs
    @rule(most=few, seed=seeds)
    def cancel_some(self, most: int, seed: int) -> None:
        """What waits or runs, wherever in its batch it is."""
        waiting = {State.READY, State.SCHEDULED, State.RUNNING}
        self._order("cancel", waiting, most, seed)

    @has_jobs
    @rule(most=few, seed=seeds)
    def replay_some(self, most: int, seed: int) -> None:
        """What is dead or was cancelled."""
        self._order("replay", {State.DEAD, State.CANCELLED}, most, seed)

    @has_jobs
    @rule(most=few, seed=seeds)
    def retry_some(self, most: int, seed: int) -> None:
        """What waits for its time."""
        self._order("retry", {State.SCHEDULED}, most, seed)

    @has_jobs
    @rule(most=few, seed=seeds)
    def purge_some(self, most: int, seed: int) -> None:
        """What has ended."""
        self._order("purge", TERMINAL, most, seed)

    def _order(
        self, change: JobChange, states: Collection[State], most: int, seed: int
    ) -> None:
        """Order something for jobs that allow it."""
        able = [job.id for job in self.pair.jobs() if job.state in states]
        ids = Random(seed).sample(able, min(most, len(able)))
        if ids:
            self.pair.ask(lambda engine: engine.change(change, ids, reason="changed my mind"))
            self.pair.census[change] += len(ids)

    def _finish(self, session: PairedSession, chance: Random) -> None:
        """Looks at everything after each exchange."""
        ending = chance.sample(session.held, len(session.held))
        spared = len(ending) // chance.choice([4, 10, 1_000])
        for part in _parts(ending[spared:], chance):
            if session not in self.sessions:
                return
            started = [reference(claim) for claim in ending[:spared] if chance.random() < 0.5]
            ends = [an_end(chance, claim, self.clock.now()) for claim in part]
            self._or_lose(
                session,
                lambda sent=(started, ends): session.exchange(
                    started=sent[0], settlements=sent[1]
                ),
            )
            self.both_look_the_same()

    def _worker(self) -> PairedSession:
        """One that has its lease and serves everything."""
        living = {
            view.token
            for view in self.pair.run(self.pair.model.sessions()).sessions
            if {*view.queues} == {*QUEUES} and {*view.types} == {*TYPES}
        }
        if not any(session.model.token in living for session in self.sessions):
            self.open_session(list(QUEUES), list(TYPES), DAY)
            return self.sessions[-1]
        return next(one for one in self.sessions if one.model.token in living)


def _parts(claims: list[Claim], chance: Random) -> list[list[Claim]]:
    """The same in one to five parts."""
    cuts = sorted(chance.randint(0, len(claims)) for _ in range(chance.randint(0, 4)))
    bounds = zip([0, *cuts], [*cuts, len(claims)], strict=True)
    return [claims[low:high] for low, high in bounds if low < high]
