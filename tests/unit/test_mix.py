"""The load of the laboratory."""

from collections import Counter

import pytest

from longshore_lab.mix import Kind, Mix
from longshore_lab.records import Fate

ORDERS = 20_000


def test_the_orders_of_a_seed_are_always_the_same():
    once, again, other = Mix(seed=1), Mix(seed=1), Mix(seed=2)

    assert [once.order(seq) for seq in range(100)] == [again.order(seq) for seq in range(100)]
    assert [once.order(seq) for seq in range(100)] != [other.order(seq) for seq in range(100)]


def test_the_orders_are_mixed_as_promised():
    mix = Mix(seed=1, long_share=0.01)

    share = Counter(mix.order(seq).kind for seq in range(ORDERS))

    assert share[Kind.FAST] / ORDERS == pytest.approx(0.70, abs=0.01)
    assert share[Kind.SLOW] / ORDERS == pytest.approx(0.19, abs=0.01)
    assert share[Kind.LONG] / ORDERS == pytest.approx(0.01, abs=0.005)
    assert share[Kind.FLAPPING] / ORDERS == pytest.approx(0.05, abs=0.01)
    assert share[Kind.POISON] / ORDERS == pytest.approx(0.05, abs=0.01)


def test_an_order_takes_as_long_as_its_kind_says():
    mix = Mix(seed=1, slow_scale=0.1, long_share=0.01, long_seconds=4.0)

    for order in (mix.order(seq) for seq in range(ORDERS)):
        shortest, longest = {Kind.SLOW: (0.02, 0.2), Kind.LONG: (4.0, 4.0)}.get(
            order.kind, (0.001, 0.005)
        )
        assert shortest <= order.seconds <= longest


def test_only_poison_is_fated_to_die():
    orders = [Mix(seed=1).order(seq) for seq in range(ORDERS)]

    assert {order.kind for order in orders if order.fate is Fate.DEAD} == {Kind.POISON}
    assert {order.failures for order in orders if order.kind is Kind.FLAPPING} == {1, 2}
