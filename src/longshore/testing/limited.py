"""The state machine of engines and model, with limits in play."""

from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core.account import Tenant
from longshore.core.limit_settings import Layer, OnDead, Order, QueueSettings
from longshore.errors import ConfigError
from longshore.records import queue_settings, tenants
from longshore.testing.factories import SECOND
from longshore.testing.kept import KeptMachine
from longshore.testing.pair import EVERY
from longshore.testing.strategies import KEYS, QUEUES, TENANTS

__all__ = ["LimitedMachine"]

settings = st.builds(
    QueueSettings,
    max_running=st.sampled_from([None, None, 1, 3, 8]),
    rate=st.sampled_from([None, None, None, 0.5, 7.0, 1_000.0]),
    burst=st.sampled_from([None, 1, 5]),
    max_running_per_key=st.sampled_from([None, None, 1, 2]),
    rate_per_key=st.sampled_from([None, None, None, 0.5, 7.0]),
    burst_per_key=st.sampled_from([None, 1, 3]),
    retry_rate=st.sampled_from([None, None, 0.5]),
    on_dead=st.sampled_from([None, *OnDead]),
    order=st.sampled_from([None, None, *Order]),
    aging=st.sampled_from([None, 0, SECOND]),
)


class LimitedMachine(KeptMachine):
    """As its parent, and people say how much of a queue and of a key may run."""

    @rule(
        queue=st.sampled_from(QUEUES),
        layer=st.sampled_from(Layer),
        wanted=settings,
    )
    def put_queue(self, queue: str, layer: Layer, wanted: QueueSettings) -> None:
        """Limit a queue in a layer, or take that back."""
        self.pair.ask(lambda engine: queue_settings.put(engine, queue, layer, wanted))

    @rule(queue=st.sampled_from(QUEUES))
    def lift_limits(self, queue: str) -> None:
        """Nothing is said of a queue any more."""
        for layer in Layer:
            self.put_queue(queue, layer, QueueSettings())

    @rule(
        queue=st.sampled_from(QUEUES),
        tenant=st.sampled_from(TENANTS),
        key=st.sampled_from(KEYS),
    )
    def release_line(self, queue: str, tenant: str, key: str) -> None:
        """Whether or not a dead job blocks it."""
        self.pair.ask(lambda engine: engine.blocked_lines(limit=EVERY))
        self.pair.ask(lambda engine: engine.line(queue, key, tenant=tenant))
        self.pair.ask(lambda engine: engine.release_line(queue, key, tenant=tenant))
        self.pair.ask(lambda engine: engine.line(queue, key, tenant=tenant))

    @rule(tenant=st.sampled_from(TENANTS), weight=st.sampled_from([1, 2, 3, 7]))
    def weigh(self, tenant: str, weight: int) -> None:
        """Give a tenant another share of fair queues."""

        async def weigh(engine: Engine) -> Tenant:
            with suppress(ConfigError):  # there is one already, of another weight
                await tenants.create(engine, Tenant(name=tenant))
            return await tenants.change(
                engine, tenant, lambda seen: replace(seen, weight=weight)
            )

        self.pair.ask(weigh)

    @invariant()
    def both_know_the_same_settings(self) -> None:
        """Every queue of which something is said."""
        self.pair.ask(lambda engine: queue_settings.every(engine))
