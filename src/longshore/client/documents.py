"""What a client sends and gets."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from longshore.core.state import State
from longshore.errors import LongshoreError
from longshore.options import Duration, microseconds

__all__ = ["JobOptions", "Outcome", "Submission", "Submitted"]


class JobOptions(TypedDict, total=False):
    """What can be said about one job, besides its type and payload; as with `app.submit`."""

    queue: str
    priority: int
    """1 is the most urgent, 9 the least; 5 unless given."""
    max_attempts: int
    """Counts the first run: 1 means never retry. 5 unless given."""
    timeout: Duration | None
    """For one attempt; 300 s unless given, None for no end."""
    delay: Duration
    """Run it this long after it was accepted."""
    run_at: datetime
    """Run it not before this moment; it must have a time zone."""
    key: str
    """Idempotency key; the client makes one if none is given."""
    unique_key: str
    """While a live job holds this key, no other is stored."""
    unique: bool
    """While a live job has the same type and payload, no other is stored."""
    unique_until: Literal["started", "finished"]
    ordering_key: str
    trace: str
    tags: Iterable[str]


class Submission(msgspec.Struct, frozen=True):
    """A job for `submit_many`."""

    type: str
    payload: Mapping[str, Any] = {}
    options: JobOptions = {}

    def body(self, key: str | None = None) -> dict[str, Any]:
        """The document that is sent; with `key`, which is used unless it has one."""
        options = dict(self.options)
        body: dict[str, Any] = {"type": self.type, "payload": dict(self.payload)}
        own = options.pop("key", None) or key
        if own is not None:
            body["idempotency_key"] = own
        for name in ("delay", "timeout"):
            if name in options:
                value: Any = options.pop(name)
                seconds = None if value is None else microseconds(value) / 1e6
                body[f"{name}_seconds"] = seconds
        if "tags" in options:
            tags: Any = options.pop("tags")
            body["tags"] = list(tags)
        return {**body, **options}


class Submitted(msgspec.Struct, frozen=True):
    """A job as it was accepted."""

    id: str
    state: State
    is_new: bool = True
    """False: an earlier job stands for it, by its idempotency or its unique key."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of one job of `submit_many`."""

    id: str | None
    is_new: bool
    error: LongshoreError | None = None
    """Why there is none."""
