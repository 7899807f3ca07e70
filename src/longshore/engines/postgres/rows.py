"""From rows to what people see."""

import msgspec

from longshore.core.job import Attempt, Job, Progress
from longshore.core.ordering_key import PARKED
from longshore.core.responses import Reference, Renewed, Share
from longshore.core.state import State
from longshore.engines.postgres.database import Record
from longshore.runtime.decoding import decoded_failure, decoded_tags

__all__ = ["attempt", "job", "renewed"]

_shares = msgspec.json.Decoder(list[Share])
_MADE = {"state", "failure", "parked", "tags", "progress"}
_AS_STORED = [name for name in Job.__struct_fields__ if name not in _MADE]


def job(row: Record) -> Job:
    """A job from a row of `longshore.known`."""
    fields = {name: row[name] for name in _AS_STORED}
    tags, flaw = decoded_tags(row["tags"], row["id"])
    return Job(
        **fields,
        state=State(row["state"]),
        failure=decoded_failure(row["failure"], row["id"]) or flaw,
        parked=PARKED if row["home"] == "parked" else None,
        tags=tags,
        progress=_read_progress(row),
    )


def attempt(row: Record) -> Attempt:
    """A delivery from a row of `attempts`."""
    return Attempt(
        delivery=row["delivery"],
        attempt=row["attempt"],
        outcome=row["outcome"],
        worker=row["worker"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        failure=decoded_failure(row["failure"]),
    )


def renewed(
    row: Record,
    unwanted: list[Reference],
    *,
    lost: list[Reference],
    released: int,
) -> Renewed:
    """The answer to a renewal, from a row of `session_renew`."""
    shares = _shares.decode(row["shares"] or "[]")
    times = row["now"], row["expires_at"]
    return Renewed(*times, unwanted, lost, released, row["is_quiet"], shares)


def _read_progress(row: Record) -> Progress | None:
    at = row["progress_at"]
    return None if at is None else Progress(row["progress"], row["progress_message"], at)
