"""Whose turn it is in a fair queue."""

from hypothesis import given
from hypothesis import strategies as st

from longshore.core.fair_queueing import QUANTUM, UNIT, Turns

weights = st.integers(1, 12)
claims = st.lists(st.integers(1, 300), min_size=1, max_size=40)


class FairQueue:
    """A queue that counts what it has, and what it handed out."""

    def __init__(self, weights: dict[str, int]) -> None:
        self.weights = weights
        self.ready = dict.fromkeys(weights, 0)
        self.served = dict.fromkeys(weights, 0)
        self.at = 0
        self.times: dict[str, int] = {}

    def claim(self, want: int) -> int:
        """Hand out as many as there are, up to so many."""
        present = {name: self.weights[name] for name, jobs in self.ready.items() if jobs}
        turns, left = Turns(self.at, self.times, present), want
        while left and (turn := turns.next()):
            name, most = turn
            taken = min(most, left, self.ready[name])
            self.ready[name] -= taken
            self.served[name] += taken
            left -= taken
            turns.took(name, taken, has_more=self.ready[name] > 0)
        assert turns.at >= self.at
        self.at = turns.at
        self.times |= turns.changed
        self.times = {name: at for name, at in self.times.items() if at > self.at}
        return want - left


@given(st.lists(weights, min_size=2, max_size=5), claims)
def test_who_always_waits_is_served_by_its_weight_to_within_two_quanta(
    shares: list[int], wants: list[int]
):
    queue = FairQueue({f"t{number}": weight for number, weight in enumerate(shares)})
    queue.ready = dict.fromkeys(queue.ready, 10**6)

    for want in wants:
        assert queue.claim(want) == want

    each = [jobs / queue.weights[name] for name, jobs in queue.served.items()]
    assert max(each) - min(each) <= 2 * QUANTUM


@given(st.lists(st.tuples(weights, st.integers(0, 500)), min_size=1, max_size=6), claims)
def test_as_much_is_handed_out_as_there_is(tenants: list[tuple[int, int]], wants: list[int]):
    queue = FairQueue({f"t{number}": weight for number, (weight, _) in enumerate(tenants)})
    queue.ready = {f"t{number}": jobs for number, (_, jobs) in enumerate(tenants)}

    for want in wants:
        there = sum(queue.ready.values())
        assert queue.claim(want) == min(want, there)


@given(claims, st.integers(1, 64), st.lists(st.integers(0, 200), max_size=40))
def test_who_comes_and_goes_gets_no_more_than_who_stays(
    wants: list[int], burst: int, pauses: list[int]
):
    queue = FairQueue({"stays": 1, "comes": 1})
    queue.ready["stays"] = 10**6
    for pause in [*pauses, 300]:
        if pause:
            queue.claim(pause)
        before = dict(queue.served)
        queue.ready["comes"] = burst
        for want in wants:
            queue.claim(want)
            gained = queue.served["comes"] - before["comes"]
            assert gained <= queue.served["stays"] - before["stays"] + 2 * QUANTUM
        while queue.ready["comes"]:
            queue.claim(burst)


def test_a_weight_that_does_not_divide_the_unit_loses_less_than_a_job_in_many():
    turns = Turns(0, {}, {"a": 997})
    for _ in range(1_000):
        turns.took("a", 1, has_more=True)

    assert abs(turns.changed["a"] - 1_000 * UNIT / 997) < UNIT
