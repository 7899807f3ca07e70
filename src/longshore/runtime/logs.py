"""Log lines of Longshore's own processes, on standard error."""

import json
import logging
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast

from longshore.core.instant import rfc3339
from longshore.runtime.log_writer import Outlet

__all__ = ["configure", "redacted"]

_SECRET = re.compile(
    r"""(\w://[^/\s@:"'\\]*:)[^/\s@"'\\]+(?=@)|(\bls_)\w{8,}|(\b[Bb]earer )[^\s"'\\,]+"""
    r"""|(\bwhsec_)[\w+/=]+"""
)
_QUERY = re.compile(r"""(\bhttps?://[^\s?"'\\]*\?)[^\s"'\\]+""")
_USUAL = {*vars(logging.makeLogRecord({})), "message", "taskName"}


def configure(level: str, *, as_json: bool) -> None:
    """Send every log line of this process to standard error."""
    handler = _handler()
    handler.setFormatter(JsonLines() if as_json else TextLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # It tells of each request as if someone had asked; a worker over HTTP makes many a second.
    is_curious = root.level < logging.INFO
    logging.getLogger("httpx").setLevel(logging.NOTSET if is_curious else logging.WARNING)
    # Its debug lines hold the headers of every answer, secrets among them.
    logging.getLogger("httpcore").setLevel(logging.WARNING)


class Lines(logging.StreamHandler[Outlet]):
    """Writes every line for which there is room, and how many there were without."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, or count it."""
        lines = self.stream.left_out
        if lines and self.stream.has_room():
            facts = {"levelno": logging.WARNING, "levelname": "WARNING", "lines": lines}
            told = {"name": __name__, "msg": "log lines left out", **facts}
            super().emit(logging.makeLogRecord(told))
        super().emit(record)


def _handler() -> logging.Handler:
    try:
        return Lines(Outlet(sys.stderr.fileno()))
    except (AttributeError, OSError, ValueError):
        # Someone has put another stream there, or none.
        return logging.StreamHandler()


class JsonLines(logging.Formatter):
    """One object per line: at, level, logger, event, and whatever fields the line has."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "at": _instant(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return redacted(json.dumps(line, default=str))


class TextLines(logging.Formatter):
    """`22:09:28 info attempt failed job=… queue=mail`, and a traceback below."""

    def __init__(self) -> None:
        super().__init__(datefmt="%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        facts = [f"{name}={_word(value)}" for name, value in _fields(record).items()]
        when = self.formatTime(record, self.datefmt)
        line = " ".join([when, record.levelname.lower(), record.getMessage(), *facts])
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return redacted(line)


def redacted(line: str) -> str:
    """The line without what looks like a secret: passwords or queries of URLs, keys, tokens."""
    if any(sign in line for sign in ("://", "ls_", "earer ", "whsec_")):
        line = _QUERY.sub(r"\1***", line)
        return _SECRET.sub(lambda found: f"{found[found.lastindex or 0]}***", line)
    return line


def _instant(seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(seconds, UTC))


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _USUAL}


def _word(value: object) -> str:
    several = isinstance(value, list | tuple)
    text = ",".join(map(str, cast("Sequence[object]", value))) if several else str(value)
    return text if text.isprintable() and " " not in text and text else repr(text)
