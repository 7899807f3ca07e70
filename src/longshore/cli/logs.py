"""What a worker or a scheduler writes to standard error while it runs."""

import sys

from longshore.runtime import logs
from longshore.settings import LogFormat, LogSettings
from longshore.worker.app_locator import LogStyle

__all__ = ["configure", "is_json", "style"]


def configure(settings: LogSettings) -> None:
    """Send every log line of this process to standard error, in the format of the settings."""
    logs.configure(settings.level, as_json=is_json(settings))


def style(settings: LogSettings) -> LogStyle:
    """The same, for the child processes of a worker."""
    return LogStyle(settings.level, is_json(settings))


def is_json(settings: LogSettings) -> bool:
    """Lines are for machines: as the settings say, or because no terminal shows them."""
    if settings.format is LogFormat.AUTO:
        return not sys.stderr.isatty()
    return settings.format is LogFormat.JSON
