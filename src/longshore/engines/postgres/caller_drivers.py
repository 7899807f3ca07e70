"""What submitting in a caller's transaction says to the server, whichever driver carries it.

Each call and each answer is one JSON text in ASCII, so that neither the types that a driver
knows nor the encoding of its connection matter.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from longshore.core.job import JobId, NewJob, Submitted, Verdict
from longshore.engines.postgres import segments
from longshore.errors import ConfigError
from longshore.runtime.backpressure import Depth, Depths

__all__ = ["Call", "Dialogue", "OtherStoreError", "submission"]


class OtherStoreError(ConfigError):
    """The connection leads to another store than the engine's, or to one in a new era."""


class Call(NamedTuple):
    """Of a function of the schema, from text to text."""

    name: Literal["depths_json", "submit_json"]
    text: str


Dialogue = Generator[Call, str | None, list[Submitted]]
"""Yields calls, is sent their answers, returns the jobs' answers."""

_MOST_BYTES = 16 << 20
"""Payloads of one call."""
_COLUMNS = (
    "g_queue", "g_type", "g_tenant", "g_priority", "g_max_attempts", "g_timeout", "g_from",
    "g_to", "g_weight", "g_ids", "g_keys", "g_attributes", "s_group", "s_lo", "s_hi",
    "s_run_at", "s_delay", "s_queue", "s_type", "s_types", "g_payloads", "p_bounds", "p_types",
    "p_tenants", "p_body",
)  # fmt: skip
_TEXTS = ("type", "queue", "tenant", "idempotency_key", "unique_key", "ordering_key", "trace")


class _Answer(msgspec.Struct):
    answers: list[tuple[str, Verdict, int | None, int | None]]
    stored: bool
    now: int | None
    arrival: int | None


class _Counted(msgspec.Struct):
    depths: list[tuple[str, str | None, int, int]]
    known: list[int]


_answer = msgspec.json.Decoder(_Answer)
_counted = msgspec.json.Decoder(_Counted)


def submission(store: str, now: int | None, jobs: Sequence[NewJob], depths: Depths) -> Dialogue:
    """Ask for the jobs and store those that may come in.

    A ConfigError is raised before anything is sent, an OtherStoreError when the server is not
    `store`, a QueueFullError before anything is written.
    """
    for job in jobs:
        _check(job)
    yield from _admission(store, jobs, depths)
    answers: list[Submitted] = []
    for part in _parts(jobs):
        answers += yield from _store(store, now, part)
    return answers


def _admission(
    store: str, jobs: Sequence[NewJob], depths: Depths
) -> Generator[Call, str | None, None]:
    if depths.is_stale:
        since = depths.look()
        told = _counted.decode(_here((yield Call("depths_json", _encoded({"store": store})))))
        depths.learn([Depth(*one) for one in told.depths], since=since)
    crowd = depths.crowd(jobs)
    known: set[JobId] = set()
    if crowd:
        call = {"store": store, **_asked([job for job, _ in crowd])}
        told = _counted.decode(_here((yield Call("depths_json", _encoded(call)))))
        known = {crowd[place - 1][0].id for place in told.known}
    depths.let_in(jobs, crowd, known)


def _store(store: str, now: int | None, jobs: list[NewJob]) -> Dialogue:
    call = {"store": store, "now": now, "asked": _asked(jobs), "given": _given(jobs)}
    told = _answer.decode(_here((yield Call("submit_json", _encoded(call)))))
    answers = [
        Submitted(
            JobId(bytes.fromhex(job_id.replace("-", ""))), verdict, created_at or 0, run_at or 0
        )
        for job_id, verdict, created_at, run_at in told.answers
    ]
    if not told.stored:
        pairs = zip(jobs, answers, strict=True)
        accepted = [job for job, answer in pairs if answer.verdict is Verdict.ACCEPTED]
        if accepted:
            times = {"now": told.now, "arrival": told.arrival}
            call = {"store": store, **times, "given": _given(accepted)}
            _here((yield Call("submit_json", _encoded(call))))
    return answers


def _here(answer: str | None) -> str:
    if answer is None:
        raise OtherStoreError("the connection leads to another database than the engine's")
    return answer


def _encoded(call: Mapping[str, object]) -> str:
    return json.dumps(call, default=_hex, separators=(",", ":"))


def _hex(value: object) -> str:
    assert isinstance(value, bytes)
    return f"\\x{value.hex()}"


def _asked(jobs: list[NewJob]) -> dict[str, object]:
    return {
        "ids": [job.id.hex() for job in jobs],
        "tenants": [job.tenant for job in jobs],
        "keys": [job.idempotency_key for job in jobs],
        "fingerprints": [job.fingerprint for job in jobs],
        "uniques": [job.unique_key for job in jobs],
        "run_ats": [job.run_at for job in jobs],
        "delays": [job.delay for job in jobs],
    }


def _given(jobs: list[NewJob]) -> dict[str, object]:
    # The last column says whether to wake the workers, and here it is always so: who looks
    # for them now does not see those that begin to wait before the commit.
    *columns, _ = segments.columns(jobs, wakes=True)
    given: dict[str, object] = dict(zip(_COLUMNS, columns, strict=True))
    if lined := segments.lined(jobs):
        given["l_ids"] = [job.id.hex() for job in lined]
        given["l_run_ats"] = [job.run_at for job in lined]
        given["l_delays"] = [job.delay for job in lined]
    return given


def _parts(jobs: Sequence[NewJob]) -> Generator[list[NewJob]]:
    part: list[NewJob] = []
    weight = 0
    for job in jobs:
        if part and weight + len(job.payload) > _MOST_BYTES:
            yield part
            part, weight = [], 0
        part.append(job)
        weight += len(job.payload)
    if part:
        yield part


def _check(job: NewJob) -> None:
    """Refuse what the server would: its refusal would cost the caller's transaction."""
    for text in (*(getattr(job, field) for field in _TEXTS), *job.tags):
        if text is not None and "\0" in text:
            raise ConfigError(f"{text!r:.80} cannot be stored: it has a zero byte")
