"""The state machine of engines and model, with circuit breakers in play.

An engine may let a breaker hear how jobs ended just after the exchange that told of it. So no
exchange here settles and claims at once, and whoever holds jobs exchanges when one is new.
"""

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from longshore.core import settle
from longshore.core.job import Claim, Failure, Report, Settlement
from longshore.core.limit_settings import BreakerSettings, Layer
from longshore.records import breaker_settings
from longshore.testing.factories import SECOND
from longshore.testing.limited import LimitedMachine
from longshore.testing.machine import has_claims
from longshore.testing.strategies import TYPES, some_of

__all__ = ["GuardedMachine"]

_COOLDOWNS = [None, 1, SECOND, 5 * SECOND]

breakers = st.builds(
    BreakerSettings,
    failures=st.sampled_from([None, 1, 2, 3]),
    ratio=st.sampled_from([None, None, 0.5, 1.0]),
    window=st.sampled_from([None, SECOND, 10 * SECOND]),
    least=st.sampled_from([None, 1, 2, 4]),
    cooldown=st.sampled_from(_COOLDOWNS),
    probes=st.sampled_from([None, 1, 2]),
)


class GuardedMachine(LimitedMachine):
    """As its parent, and jobs of types that fail are not handed out for a while."""

    @rule(
        type_name=st.sampled_from(TYPES),
        layer=st.sampled_from(Layer),
        wanted=breakers,
    )
    def put_breaker(self, type_name: str, layer: Layer, wanted: BreakerSettings) -> None:
        """Guard a type, otherwise than before, or not any more."""
        self.pair.ask(lambda engine: breaker_settings.put(engine, type_name, layer, wanted))
        for session in list(self.sessions):
            said = [Report(one.handle, one.delivery, 0.5) for one in session.held[:1]]
            if said:
                self._or_lose(session, lambda told=said, it=session: it.exchange(progress=told))

    @rule(type_name=st.sampled_from(TYPES))
    def lift_breaker(self, type_name: str) -> None:
        """Nothing is said of a type any more."""
        for layer in Layer:
            self.put_breaker(type_name, layer, BreakerSettings())

    @rule(type_name=st.sampled_from(TYPES))
    def reset_breaker(self, type_name: str) -> None:
        """Close it, whether or not there is one that is open."""
        self.pair.ask(lambda engine: breaker_settings.reset(engine, type_name))

    @has_claims
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        """A worker settles some of what it holds."""
        session = self._holder(data)
        told = self._told(data, session.held)
        ended = data.draw(some_of(session.held, least=1))
        settlements = [self._settlement(data, claim) for claim in ended]
        self._or_lose(session, lambda: session.exchange(**told, settlements=settlements))

    @has_claims
    @rule(data=st.data(), fails=st.booleans())
    def end_alike(self, data: st.DataObject, fails: bool) -> None:
        """All that a worker holds fails, or succeeds, and then it asks for more."""
        session = self._holder(data)
        ends = [self._end(claim, fails) for claim in session.held]
        self._or_lose(session, lambda: session.exchange(settlements=ends))
        if session in self.sessions:
            self._or_lose(session, lambda: session.exchange(want=4))

    @invariant()
    def both_know_the_same_breakers(self) -> None:
        """What is said of each, and how it stands."""
        self.pair.ask(lambda engine: breaker_settings.every(engine))

    def _end(self, claim: Claim, fails: bool) -> Settlement:
        now = self.clock.now()
        if fails:
            why = Failure("E", "e", "t")
            return settle.failed(claim, why, delay=0, started_at=now, finished_at=now)
        return settle.succeeded(claim, started_at=now, finished_at=now, result=None)
