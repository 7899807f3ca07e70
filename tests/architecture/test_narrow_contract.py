"""The engine contract is as narrow as its page says, and wrappers pass all of it on."""

import inspect
import re
from pathlib import Path
from typing import Any, cast

import pytest

from longshore import contract
from longshore.contract.forwarding import ForwardingEngine, ForwardingSession

PAGE = Path(__file__).parents[2] / "docs" / "architecture" / "engines.md"
ENGINE: tuple[Any, ...] = (
    contract.Producer,
    contract.Keeper,
    contract.Steward,
    contract.Jobs,
    contract.OrderingKeys,
    contract.Records,
    contract.Counters,
    contract.Outbox,
    contract.Audit,
    contract.JobStore,
    contract.Engine,
    contract.TransactionalProducer,
)
SESSION: tuple[Any, ...] = (
    contract.Session,
    contract.PromptSession,
    contract.StandaloneSession,
    contract.TransactionalSession,
)


def members(*protocols: Any) -> dict[str, Any]:
    """By name, what the protocols themselves declare."""
    return {
        name: value
        for protocol in protocols
        for name, value in cast("dict[str, Any]", vars(protocol)).items()
        if not name.startswith("_")
    }


def test_the_page_says_how_many_members_there_are():
    told = re.search(r"It has (\d+) members", PAGE.read_text())

    assert told is not None
    assert int(told[1]) == len(members(*ENGINE)) + len(members(*SESSION))


def test_no_part_of_the_contract_is_left_out_here():
    of_all_engines = members(*inspect.getmro(cast("Any", contract.Engine)))

    assert {*members(*ENGINE)} == {*of_all_engines, "submit_on"}


@pytest.mark.parametrize(
    ("wrapper", "parts"), [(ForwardingEngine, ENGINE), (ForwardingSession, SESSION)]
)
def test_every_member_is_passed_on_as_it_is_declared(
    wrapper: type[Any], parts: tuple[Any, ...]
):
    for name, declared in members(*parts).items():
        passed_on = vars(wrapper)[name]
        assert isinstance(passed_on, property) == isinstance(declared, property), name
        if not isinstance(declared, property):
            assert inspect.signature(passed_on) == inspect.signature(declared), name
