"""The built-in tasks by type name, and how each is best run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from longshore.contract import Records
from longshore.core import webhook
from longshore.settings import Settings
from longshore.task import Declaration
from longshore.tasks.http import HttpTask
from longshore.tasks.mail import EmailTask
from longshore.tasks.noop import noop
from longshore.tasks.settings import HttpTaskSettings, SmtpSettings, WebhookSettings
from longshore.tasks.webhook import WebhookTask

__all__ = ["BUILTIN", "SYSTEM_QUEUES", "SYSTEM_TYPES", "Builtin", "builtins", "builtins_of"]


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function, and what `@app.task` would be told about it."""

    function: Callable[..., Any]
    declaration: Declaration


def builtins(
    *,
    http: HttpTaskSettings | None = None,
    smtp: SmtpSettings | None = None,
    webhooks: WebhookSettings | None = None,
    records: Callable[[], Records] | None = None,
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
    webhooks = webhooks or WebhookSettings()
    if webhooks.enabled and records is not None:
        found[webhook.TASK] = Builtin(
            WebhookTask(records, webhooks).deliver,
            {"name": webhook.TASK, "queue": webhook.QUEUE, "max_attempts": webhook.ATTEMPTS},
        )
    return found


def builtins_of(settings: Settings, records: Callable[[], Records]) -> Mapping[str, Builtin]:
    """Those of a worker with these settings, on this store."""
    return builtins(
        http=settings.http,
        smtp=settings.smtp,
        webhooks=settings.webhooks,
        records=records,
    )


SYSTEM_QUEUES = (webhook.QUEUE,)
"""What a worker serves besides its tasks' queues, unless it is told which."""
SYSTEM_TYPES = frozenset({webhook.TASK})
"""Tasks that need the store itself: they run in no worker that reaches it over HTTP."""
BUILTIN = builtins()
"""With default settings: what a producer needs to submit them."""
