"""The types of fields that several documents share; the limits are those of the core."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from longshore.core import codec, ids
from longshore.core.instant import micros
from longshore.core.instant import moment as instant
from longshore.core.submission import (
    LONGEST_KEY,
    LONGEST_NAME,
    LONGEST_TAG,
    MOST_ATTEMPTS,
    MOST_TAGS,
)

__all__ = [
    "MOST_LISTED",
    "UNREADABLE",
    "Attempts",
    "Id",
    "JobIdText",
    "Json",
    "Key",
    "Limit",
    "Name",
    "Payload",
    "Priority",
    "Seconds",
    "Tag",
    "Tags",
    "Text",
    "Timestamp",
    "instant",
    "micros",
    "moment",
    "read_json",
    "seconds",
    "stored_json",
]

_TEN_YEARS_S = 315_360_000
MOST_LISTED = 1_000
UNREADABLE = (ValueError, msgspec.DecodeError, RecursionError)
"""What is raised of stored JSON that is none, or that Python has no value for."""
_AROUND = 200
"""Levels around a part that leave a reader room: Python goes only so deep."""


# Not `$`, which in Python also matches before a line feed at the end; the document says it as
# the rest of the world does.
Name = Annotated[
    str, Meta(pattern=rf"\A[A-Za-z0-9_.:/@+-]{{1,{LONGEST_NAME}}}\Z", examples=["email.send"])
]
"""Of a type or a queue."""
Id = Annotated[str, Meta(min_length=1, max_length=200)]
"""Of what may be stored: a text that cannot be an id is answered as one that nothing has."""
Key = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)]
Tag = Annotated[str, Meta(min_length=1, max_length=LONGEST_TAG)]
Tags = Annotated[tuple[Tag, ...], Meta(max_length=MOST_TAGS)]
Text = Annotated[str, Meta(min_length=1, max_length=1_000)]
Priority = Annotated[int, Meta(ge=1, le=9, description="1 is the most urgent.")]
Attempts = Annotated[
    int, Meta(ge=1, le=MOST_ATTEMPTS, description="Counts the first run: 1 means never retry.")
]
Seconds = Annotated[float, Meta(ge=0, le=_TEN_YEARS_S)]
Timestamp = Annotated[datetime, Meta(tz=True)]
Payload = dict[str, Any]
Json = Annotated[Raw, Meta(description="As it is stored.")]
Limit = Annotated[int, Meta(ge=1, le=MOST_LISTED)]
JobIdText = Annotated[
    str,
    Meta(
        pattern=ids.PATTERN,
        description="A UUIDv7.",
        examples=["019a8a6e-7c00-7000-8000-000000000000"],
    ),
]


def moment(microseconds: int | None) -> datetime | None:
    """The same, of what may not have happened yet."""
    return None if microseconds is None else instant(microseconds)


def seconds(microseconds: int | None) -> float | None:
    """An engine's duration."""
    return None if microseconds is None else microseconds / 1_000_000


def stored_json(raw: bytes) -> Raw:
    """Stored JSON as a part of a document that stays on one line.

    Whatever a store holds, from an older version or another program, a list survives it: what
    a reader might not take as JSON is a text.
    """
    try:
        raw.decode()
        if raw.count(b"[") + raw.count(b"{") > codec.MAX_DEPTH:
            msgspec.json.format(b"[" * _AROUND + raw + b"]" * _AROUND)
        return Raw(msgspec.json.format(raw, indent=-1))
    except UNREADABLE:
        return Raw(msgspec.json.encode(raw.decode(errors="replace")))


def read_json(raw: Raw) -> Any:
    """Such a part as objects; as text, if it is JSON that Python has no value for."""
    try:
        return msgspec.json.decode(raw)
    except UNREADABLE:
        return bytes(raw).decode(errors="replace")
