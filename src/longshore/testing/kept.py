"""The state machine of engines and model, with keepers among the actors."""

from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import rule

from longshore.core import settle
from longshore.core.job import Held, Settlement
from longshore.errors import LeaseLostError
from longshore.testing.batched import BatchedMachine
from longshore.testing.machine import has_claims, has_sessions
from longshore.testing.manual import reference
from longshore.testing.strategies import seeds, some_of

__all__ = ["KeptMachine"]


class KeptMachine(BatchedMachine):
    """As its parent, and workers die beside keepers that saw how far they came."""

    @has_sessions
    @rule(data=st.data())
    def keep(self, data: st.DataObject) -> None:
        """A keeper renews, for a worker that has its lease or has lost it."""
        session = data.draw(st.sampled_from([*self.sessions, *self.lost]))
        try:
            self.pair.agreed(
                *self.pair.outcomes(
                    self.pair.engine.renew(session.engine.token),
                    self.pair.model.renew(session.model.token),
                )
            )
        except LeaseLostError:
            self._lose(session)

    @has_claims
    @rule(data=st.data(), again=st.booleans(), seed=seeds)
    def bury(self, data: st.DataObject, again: bool, seed: int) -> None:
        """A worker dies; its keeper saw how some of its jobs ended, and leaves some out."""
        session = self._holder(data)
        token = session.model.token
        ended = data.draw(some_of(session.held))
        decided = [self._settlement(data, claim) for claim in ended]
        seen, chance = {reference(claim) for claim in ended}, Random(seed)
        decided += [
            settle.lost(one)
            for one in self._held(token)
            if (one.handle, one.delivery) not in seen and chance.random() < 0.5
        ]
        for _ in range(1 + again):
            self._bury(token, decided)
        assert self._held(token) == []
        self._lose(session)

    def _held(self, token: int) -> list[Held]:
        there, here = self.pair.outcomes(
            self.pair.engine.held(self.pair.tokens[token]), self.pair.model.held(token)
        )
        assert (there is None) == (here is None)
        if here is None:
            return []
        self.pair.meet(there, here)
        facts = [
            sorted((one.id, one.delivery, one.started_at, one.alone) for one in side)
            for side in (there, here)
        ]
        assert facts[0] == facts[1]
        return here

    def _bury(self, token: int, decided: list[Settlement]) -> None:
        there = self.pair.settlements_there(decided)
        self.pair.agreed(
            *self.pair.outcomes(
                self.pair.engine.end_session(self.pair.tokens[token], there),
                self.pair.model.end_session(token, decided),
            )
        )
