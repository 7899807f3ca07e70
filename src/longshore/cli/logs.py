"""What a worker or a scheduler writes to standard error while it runs."""

from longshore.runtime import logs
from longshore.settings import LogFormat, LogSettings
from longshore.worker.origin import LogStyle

__all__ = ["configure", "style"]


def configure(settings: LogSettings) -> None:
    """Send every log line of this process to standard error, in the format of the settings."""
    logs.configure(settings.level, as_json=settings.format is LogFormat.JSON)


def style(settings: LogSettings) -> LogStyle:
    """The same, for the child processes of a worker."""
    return LogStyle(settings.level, settings.format is LogFormat.JSON)
