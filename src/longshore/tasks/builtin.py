"""The built-in tasks by type name, and how each is best run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from longshore.task import Declaration
from longshore.tasks.http import HttpTask
from longshore.tasks.mail import EmailTask
from longshore.tasks.noop import noop
from longshore.tasks.settings import HttpTaskSettings, SmtpSettings

__all__ = ["BUILTIN", "Builtin", "builtins"]


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function, and what `@app.task` would be told about it."""

    function: Callable[..., Any]
    declaration: Declaration


def builtins(
    *, http: HttpTaskSettings | None = None, smtp: SmtpSettings | None = None
) -> Mapping[str, Builtin]:
    """The built-in tasks that are turned on, by type name, bound to a worker's settings."""
    http, smtp = http or HttpTaskSettings(), smtp or SmtpSettings()
    found = {"noop": Builtin(noop, {"name": "noop"})}
    if http.enabled:
        # Eight attempts over about eight minutes: longer than most restarts of a receiver.
        found["http.call"] = Builtin(
            HttpTask(http).call,
            {
                "name": "http.call",
                "max_attempts": 8,
                "retry_base": timedelta(seconds=2),
                "retry_cap": timedelta(minutes=10),
            },
        )
    if smtp.enabled:
        # Eight attempts over about an hour: a relay that greylists wants to be asked later.
        found["email.send"] = Builtin(
            EmailTask(smtp).send,
            {
                "name": "email.send",
                "max_attempts": 8,
                "retry_base": timedelta(seconds=15),
                "retry_cap": timedelta(hours=1),
            },
        )
    return found


BUILTIN = builtins()
"""With default settings: what a producer needs to submit them."""
