"""The state machine's table."""

import pytest

from longshore.core.state import (
    LIVE,
    SETTLING,
    TERMINAL,
    TRANSITIONS,
    State,
    Verb,
    after,
    mermaid,
)
from longshore.errors import IllegalTransitionError


def test_every_state_is_live_or_terminal_and_not_both() -> None:
    assert set(State) == LIVE | TERMINAL
    assert not LIVE & TERMINAL


@pytest.mark.parametrize("state", sorted(State))
@pytest.mark.parametrize("verb", sorted(Verb))
def test_what_is_not_in_the_table_is_refused(state: State, verb: Verb) -> None:
    if (state, verb) in TRANSITIONS:
        assert after(state, verb) is TRANSITIONS[state, verb]
        return

    with pytest.raises(IllegalTransitionError) as caught:
        after(state, verb)

    assert (caught.value.state, caught.value.verb) == (state, verb)


def test_only_a_replay_leaves_a_terminal_state() -> None:
    assert {verb for state, verb in TRANSITIONS if state in TERMINAL} == {Verb.REPLAY}


def test_success_is_final() -> None:
    assert not [verb for state, verb in TRANSITIONS if state is State.SUCCEEDED]


def test_every_verb_but_claim_can_end_a_claim_or_none() -> None:
    assert {
        Verb.SUCCEED,
        Verb.RETRY,
        Verb.SNOOZE,
        Verb.RELEASE,
        Verb.RECLAIM,
        Verb.KILL,
        Verb.CANCEL,
    } == SETTLING


def test_every_live_state_leads_to_an_end() -> None:
    reachable = set(TERMINAL)
    for _ in State:
        reachable |= {old for (old, _), new in TRANSITIONS.items() if new in reachable}

    assert reachable == set(State)


def test_the_diagram_shows_every_transition() -> None:
    diagram = mermaid()

    for (old, verb), new in TRANSITIONS.items():
        assert f"{old} --> {new}: {verb.replace('_', ' ')}" in diagram
