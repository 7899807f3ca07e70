"""What the exit code says: the only table of them."""

import json
from enum import IntEnum

from longshore.errors import (
    ConfigError,
    EngineError,
    IdempotencyError,
    IdTakenError,
    IllegalTransitionError,
    JobFailedError,
    KeyEndedError,
    LongshoreError,
    NotFoundError,
    QueueFullError,
    SchemaError,
    SubmitError,
    TenantInUseError,
    UnknownTaskError,
    WaitTimeoutError,
)

__all__ = ["MEANINGS", "Exit", "exit_code", "line"]


class Exit(IntEnum):
    """Every exit code there is."""

    DONE = 0
    PROBLEM = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    JOB_FAILED = 5
    TIMED_OUT = 6
    UNAVAILABLE = 7
    SCHEMA = 8
    NOT_COMPARED = 9
    WORN_OUT = 75
    STUCK = 76
    BROKEN = 77
    INTERRUPTED = 130


MEANINGS: dict[Exit, str] = {
    Exit.DONE: "Done; for a worker: it was asked to stop, and drained.",
    Exit.PROBLEM: "A check found a problem, or an error has no code of its own.",
    Exit.USAGE: "Arguments, settings, app or payload make no sense; nothing was done.",
    Exit.NOT_FOUND: "Nothing has this id or name; for chaos: there is no worker to hit.",
    Exit.REFUSED: "Refused: what a job, a queue, a tenant or a key is now forbids it.",
    Exit.JOB_FAILED: "The job that was waited for ended dead or cancelled.",
    Exit.TIMED_OUT: "The time given for waiting is over; the job goes on.",
    Exit.UNAVAILABLE: "The engine's store cannot be used; trying again may help.",
    Exit.SCHEMA: "The store's schema is missing, older, newer or changed: `longshore migrate`.",
    Exit.NOT_COMPARED: "A head given to `audit verify` is older than what is left of the log.",
    Exit.WORN_OUT: "One of several worker processes has too many handlers that never end.",
    Exit.STUCK: "The worker could not claim for long, and had --exit-when-stuck.",
    Exit.BROKEN: "A job broke the process of its worker from inside: that was a crash.",
    Exit.INTERRUPTED: "Interrupted with Ctrl-C.",
}

_BY_ERROR: dict[type[LongshoreError], Exit] = {
    ConfigError: Exit.USAGE,
    SubmitError: Exit.USAGE,
    UnknownTaskError: Exit.NOT_FOUND,
    IdempotencyError: Exit.REFUSED,
    IdTakenError: Exit.REFUSED,
    QueueFullError: Exit.REFUSED,
    NotFoundError: Exit.NOT_FOUND,
    IllegalTransitionError: Exit.REFUSED,
    TenantInUseError: Exit.REFUSED,
    KeyEndedError: Exit.REFUSED,
    JobFailedError: Exit.JOB_FAILED,
    WaitTimeoutError: Exit.TIMED_OUT,
    SchemaError: Exit.SCHEMA,
    EngineError: Exit.UNAVAILABLE,
    LongshoreError: Exit.PROBLEM,
}


def exit_code(error: LongshoreError) -> Exit:
    """The code of the error's nearest class in the table."""
    return next(_BY_ERROR[kind] for kind in type(error).__mro__ if kind in _BY_ERROR)


def line(error: LongshoreError, *, as_json: bool) -> str:
    """The error as the command line shows it."""
    message = " ".join(str(error).split())
    if as_json:
        return json.dumps({"error": error.code, "message": message})
    return f"error: {message}"
