"""What a worker or a scheduler writes to standard error while it runs."""

from longshore.runtime import logs
from longshore.settings import LogFormat, LogSettings

__all__ = ["configure"]


def configure(settings: LogSettings) -> None:
    """Send every log line of this process to standard error, in the format of the settings."""
    logs.configure(settings.level, as_json=settings.format is LogFormat.JSON)
