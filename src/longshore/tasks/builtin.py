"""The built-in tasks by type name, and how each is best run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from longshore.core.backoff import Backoff
from longshore.tasks.http import HttpTask
from longshore.tasks.mail import EmailTask
from longshore.tasks.noop import noop
from longshore.tasks.settings import HttpTaskSettings, SmtpSettings

__all__ = ["BUILTIN", "Builtin", "builtins"]

SECOND = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin:
    """A function and how it is best run."""

    function: Callable[..., Any]
    max_attempts: int = 5
    timeout: timedelta | None = timedelta(seconds=300)
    backoff: Backoff = field(default_factory=Backoff)


def builtins(
    *, http: HttpTaskSettings | None = None, smtp: SmtpSettings | None = None
) -> Mapping[str, Builtin]:
    """The built-in tasks by type name, bound to a worker's settings."""
    return {
        "noop": Builtin(function=noop),
        # Eight attempts over about eight minutes: longer than most restarts of a receiver.
        "http.call": Builtin(
            function=HttpTask(http).call,
            max_attempts=8,
            backoff=Backoff(base=2 * SECOND, cap=600 * SECOND),
        ),
        # Eight attempts over about an hour: a relay that greylists wants to be asked later.
        "email.send": Builtin(
            function=EmailTask(smtp).send,
            max_attempts=8,
            backoff=Backoff(base=15 * SECOND, cap=3_600 * SECOND),
        ),
    }


BUILTIN = builtins()
"""With default settings: what a producer needs to submit them."""
