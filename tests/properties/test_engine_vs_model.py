"""Random histories, on an engine and on the model, have to look the same at every step."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from peoples_view import PeoplesView

from longshore.contract import Engine
from longshore.engines import open_engine
from longshore.runtime.clock import ManualClock
from longshore.testing.accounted import AccountedMachine
from longshore.testing.guarded import GuardedMachine
from longshore.testing.limited import LimitedMachine
from longshore.testing.machine import EngineMachine
from longshore.testing.model import ModelEngine
from longshore.testing.pair import Check
from longshore_lab.emptying import empty


def in_memory(clock: ManualClock) -> Engine:
    return open_engine("sqlite://:memory:", clock=clock)


def compare(
    opened: Callable[[ManualClock], Engine],
    *,
    examples: int,
    steps: int,
    check: Check | None = None,
    machine: type[EngineMachine] = LimitedMachine,
) -> Counter[str]:
    census = Counter[str]()
    chosen = settings(max_examples=examples, stateful_step_count=steps)
    run_state_machine_as_test(partial(machine, opened, check, census), settings=chosen)
    return census


def test_the_model_agrees_with_itself():
    compare(ModelEngine, examples=5, steps=30, machine=AccountedMachine)


# Of runs of a quarter as many with eight seeds the poorest had more of everything.
FLOORS = {
    "submitted": 1_000,
    "claimed": 500,
    "claimed by the hundred": 300,
    "succeeded": 150,
    "succeeded out of order": 100,
    "failed out of order": 50,
    "snoozed out of order": 50,
    "released out of order": 20,
    "condemned out of order": 25,
    "cancelled out of order": 25,
    "cancel": 10,
    "replay": 1,
    "retry": 1,
}
"""How many jobs have to have what happen to them."""


def test_histories_as_short_as_those_of_ci_get_somewhere():
    """Else machines could agree for ever because nothing happens.

    More of them than CI plays: which ones Hypothesis makes depends on the modules that other
    tests have imported, and of a few some have hardly any cancel or replay.
    """
    census = Counter[str]()
    chosen = settings(max_examples=48, stateful_step_count=30, derandomize=True, database=None)
    history = partial(LimitedMachine, ModelEngine, None, census)

    run_state_machine_as_test(history, settings=chosen)

    assert {name: census[name] for name, least in FLOORS.items() if census[name] < least} == {}


@pytest.mark.slow
def test_sqlite_in_memory_agrees_with_the_model():
    compare(in_memory, examples=40, steps=40)


@pytest.mark.slow
def test_sqlite_in_a_file_agrees_with_the_model(tmp_path: Path):
    files = (tmp_path / f"{number}.db" for number in range(1_000_000))

    def in_a_file(clock: ManualClock) -> Engine:
        return open_engine(f"sqlite:///{next(files)}?synchronous=normal", clock=clock)

    compare(in_a_file, examples=8, steps=40)


@pytest.mark.slow
def test_accounts_on_sqlite_agree_with_the_model():
    compare(in_memory, examples=8, steps=40, machine=AccountedMachine)


@pytest.mark.slow
def test_breakers_on_sqlite_agree_with_the_model():
    compare(in_memory, examples=25, steps=40, machine=GuardedMachine)


def on_postgres(url: str) -> Callable[[ManualClock], Engine]:
    def opened(clock: ManualClock) -> Engine:
        asyncio.run(empty(url))
        return open_engine(url, clock=clock)

    return opened


@pytest.mark.slow
def test_postgres_agrees_with_the_model(postgres_url: str):
    check = PeoplesView(postgres_url)
    compare(on_postgres(postgres_url), examples=12, steps=30, check=check)


@pytest.mark.slow
def test_accounts_on_postgres_agree_with_the_model(postgres_url: str):
    check = PeoplesView(postgres_url)
    opened = on_postgres(postgres_url)
    compare(opened, examples=2, steps=40, check=check, machine=AccountedMachine)


@pytest.fixture
def told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breakers hear of successes as soon as of failures, as the model's do."""
    monkeypatch.setattr("longshore.engines.postgres.circuit_breakers._AT_LEAST", -1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("told_at_once")
def test_breakers_on_postgres_agree_with_the_model(postgres_url: str):
    check = PeoplesView(postgres_url)
    opened = on_postgres(postgres_url)
    compare(opened, examples=8, steps=30, check=check, machine=GuardedMachine)


@pytest.mark.prove
def test_postgres_agrees_with_the_model_over_ten_thousand_steps(postgres_url: str):
    check = PeoplesView(postgres_url)
    compare(on_postgres(postgres_url), examples=200, steps=50, check=check)


@pytest.mark.prove
def test_postgres_15_agrees_with_the_model(postgres_15_url: str):
    check = PeoplesView(postgres_15_url)
    compare(on_postgres(postgres_15_url), examples=60, steps=50, check=check)


@pytest.mark.prove
def test_sqlite_agrees_with_the_model_over_fifty_thousand_steps():
    compare(in_memory, examples=1_000, steps=50)
