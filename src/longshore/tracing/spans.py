"""What spans are called and what they say: the conventions for messaging, in one place."""

import os
import socket
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer

__all__ = ["client", "fail", "start"]

_KINDS = {
    "send": SpanKind.PRODUCER,
    "receive": SpanKind.CLIENT,
    "process": SpanKind.CONSUMER,
    "settle": SpanKind.CLIENT,
}


@cache
def _tracer() -> Tracer:
    """Of whatever provider the process has, or will have."""
    return trace.get_tracer("longshore", version("longshore"))


def client(name: str | None = None) -> str:
    """Who asks: a worker by its name, and whoever has none by host and process."""
    return name or f"{socket.gethostname()}:{os.getpid()}"


def start(
    operation: str,
    queues: set[str],
    *,
    context: Context | None,
    links: Sequence[Link] = (),
    attributes: dict[str, str | int],
    start_ns: int | None = None,
) -> Span:
    """A span of an operation on these queues; it is named after the queue if there is one."""
    (queue,) = queues if len(queues) == 1 else ("",)
    told = {
        "messaging.system": "longshore",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        **({"messaging.destination.name": queue} if queue else {}),
        **attributes,
    }
    return _tracer().start_span(
        f"{operation} {queue}" if queue else operation,
        context=context,
        kind=_KINDS[operation],
        attributes=told,
        links=links,
        start_time=start_ns,
    )


def fail(span: Span, kind: str, words: str = "") -> None:
    """The operation failed, with an error of this kind."""
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, words or None))
