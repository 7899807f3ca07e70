"""The problems that the service answers with (RFC 9457), and the errors that tell the same."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from longshore import errors
from longshore.errors import (
    ConfigError,
    EngineBusyError,
    EngineUnavailableError,
    LongshoreError,
)

__all__ = ["Flaw", "Problem", "error_of_problem"]


class Flaw(msgspec.Struct, frozen=True):
    """One thing that is wrong with a request."""

    pointer: str
    """Where: a JSON pointer into the body, or the name of a parameter."""
    detail: str
    """What it has to be."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every error is answered with, as application/problem+json."""

    type: str
    """Names the kind of problem for good."""
    title: str
    status: Annotated[int, msgspec.Meta(ge=400, le=599)]
    detail: str
    code: str
    """The last part of `type`: what a program would look at."""
    errors: tuple[Flaw, ...] = ()
    missing: tuple[str, ...] = ()
    """Of 503: the dependencies that are away."""
    violated_policies: tuple[str, ...] = msgspec.field(default=(), name="violated-policies")
    """Of 429: the quotas that are used up."""
    most_jobs: int | None = None
    """Of 422 for too many jobs: how many one request may bring."""
    cap: str | None = None
    """Of 409 `cap_reached`: the setting of the tenant that says how many it may have."""
    most: float | None = None
    """Of 409 `cap_reached`: how many those are."""


def error_of_problem(problem: Problem) -> LongshoreError:
    """The error that tells the same."""
    flaws = "; ".join(f"{one.pointer} {one.detail}" for one in problem.errors)
    # Beside them the detail only says that they are there.
    words = flaws or _WORDS.get(problem.code) or _message(problem.detail)
    kind = _KINDS.get(problem.code) or _by_status(problem.status)
    error = kind.__new__(kind)
    error.args = (words,)
    return error


def _message(detail: str) -> str:
    """A sentence for people as the message of an error: lower case, without the full stop."""
    first, _, rest = detail.partition(" ")
    if first.istitle() and first.isalpha():
        detail = f"{first.lower()} {rest}" if rest else first.lower()
    return detail.removesuffix(".")


def _by_status(status: int) -> type[LongshoreError]:
    if status == 429:
        return EngineBusyError
    if status >= 500:
        return EngineUnavailableError
    return ConfigError


def _classes(base: type[LongshoreError]) -> Iterator[type[LongshoreError]]:
    yield base
    for kind in base.__subclasses__():
        yield from _classes(kind)


_WORDS = {
    "unauthenticated": (
        "the service asks for a valid API key; set LONGSHORE_KEY, or give it as `key=` in code"
        " and --api-key on the command line"
    ),
    "route_not_found": (
        "the service has no such route; see whether the path of the URL is right, and whether"
        " the service is of this version"
    ),
    "tenant_not_found": "no tenant has this name; create it first",
}
"""Where the detail tells of headers, which whoever calls a method never sees."""
_KINDS = {kind.code: kind for kind in _classes(LongshoreError)} | {
    "invalid": errors.SubmitError,
    "malformed": errors.SubmitError,
    "content_too_large": errors.PayloadError,
    "key_required": errors.SubmitError,
    "key_malformed": errors.SubmitError,
    "idempotency_in_flight": errors.InFlightError,
}
