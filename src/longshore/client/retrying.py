"""Whether and when a request is sent again, and what its answer means: without I/O."""

import random
from dataclasses import dataclass, field
from typing import Any, TypedDict, TypeGuard, TypeVar

import httpx
import msgspec

from longshore.client.requests import Ask
from longshore.errors import (
    ConfigError,
    EngineError,
    EngineUnavailableError,
    LongshoreError,
)
from longshore.wire import errors
from longshore.wire.problems import Problem, error_of_problem

__all__ = [
    "Connection",
    "Retrying",
    "connection",
    "error_of",
    "fewer_jobs",
    "headers_of",
    "is_good",
    "may_pass",
    "most_jobs",
    "place_of",
    "read",
]

T = TypeVar("T")

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_TURNED_AWAY = frozenset(
    {"overloaded", "body_budget", "quota_exceeded", "queue_full", "idempotency_in_flight"}
)
"""Problems of requests of which nothing was stored: sending them again is never twice."""
_PASSING = frozenset({429, 502, 503, 504})


@dataclass(slots=True)
class Retrying:
    """The tries of one request, up to a deadline that is counted from the first."""

    deadline: float
    """On the clock of whoever asks `after`."""
    is_repeatable: bool
    connect_deadline: float | None = None
    """Until when a connection that cannot be made is tried again; None: until the deadline."""
    rng: random.Random = field(default_factory=random.Random)
    tries: int = 0

    def after(self, outcome: httpx.Response | httpx.HTTPError, now: float) -> float | None:
        """Seconds to wait before the next try; None when this was the last.

        Where the service says how long, so long at least. A pause past the deadline is not
        begun: the caller hears at once.
        """
        if not self._is_worth_another(outcome):
            return None
        if isinstance(outcome, httpx.HTTPError):
            found = self.pause(0.0, now)
            if found is None or not isinstance(outcome, _NOT_SENT):
                return found
            limit = self.connect_deadline
            return found if limit is None or now + found < limit else None
        return self.pause(_retry_after(outcome), now)

    def pause(self, least: float, now: float) -> float | None:
        """The same, where another try is worth it and is to wait so long at least."""
        self.tries += 1
        growing = min(_FIRST_PAUSE * 2 ** (self.tries - 1), _LONGEST_PAUSE)
        pause = max(growing * self.rng.uniform(0.5, 1.0), least)
        return pause if now + pause < self.deadline else None

    def _is_worth_another(self, outcome: httpx.Response | httpx.HTTPError) -> bool:
        if isinstance(outcome, httpx.HTTPError):
            return self.is_repeatable or isinstance(outcome, _NOT_SENT)
        if self.is_repeatable:
            return outcome.status_code in _PASSING or may_pass(_problem(outcome))
        return _problem(outcome).code in _TURNED_AWAY


def may_pass(problem: Problem) -> bool:
    """Whether a request that may be repeated is worth another try after this."""
    return problem.status in _PASSING or problem.code in _TURNED_AWAY


def is_good(outcome: httpx.Response | httpx.HTTPError) -> TypeGuard[httpx.Response]:
    """An answer that can be read."""
    return isinstance(outcome, httpx.Response) and outcome.status_code < 300


def read(ask: Ask[T], answer: httpx.Response, place: str) -> T:
    """What a good answer says; EngineError where that is nothing that a service says."""
    try:
        return ask.read(answer.status_code, answer.content)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise EngineError(
            f"what {place} answers to {ask.method} {ask.path} cannot be read ({error}); see"
            " whether it is a Longshore service, and of this version"
        ) from None


def most_jobs(outcome: httpx.Response | httpx.HTTPError) -> int | None:
    """How many jobs one request may bring, if there were too many in this one."""
    return _problem(outcome).most_jobs if isinstance(outcome, httpx.Response) else None


def fewer_jobs(outcome: httpx.Response | httpx.HTTPError, sent: int) -> int | None:
    """How many jobs to send in one request after so many were too many, or too large."""
    most = most_jobs(outcome)
    if most is not None:
        return most if 0 < most < sent else None
    is_too_large = isinstance(outcome, httpx.Response) and outcome.status_code == 413
    return sent // 2 if is_too_large and sent > 1 else None


def error_of(outcome: httpx.Response | httpx.HTTPError, place: str) -> LongshoreError:
    """The error that a request ended with."""
    if isinstance(outcome, httpx.HTTPError):
        words = str(outcome) or type(outcome).__name__
        return EngineUnavailableError(f"{place} cannot be reached: {words}")
    if told := outcome.headers.get(errors.HEADER):
        known = errors.understood(told)
        if known is not None:
            return known
    found = _problem(outcome)
    if found.status == 500:
        return EngineError(f"{place}: {found.detail}")
    return error_of_problem(found)


def place_of(url: str) -> str:
    """Where the service is; ConfigError unless it is an http or https URL without a key."""
    parts = httpx.URL(url)
    if parts.scheme not in ("http", "https") or not parts.host:
        raise ConfigError(f"{url!r:.80} is not the URL of a service; https://host is")
    return f"{parts.scheme}://{parts.netloc.decode('ascii')}{parts.path.rstrip('/')}"


class Connection(TypedDict):
    """What httpx's clients, both of them, need to know of a service."""

    base_url: str
    headers: dict[str, str]
    timeout: httpx.Timeout


def connection(url: str, key: str | None, tenant: str | None, timeout: float) -> Connection:
    """Requests to this place, for that long; one that cannot even connect fails sooner."""
    found = {"user-agent": "longshore"}
    if key:
        found["authorization"] = f"Bearer {key}"
    if tenant:
        found["longshore-tenant"] = tenant
    return {
        "base_url": url,
        "headers": found,
        "timeout": httpx.Timeout(timeout, connect=min(timeout, 5.0)),
    }


def headers_of(ask: Ask[Any]) -> dict[str, str]:
    """What goes with this one."""
    media = {"content-type": "application/json"} if ask.body is not None else {}
    return {**media, **ask.headers}


def _problem(answer: httpx.Response) -> Problem:
    try:
        return msgspec.json.decode(answer.content, type=Problem)
    except (msgspec.DecodeError, UnicodeError):
        words = answer.reason_phrase or "no words"
        return Problem(
            type="about:blank", title=words, status=answer.status_code, detail=words, code=""
        )


def _retry_after(answer: httpx.Response) -> float:
    try:
        return max(float(answer.headers.get("retry-after", 0)), 0.0)
    except ValueError:
        return 0.0
