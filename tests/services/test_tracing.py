"""Spans from submit to settle, as an exporter gets them."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision
from opentelemetry.trace import Link, SpanContext, SpanKind, StatusCode, TraceFlags

from longshore import Dead, JobFailedError, Longshore, Snooze, current_job
from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.http_server import ApiServer, listen
from longshore.api.settings import ApiSettings
from longshore.settings import load
from longshore.tracing.provider import LinkedSampler

SAMPLED = f"00-{'a' * 32}-{'b' * 16}-01"
UNSAMPLED = f"00-{'a' * 32}-{'c' * 16}-00"
EXPORTER = InMemorySpanExporter()


class Spans:
    """What was exported, by name."""

    def all(self) -> list[ReadableSpan]:
        return list(EXPORTER.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [one for one in self.all() if one.name == name]

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found


@pytest.fixture
def spans() -> Iterator[Spans]:
    # A process has one provider for good.
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
        trace.set_tracer_provider(provider)
    EXPORTER.clear()
    yield Spans()
    EXPORTER.clear()


def an_app(**settings: object) -> Longshore:
    flags = {f"tracing.{name}": value for name, value in settings.items()}
    return Longshore("sqlite://:memory:", settings=load({"tracing.enabled": True, **flags}))


def linked(span: ReadableSpan) -> list[int]:
    return [one.context.span_id for one in span.links]


async def test_a_job_is_told_from_submit_to_settle_over_its_retries(spans: Spans):
    app = an_app()
    tracer = trace.get_tracer("shop")

    @app.task(queue="mail", retry_base=0)
    async def greet(name: str) -> None:
        with tracer.start_as_current_span("template"):
            if current_job().attempt == 1:
                raise ValueError("no such template")

    async with app:
        with tracer.start_as_current_span("request") as request:
            handle = await greet.submit("ada")
        job = await handle.get()
        await app.work(until_idle=True, horizon=5)

    send = spans.one("send mail")
    assert send.kind is SpanKind.PRODUCER
    assert send.parent is not None
    assert send.parent.span_id == request.get_span_context().span_id
    creation = f"00-{send.context.trace_id:032x}-{send.context.span_id:016x}-"
    assert job.trace.startswith(creation)
    failed, succeeded = spans.named("process mail")
    for span in (failed, succeeded, *spans.named("receive mail"), *spans.named("settle mail")):
        assert linked(span) == [send.context.span_id]
        assert span.parent is None
    assert len(spans.named("receive mail")) == len(spans.named("settle mail")) == 2
    assert [one.parent.span_id for one in spans.named("template") if one.parent] == [
        failed.context.span_id,
        succeeded.context.span_id,
    ]
    assert failed.status.status_code is StatusCode.ERROR
    assert succeeded.status.status_code is StatusCode.UNSET
    assert failed.attributes == {
        "messaging.system": "longshore",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": handle.id,
        "messaging.client.id": spans.named("receive mail")[0].attributes["messaging.client.id"],
        "longshore.job.type": "greet",
        "longshore.job.attempt": 1,
        "error.type": "ValueError",
    }
    assert failed.events[0].attributes["exception.message"] == "no such template"


async def test_as_a_child_the_run_is_part_of_the_trace(spans: Spans):
    app = an_app(relation="child")

    @app.task
    def greet() -> None:
        trace.get_tracer("shop").start_span("inner").end()

    async with app:
        await greet.submit()
        await app.work(until_idle=True)

    send, process, inner = map(spans.one, ("send default", "process default", "inner"))
    assert process.parent is not None
    assert process.parent.span_id == send.context.span_id
    assert linked(process) == []
    assert inner.parent.span_id == process.context.span_id
    assert {one.context.trace_id for one in (send, process, inner)} == {send.context.trace_id}


async def test_what_its_producer_does_not_sample_is_not_told(spans: Spans):
    app = an_app()
    seen: list[SpanContext] = []

    @app.task
    async def greet() -> None:
        seen.append(trace.get_current_span().get_span_context())
        trace.get_tracer("shop").start_span("inner").end()

    async with app:
        await greet.using(trace=UNSAMPLED).submit()
        await app.work(until_idle=True)

    assert spans.all() == []
    assert f"{seen[0].trace_id:032x}" == "a" * 32
    assert not seen[0].trace_flags.sampled


async def test_a_thousand_jobs_are_few_spans_and_one_sampled_job_among_them(spans: Spans):
    app = an_app()

    @app.task
    async def greet() -> None:
        pass

    async with app:
        quiet = [greet.using(trace=UNSAMPLED).spec() for _ in range(999)]
        await app.submit_many([*quiet, greet.using(trace=SAMPLED).spec()])
        await app.work(until_idle=True)

    send = spans.one("send default")
    assert send.attributes["messaging.batch.message_count"] == 1_000
    assert linked(send) == linked(spans.one("process default")) == [int("b" * 16, 16)]
    received, settled = spans.named("receive default"), spans.named("settle default")
    assert len(received) == 1
    assert linked(received[0]) == [int("b" * 16, 16)]
    assert received[0].attributes["messaging.batch.message_count"] > 1
    assert len(settled) == 1


async def test_wishes_are_no_failures_and_errors_of_every_kind_stay_what_they_are(
    spans: Spans,
):
    app = an_app()

    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    @app.task(max_attempts=1)
    async def raises(what: str) -> None:
        if what == "mute":
            raise MuteError
        if what == "large":
            raise ValueError("x" * 10_000_000)
        raise Snooze(3_600) if what == "snooze" else Dead("no use")

    async with app:
        handles = {what: await raises.submit(what) for what in ("mute", "large", "dead")}
        await raises.submit("snooze")
        await app.work(until_idle=True)
        with pytest.raises(JobFailedError, match="MuteError"):
            await handles["mute"].result(timeout=1)
        job = await handles["large"].get()

    runs = spans.named("process default")
    kinds = [one.attributes.get("error.type") for one in runs]
    assert sorted(map(str, kinds)) == ["Dead", "MuteError", "None", "ValueError"]
    assert max(len(one.events[0].attributes["exception.message"]) for one in runs if one.events)
    assert all(len(one.to_json()) < 50_000 for one in runs)
    # Frames of ours are no part of what the handler raised.
    assert "longshore/tracing" not in job.failure.traceback


async def test_a_timeout_is_a_failure_of_its_own_kind(spans: Spans):
    app = an_app()

    @app.task(timeout=0.05, max_attempts=1)
    async def sleep() -> None:
        await asyncio.sleep(60)

    async with app:
        await sleep.submit()
        await app.work(until_idle=True)

    assert spans.one("process default").attributes["error.type"] == "timeout"


async def test_the_service_goes_on_from_the_header(spans: Spans):
    app = an_app()
    async with app:
        transport = httpx.ASGITransport(
            Application(Service(app.engine)), client=("127.0.0.1", 1)
        )
        headers = {"traceparent": SAMPLED}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers
        ) as client:
            one = await client.post("/v1/jobs", json={"type": "noop"})
            many = await client.post("/v1/jobs:batch", json={"jobs": [{"type": "noop"}] * 2})
        ids = [one.json()["id"], *(item["id"] for item in many.json()["results"])]
        jobs = [await app.job(job_id).get() for job_id in ids]

    single, batch = spans.named("send default")
    for send in (single, batch):
        assert send.context.trace_id == int("a" * 32, 16)
        assert send.parent is not None
        assert send.parent.span_id == int("b" * 16, 16)
    contexts = [f"{one.context.span_id:016x}" for one in (single, batch, batch)]
    assert [job.trace.split("-")[2] for job in jobs] == contexts


async def test_of_a_worker_behind_a_service_only_the_worker_tells(spans: Spans):
    home = an_app()
    settings = ApiSettings(port=0)
    async with home:
        server = ApiServer(Service(home.engine, settings), is_local=True)
        listening, ready = listen(settings), asyncio.Event()
        serving = asyncio.create_task(server.run(listening, on_ready=ready.set))
        await ready.wait()
        host, port = listening.getsockname()
        away = Longshore(f"http://{host}:{port}", settings=home.settings)
        async with away:
            job = await away.submit("noop")
            working = asyncio.create_task(away.work())
            await job.result()
            working.cancel()
            await asyncio.wait([working])
        server.drain()
        await serving

    asked, stored = sorted(spans.named("send default"), key=lambda one: one.end_time or 0)[::-1]
    assert stored.parent is not None
    assert stored.parent.span_id == asked.context.span_id
    for name in ("receive default", "process default", "settle default"):
        assert linked(spans.one(name)) == [stored.context.span_id]


def test_what_is_linked_to_something_sampled_is_sampled():
    sampler = LinkedSampler(ALWAYS_OFF)
    here, there = (SpanContext(1, 2, True, TraceFlags(flag)) for flag in (1, 0))

    def decision(*contexts: SpanContext) -> Decision:
        links = [Link(one) for one in contexts]
        return sampler.should_sample(None, 5, "process", links=links).decision

    assert decision(there, here) is Decision.RECORD_AND_SAMPLE
    assert decision(there) is decision() is Decision.DROP


@pytest.mark.slow
def test_off_nothing_of_it_is_imported(tmp_path: Path):
    program = """
import asyncio, sys
from longshore import Longshore
app = Longshore("sqlite:///jobs.db")
@app.task
async def greet(): pass
async def main():
    async with app:
        await greet.submit()
        await app.work(until_idle=True)
asyncio.run(main())
ours = ("opentelemetry", "longshore.tracing.")
print([name for name in sys.modules if name.startswith(ours)])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stdout.strip() == "['longshore.tracing.settings']", done.stderr
