"""Where spans of Longshore's own processes go: OTLP over HTTP, as OTEL_* variables say."""

import threading
from collections.abc import Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, ProxyTracerProvider, SpanKind
from opentelemetry.util.types import Attributes

__all__ = ["LinkedSampler", "set_up", "shut_down"]

_PATIENCE = 3.0
"""Seconds that a process that leaves waits for a collector."""


class LinkedSampler(Sampler):
    """Samples what is linked to something sampled, and leaves the rest to another sampler.

    The run of a job is a trace of its own. A sampler that takes one trace of a hundred would
    take one run of a hundred sampled submits; so whoever samples submits has decided already.
    """

    def __init__(self, others: Sampler) -> None:
        self._others = others

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        *more: Any,
        **named: Any,
    ) -> SamplingResult:
        """Record it, if it begins a trace and one of its links is recorded."""
        is_root = not trace.get_current_span(parent_context).get_span_context().is_valid
        if is_root and any(one.context.trace_flags.sampled for one in links or ()):
            return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes)
        return self._others.should_sample(
            parent_context, trace_id, name, kind, attributes, links, *more, **named
        )

    def get_description(self) -> str:
        """Its name and that of the other."""
        return f"LinkedSampler{{{self._others.get_description()}}}"


_ours: TracerProvider | None = None


def set_up() -> None:
    """Make a provider, unless the application has made one."""
    global _ours
    if not isinstance(trace.get_tracer_provider(), ProxyTracerProvider):
        return
    found = Resource.create()
    if str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        found = found.merge(Resource({SERVICE_NAME: "longshore"}))
    _ours = TracerProvider(resource=found, shutdown_on_exit=False)
    _ours.sampler = LinkedSampler(_ours.sampler)
    _ours.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(_ours)


def shut_down() -> None:
    """Send what is left, if a collector takes it in time."""
    if _ours is not None:
        # A collector that does not answer must not keep a process that was asked to leave.
        sending = threading.Thread(target=_ours.shutdown, daemon=True)
        sending.start()
        sending.join(_PATIENCE)
