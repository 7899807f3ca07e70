"""The state machine: six states, the verbs between them, and nothing else."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from longshore.errors import IllegalTransitionError

__all__ = [
    "LIVE",
    "SETTLING",
    "TERMINAL",
    "TRANSITIONS",
    "JobChange",
    "State",
    "Verb",
    "after",
    "allows",
    "check_change",
    "mermaid",
]

JobChange = Literal["cancel", "retry", "replay", "purge"]
"""What people have done to jobs: `cancel` what waits or runs, `retry` what is scheduled now,
`replay` what is dead or cancelled as if it were new, `purge` what has ended."""


class State(StrEnum):
    """Where a job is in its life."""

    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


class Verb(StrEnum):
    """What can happen to a job."""

    PROMOTE = "promote"
    CLAIM = "claim"
    SUCCEED = "succeed"
    RETRY = "retry"
    SNOOZE = "snooze"
    RELEASE = "release"
    RECLAIM = "reclaim"
    KILL = "kill"
    CANCEL = "cancel"
    REPLAY = "replay"
    RETRY_NOW = "retry_now"


TRANSITIONS: dict[tuple[State, Verb], State] = {
    (State.SCHEDULED, Verb.PROMOTE): State.READY,
    (State.SCHEDULED, Verb.RETRY_NOW): State.READY,
    (State.SCHEDULED, Verb.CANCEL): State.CANCELLED,
    (State.READY, Verb.CLAIM): State.RUNNING,
    (State.READY, Verb.CANCEL): State.CANCELLED,
    (State.RUNNING, Verb.SUCCEED): State.SUCCEEDED,
    (State.RUNNING, Verb.RETRY): State.SCHEDULED,
    (State.RUNNING, Verb.SNOOZE): State.SCHEDULED,
    (State.RUNNING, Verb.RELEASE): State.READY,
    (State.RUNNING, Verb.RECLAIM): State.READY,
    (State.RUNNING, Verb.KILL): State.DEAD,
    (State.RUNNING, Verb.CANCEL): State.CANCELLED,
    (State.DEAD, Verb.REPLAY): State.READY,
    (State.CANCELLED, Verb.REPLAY): State.READY,
}

TERMINAL = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED})
LIVE = frozenset(State) - TERMINAL
SETTLING = frozenset(verb for state, verb in TRANSITIONS if state is State.RUNNING)
"""The verbs that end a claim."""

_VERBS: Mapping[JobChange, Verb] = {
    "cancel": Verb.CANCEL,
    "retry": Verb.RETRY_NOW,
    "replay": Verb.REPLAY,
}


def after(state: State, verb: Verb) -> State:
    """The state a job is in after `verb`, or IllegalTransitionError."""
    try:
        return TRANSITIONS[state, verb]
    except KeyError:
        raise IllegalTransitionError(state, verb) from None


def check_change(state: State, change: JobChange) -> None:
    """Return if a job in this state can be changed so, else IllegalTransitionError."""
    if not allows(state, change):
        raise IllegalTransitionError(state, change)


def allows(state: State, change: JobChange) -> bool:
    """Whether a job in this state can be changed so."""
    if change == "purge":
        return state in TERMINAL
    return (state, _VERBS[change]) in TRANSITIONS


def mermaid() -> str:
    """The state machine as a Mermaid diagram; docs/architecture embeds exactly this."""
    edges = (
        f"    {old} --> {new}: {verb.replace('_', ' ')}"
        for (old, verb), new in TRANSITIONS.items()
    )
    ends = (f"    {state} --> [*]" for state in State if state in TERMINAL)
    starts = ("    [*] --> scheduled: submit, due later", "    [*] --> ready: submit")
    return "\n".join(["stateDiagram-v2", *starts, *edges, *ends])
