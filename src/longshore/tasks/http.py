"""`http.call`: one HTTP request per job, guarded against being turned inward.

What an answer means for the job:

    2xx, or a status in `expect`         succeeded
    408, 409, 425, 429, 5xx, no answer   tried again; a Retry-After is honoured
    any other status                     dead: the receiver understood, and refuses
    a URL that may not be called         dead, before anything is sent

409 is tried again because that is what a receiver answers while it still works on an earlier
request with the same Idempotency-Key.
"""

import importlib
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from longshore.directives import Dead, Retry
from longshore.errors import ConfigError
from longshore.job_context import current_job
from longshore.tasks.redaction import without_secrets
from longshore.tasks.settings import HttpTaskSettings
from longshore.tasks.ssrf import Guard, Resolver, lookup

if TYPE_CHECKING:
    from longshore.tasks.http_transport import Outbound

__all__ = ["HttpAnswer", "HttpTask", "Method", "Request", "judge", "retry_after"]

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

LONGEST_URL = 8_192
MOST_REDIRECTS = 10
_SHARE = 0.95
"""Of the time that the job has left, what a call may take."""
WORTH_RETRYING = frozenset({408, 409, 425, 429})

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_VALUE = re.compile(r"[\x20-\x7e\t]{0,8192}")
# The client sets these from the request itself; a second opinion is how requests are smuggled.
_OURS = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",  # codespell:ignore te
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What goes over the wire, checked and complete."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None = None


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back, as far as it is kept: the job's result."""

    status: int
    headers: dict[str, str]
    """Those worth keeping, in lower case."""
    body: str | None
    """None when it came compressed although that was not asked for."""
    is_truncated: bool
    url: str
    """Where the answer came from, without a query, which may hold a secret; differs from the
    job's URL after redirects."""


class HttpTask:
    """The task, bound to a worker's settings."""

    def __init__(
        self,
        settings: HttpTaskSettings | None = None,
        *,
        resolve: Resolver = lookup,
    ) -> None:
        self._settings = settings or HttpTaskSettings()
        self._guard = Guard(self._settings.allowed_networks, resolve)
        self._outbound: Outbound | None = None

    async def call(
        self,
        method: Method,
        url: str,
        headers: dict[str, str] | None = None,
        body: str | None = None,
        json: Any = None,
        expect: list[int] | None = None,
        timeout: float = 30.0,
        max_redirects: int = 0,
    ) -> HttpAnswer:
        """Send the request once; the answer's status decides how the job ends.

        The job's id goes along as Idempotency-Key, the same in every attempt. Redirects are
        an answer like any other unless `max_redirects` allows some.
        """
        content, content_type = _content(body, json)
        request = Request(
            method=method, url=url, headers=_headers(headers or {}, content_type), body=content
        )
        if len(url) > LONGEST_URL:
            raise Dead(f"the url is longer than {LONGEST_URL} characters")
        if not 0 <= max_redirects <= MOST_REDIRECTS:
            raise Dead(f"max_redirects is 0 to {MOST_REDIRECTS}")
        answer = await self._client().send(
            request, seconds=self._seconds(timeout), max_redirects=max_redirects
        )
        judge(answer, expect, url, now=current_job().now(), settings=self._settings)
        return answer

    def _seconds(self, timeout: float) -> float:
        if not timeout > 0 or math.isnan(timeout):
            raise Dead("timeout is a positive number of seconds")
        # A job that is stopped in mid-call could not tell what it was waiting for.
        left = current_job().time_left * _SHARE
        return min(timeout, self._settings.longest_call.total_seconds(), left)

    def _client(self) -> "Outbound":
        """Loads httpx when the first call needs it: the extra is optional."""
        if self._outbound is not None:
            return self._outbound
        try:
            module = importlib.import_module("longshore.tasks.http_transport")
        except ModuleNotFoundError as exc:
            raise ConfigError(
                "http.call needs httpx; install longshore[http] where the worker runs"
            ) from exc
        client: Outbound = module.Outbound(self._guard, self._settings)
        self._outbound = client
        return client


def judge(
    answer: HttpAnswer,
    expect: Sequence[int] | None,
    url: str,
    *,
    now: datetime,
    settings: HttpTaskSettings | None = None,
) -> None:
    """Return if the answer is a success, else raise what the job needs: Retry or Dead.

    What `url`, the one that was asked, holds in secret is left out of the reason.
    """
    status = answer.status
    if status in expect if expect else 200 <= status < 300:
        return
    words = without_secrets(answer.body or "", url)
    reason = f"{answer.url} answered {status}: {words:.200}"
    if status not in WORTH_RETRYING and status < 500:
        raise Dead(reason)
    asked = retry_after(answer.headers, now)
    longest = (settings or HttpTaskSettings()).longest_retry_after
    raise Retry(after=min(asked, longest) if asked else None, reason=reason)


def _headers(given: Mapping[str, str], content_type: str | None) -> dict[str, str]:
    """The job's own headers over ours, except where a second opinion would be a hole."""
    complete = {
        "accept": "*/*",
        "user-agent": "longshore",
        "idempotency-key": f'"{current_job().id}"',
    }
    if content_type:
        complete["content-type"] = content_type
    for name, value in given.items():
        lowered = name.lower()
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise Dead(f"{name!r:.80} is not a header that can be sent")
        if lowered in _OURS or lowered.startswith("proxy-"):
            raise Dead(f"the header {name!r} is set by the worker, not by the job")
        complete[lowered] = value
    # An answer that unpacks to more than it weighs could fill the worker's memory.
    complete["accept-encoding"] = "identity"
    return complete


def _content(body: str | None, json: object) -> tuple[bytes | None, str | None]:
    """The request's body and its type."""
    if body is not None and json is not None:
        raise Dead("give the request a body or json, not both")
    if json is not None:
        return msgspec.json.encode(json), "application/json"
    return (None, None) if body is None else (body.encode(), "text/plain; charset=utf-8")


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """How long the receiver asked to be left alone, if it did and it can be read."""
    asked = headers.get("retry-after", "").strip()
    if asked.isascii() and asked.isdigit():
        # Ten digits of seconds are three centuries; more would not fit a timedelta.
        return timedelta(seconds=int(asked[:10]))
    try:
        until = parsedate_to_datetime(asked)
    except ValueError:
        return None
    return max(until.replace(tzinfo=until.tzinfo or UTC) - now, timedelta(0))
