"""OpenTelemetry: spans from submit to settle, for those who ask for them.

Off, which is the default, nothing here but this file is imported: engines and handlers are
what they were, and no job pays for a question. On, the engine gets a wrapper that tells of
submits and exchanges, and each handler one that tells of its runs.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, TypeVar, cast

from longshore.contract import Engine, JobStore
from longshore.errors import ConfigError
from longshore.tracing.settings import Relation, TracingSettings

__all__ = ["Relation", "TracingSettings", "around", "exporting", "over"]

H = TypeVar("H")
S = TypeVar("S", bound=JobStore)


def over(engine: S, settings: TracingSettings) -> S:
    """The engine, whose submits and exchanges are traced if the settings say so."""
    if not settings.enabled:
        return engine
    _check_installed()
    from longshore.tracing.engine import TracedEngine  # its library is optional

    return cast("S", TracedEngine(cast("Engine", engine)))


def around(handlers: Iterable[H], settings: TracingSettings, worker: str | None) -> Iterator[H]:
    """The handlers of a worker, whose runs are traced if the settings say so."""
    if not settings.enabled:
        yield from handlers
        return
    _check_installed()
    from longshore.tracing.processing import traced  # its library is optional

    for handler in cast("Iterable[Any]", handlers):
        run = traced(
            handler.run,
            is_async=handler.is_async or handler.execution == "async",
            is_child=settings.relation is Relation.CHILD,
            worker=worker,
        )
        yield replace(handler, run=run)


@contextmanager
def exporting(settings: TracingSettings) -> Generator[None]:
    """Inside the block spans are sent where OTEL_EXPORTER_OTLP_ENDPOINT says.

    For a process that is Longshore's own. An application that has set up a provider of spans
    keeps it, and what it does with them.
    """
    if not settings.enabled:
        yield
        return
    _check_installed()
    from longshore.tracing import provider  # its library is optional

    provider.set_up()
    try:
        yield
    finally:
        provider.shut_down()


def _check_installed() -> None:
    # Some of its packages come along with other libraries.
    if not (find_spec("opentelemetry") and find_spec("opentelemetry.sdk")):
        raise ConfigError(
            "tracing needs OpenTelemetry; run `pip install 'longshore[otel]'`, or leave "
            "tracing.enabled unset"
        )
