"""The run of a handler as a span, below which the handler's own spans hang."""

import asyncio
import traceback
from collections.abc import Callable
from contextvars import Token
from functools import lru_cache
from typing import Any

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Link, NonRecordingSpan, Span, set_span_in_context

from longshore.core import ids, settle
from longshore.core.job import Claim
from longshore.directives import Cancel, Snooze
from longshore.job_context import CURRENT
from longshore.tracing import contexts, spans

__all__ = ["traced"]

_ROOT = Context()
_WISHES = (Snooze, Cancel)
"""What a handler raises that is no failure."""
_NO_FAILURES = ("CANCEL", "DRAIN")
"""Why a handler was stopped, where that is not its fault."""


def traced(
    run: Callable[[Any], Any], *, is_async: bool, is_child: bool, worker: str | None
) -> Callable[[Any], Any]:
    """The same handler, inside a span where the job's creation is sampled.

    Where it is not, the handler runs in the creation's context all the same: its own spans are
    as little recorded as their origin, and what it calls is told so.
    """
    begin = _Steps(worker, is_child=is_child).begin

    async def run_async(arguments: Any) -> Any:
        step = begin()
        try:
            return await run(arguments)
        except BaseException as error:
            step.fail(error)
            raise
        finally:
            step.end()

    def run_plain(arguments: Any) -> Any:
        step = begin()
        try:
            return run(arguments)
        except BaseException as error:
            step.fail(error)
            raise
        finally:
            step.end()

    return run_async if is_async else run_plain


@lru_cache(1_024)
def _unsampled(trace: str) -> Context | None:
    """The context of a creation that is not sampled, which the jobs of a batch share."""
    origin = contexts.parse(trace)
    if origin is None or origin.trace_flags.sampled:
        return None
    return set_span_in_context(NonRecordingSpan(origin), _ROOT)


class _Steps:
    """Begins runs."""

    def __init__(self, worker: str | None, *, is_child: bool) -> None:
        self._client = spans.client(worker)
        self._is_child = is_child

    def begin(self) -> "_Step":
        """The span of the job that is about to run here, as the current one."""
        slot = CURRENT.get()
        claim = slot.claim if slot is not None else None
        if claim is None:
            # Somebody calls the handler himself.
            return _Step(None, attach(_ROOT))
        if claim.trace is not None and (quiet := _unsampled(claim.trace)) is not None:
            return _Step(None, attach(quiet))
        origin = contexts.parse(claim.trace)
        above = _ROOT
        if origin is not None and self._is_child:
            above = set_span_in_context(NonRecordingSpan(origin), _ROOT)
        links = [Link(origin)] if origin is not None and not self._is_child else []
        span = spans.start(
            "process",
            {claim.queue},
            context=above,
            links=links,
            attributes=self._facts(claim),
        )
        return _Step(span, attach(set_span_in_context(span, _ROOT)))

    def _facts(self, claim: Claim) -> dict[str, str | int]:
        return {
            "messaging.message.id": ids.text(claim.id),
            "messaging.client.id": self._client,
            "longshore.job.type": claim.type,
            "longshore.job.attempt": claim.attempt + 1,
        }


class _Step:
    """A run that goes on."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span | None, token: Token[Context]) -> None:
        self._span = span
        self._token = token

    def fail(self, error: BaseException) -> None:
        """Tell what was raised, in as many words as the store keeps of it."""
        if self._span is None or not self._span.is_recording() or isinstance(error, _WISHES):
            return
        kind = type(error).__name__
        if isinstance(error, asyncio.CancelledError):
            why = getattr(getattr(CURRENT.get(), "stop", None), "name", "NO")
            if why in _NO_FAILURES:
                self._span.set_attribute("longshore.job.stopped", why.lower())
                return
            kind = kind if why == "NO" else why.lower()
        failure = settle.failure(kind, _told(error), _frames(error))
        spans.fail(self._span, failure.kind, failure.message)
        event = {"type": failure.kind, "message": failure.message}
        event["stacktrace"] = failure.traceback
        self._span.add_event(
            "exception", {f"exception.{name}": text for name, text in event.items()}
        )

    def end(self) -> None:
        """The run is over, however it ended."""
        detach(self._token)
        if self._span is not None:
            self._span.end()


def _told(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "it cannot be told in words"


def _frames(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error, limit=-20))
    except Exception:
        return ""
