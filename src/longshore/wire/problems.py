"""From a problem that the service answers with to the error that a caller catches."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from longshore import errors
from longshore.errors import (
    ConfigError,
    EngineBusyError,
    EngineUnavailableError,
    LongshoreError,
)

__all__ = ["SomeProblem", "error_of_problem"]


class SomeProblem(Protocol):
    """What is looked at of a problem."""

    @property
    def code(self) -> str:
        """Names the kind."""
        ...

    @property
    def status(self) -> int:
        """Of the answer."""
        ...

    @property
    def detail(self) -> str:
        """What is wrong."""
        ...

    @property
    def errors(self) -> Sequence[Any]:
        """Where it is wrong, each with `pointer` and `detail`."""
        ...


def error_of_problem(problem: SomeProblem) -> LongshoreError:
    """The error that tells the same."""
    flaws = "; ".join(f"{one.pointer} {one.detail}" for one in problem.errors)
    # Beside them the detail only says that they are there.
    words = flaws or problem.detail
    kind = _KINDS.get(problem.code) or _by_status(problem.status)
    error = kind.__new__(kind)
    error.args = (words,)
    return error


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


_KINDS = {kind.code: kind for kind in _classes(LongshoreError)} | {
    "invalid": errors.SubmitError,
    "malformed": errors.SubmitError,
    "content_too_large": errors.PayloadError,
    "key_required": errors.SubmitError,
    "key_malformed": errors.SubmitError,
    "idempotency_in_flight": errors.InFlightError,
}
