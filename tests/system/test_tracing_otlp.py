"""Spans on their way from worker processes to a collector, over OTLP."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from longshore.contract import Engine
from longshore.core.job import NewJob
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.testing.factories import a_job
from longshore.testing.harness import eventually

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PATIENCE = 30.0
TRACE = f"00-{'a' * 32}-{'b' * 16}-01"


class Collector(ThreadingHTTPServer):
    """Takes spans as a collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.spans: list[tuple[str, Span]] = []
        """Each with the name of the service that sent it."""

    def runs_of(self, type_name: str) -> list[Span]:
        return [
            one for _, one in self.spans if _facts(one).get("longshore.job.type") == type_name
        ]


class _Taking(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            service = _facts(resource.resource)["service.name"]
            for scope in resource.scope_spans:
                self.server.spans += [(service, span) for span in scope.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def surroundings(collector: Collector) -> dict[str, str]:
    """The environment of workers that send it their spans."""
    return {
        **{name: value for name, value in os.environ.items() if "LONGSHORE" not in name},
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        "LONGSHORE_TRACING_ENABLED": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_address[1]}",
        "OTEL_TRACES_SAMPLER": "parentbased_always_off",
        "NO_PROXY": "127.0.0.1",
    }


async def have_succeeded(engine: Engine, jobs: list[NewJob]) -> bool:
    found = [await engine.get(job.id) for job in jobs]
    return all(job.state is State.SUCCEEDED for job in found)


async def test_a_run_after_a_crash_and_one_in_a_child_know_their_creation(
    collector: Collector, tmp_path: Path
):
    environ = surroundings(collector)
    command = [sys.executable, "-m", "longshore", "worker", "--app", "tracing_app:app"]
    engine = open_engine(f"sqlite:///{tmp_path}/.longshore/jobs.db")
    (tmp_path / ".longshore").mkdir()
    await engine.migrate()
    jobs = [a_job(type="held", trace=TRACE), a_job(type="apart", trace=TRACE)]
    # Of these nobody asked to hear, and the sampler does not want them either.
    others = [a_job(type="noop") for _ in range(20)]

    with ExitStack() as stack:

        def start() -> "subprocess.Popen[bytes]":
            process = stack.enter_context(subprocess.Popen(command, cwd=tmp_path, env=environ))
            stack.callback(process.kill)
            return process

        first = start()
        await engine.submit(jobs[:1])
        await eventually((tmp_path / "held.started").exists, within=PATIENCE)
        first.kill()
        second = start()
        await engine.submit([jobs[1], *others])
        await eventually(partial(have_succeeded, engine, [*jobs, *others]), within=PATIENCE)
        # What a worker has not sent yet, it sends before it leaves.
        second.terminate()
        assert await asyncio.to_thread(second.wait, PATIENCE) == 0
    await engine.close()

    (again,), (apart,) = collector.runs_of("held"), collector.runs_of("apart")
    assert _facts(again)["longshore.job.attempt"] == 2
    for run in (again, apart):
        assert run.name == "process default"
        assert [(one.trace_id.hex(), one.span_id.hex()) for one in run.links] == [
            ("a" * 32, "b" * 16)
        ]
    assert collector.runs_of("noop") == []
    assert {service for service, _ in collector.spans} == {"longshore"}
    names = {span.name for _, span in collector.spans}
    assert names == {"receive default", "process default", "settle default"}


def _facts(it: object) -> dict[str, object]:
    found = {}
    for one in it.attributes:
        found[one.key] = getattr(one.value, one.value.WhichOneof("value"))
    return found
