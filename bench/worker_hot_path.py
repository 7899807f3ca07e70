"""What a job costs the worker itself: CPU per job, with an engine that costs nothing.

    python bench/worker_hot_path.py [--jobs 300000] [--handler async|context|sleep|thread]
                                    [--concurrency 64] [--loop asyncio|uvloop] [--profile]
                                    [--keeper] [--tracing sampled|unsampled]
    python bench/worker_hot_path.py --handler mixed [--rate 12000] [--concurrency 5000]

The engine here hands out claims it made beforehand and forgets what is settled. What is left
is the worker's own part: buffer, slots, decoding, the decision, bookkeeping and batching.
The figures come as JSON, and of an async no-op, whose budget is 8 µs, whether that holds. With
--keeper there is a keeper beside it, for which it keeps its flight record; what the keeper
itself takes does not count. With --tracing runs and exchanges are told to OpenTelemetry, whose
exporter throws them away; the jobs' creation is sampled or is not.

`mixed` is the load of `longshore bench --profile mix`: 70 % of the jobs take 1–5 ms, 20 % take
0.2–2 s, 5 % fail once, 5 % three times. So 100 jobs are 115 attempts, of which 20 fail; the
figure is per job, and the handlers' own timers are part of it. They come at a steady rate from
an engine that answers after 4 ms, into slots most of which are free.
"""

import argparse
import asyncio
import cProfile
import pstats
import sys
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, cast

import msgspec

from longshore import tracing
from longshore.contract import Engine, Exchanged, Promoted, Reference, Renewed, Report, Wakeup
from longshore.core.capabilities import Traits
from longshore.core.job import Claim, Settlement
from longshore.runtime.clock import SystemClock
from longshore.runtime.process import settle_in
from longshore.testing.factories import a_claim
from longshore.tracing import TracingSettings
from longshore.worker.keeper import KeeperOffer
from longshore.worker.registry import Execution, Handler, Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker
from longshore_lab.bounds import Bound, conclude

_CLOCK = SystemClock()
_ANSWER = 0.004
_BUDGET_US = 8.0
MARK: ContextVar[int] = ContextVar("mark", default=0)


class _Arguments(msgspec.Struct):
    user_id: int
    name: str
    seconds: float = 0.0


async def noop(_: Any) -> None:
    """Nothing, on the loop."""


async def change_context(arguments: Any) -> None:
    """Leave a context variable changed, as a handler that binds log fields does."""
    MARK.set(arguments.user_id)


async def sleep(_: Any) -> None:
    """Give way once."""
    await asyncio.sleep(0)


async def wait(arguments: Any) -> None:
    """Wait, as one does for a network."""
    await asyncio.sleep(arguments.seconds)


async def fail(_: Any) -> None:
    """Fail."""
    raise RuntimeError("as planned")


def plain(_: Any) -> None:
    """Nothing, in a thread."""


RUNS = {
    "async": noop,
    "context": change_context,
    "sleep": sleep,
    "thread": plain,
    "mixed": wait,
}


class _Source:
    """Hands out what it was given; both the engine and its one session."""

    traits = Traits(
        transactional_submit=False,
        transactional_completion=False,
        pushes_wakeups=True,
        claims_at_wakeup=False,
        ordering_keys=False,
        survives_power_loss=False,
        own_clock=False,
        shared_between_processes=False,
    )
    token = 1
    lease = 30_000_000

    def __init__(self, claims: list[Claim], rate: float) -> None:
        self._claims = claims
        self._at = 0
        self._rate = rate
        self._began = 0.0
        self.settled = 0

    async def open_session(self, **_: Any) -> "_Source":
        self._began = time.monotonic()
        return self

    async def exchange(
        self,
        number: int,
        *,
        started: Sequence[Reference] = (),
        progress: Sequence[Report] = (),
        settlements: Sequence[Settlement] = (),
        want: int = 0,
        queues: Sequence[str] | None = None,
    ) -> Exchanged:
        self.settled += len(settlements)
        await asyncio.sleep(_ANSWER if self._rate else 0)
        claims = self._claims[self._at : min(self._at + want, self._ready())]
        self._at += len(claims)
        return Exchanged(_CLOCK.now(), claims)

    async def renew(self, **_: Any) -> Renewed:
        now = _CLOCK.now()
        return Renewed(now, now + self.lease)

    async def ping(self) -> None:
        return None

    async def promote(self, *, limit: int) -> Promoted:
        return Promoted(0, None)

    async def wait(self, seconds: float, *, until: Wakeup = "work") -> None:
        is_work = until == "work" and self._rate and self._at < len(self._claims)
        await asyncio.sleep(_ANSWER if is_work else seconds)

    async def close(self) -> None:
        return None

    def _ready(self) -> int:
        if not self._rate:
            return len(self._claims)
        # One more than have been handed out, so that the worker does not leave as idle.
        return max(int((time.monotonic() - self._began) * self._rate), self._at + 1)


def main() -> None:
    """Run the jobs once and print one line."""
    options = _options()
    is_mixed = options.handler == "mixed"
    claims = list(_mixed(options.jobs) if is_mixed else _same(options.jobs))
    if options.tracing:
        flag = "01" if options.tracing == "sampled" else "00"
        claims = [
            msgspec.structs.replace(claim, trace=f"00-{'a' * 32}-{number:016x}-{flag}")
            for number, claim in enumerate(claims, 1)
        ]
        _export_to_nowhere()
    source = _Source(claims, options.rate * len(claims) / options.jobs if is_mixed else 0.0)
    settle_in()
    if options.loop == "uvloop":
        import uvloop

        figures = uvloop.run(_measure(options, source))
    else:
        figures = asyncio.run(_measure(options, source))
    is_bound = options.handler == "async" and not (options.tracing or options.profile)
    budget = Bound("CPU per job", figures["cpu_us_per_job"], _BUDGET_US, " µs")
    sys.exit(conclude(figures, *[budget] if is_bound else []))


async def _measure(options: argparse.Namespace, source: _Source) -> dict[str, Any]:
    slots = options.concurrency or (5_000 if options.handler == "mixed" else 64)
    settings = WorkerSettings(concurrency=slots)
    traces = TracingSettings(enabled=options.tracing is not None)
    engine = tracing.over(cast(Engine, source), traces)
    worker = Worker(engine, _registry(options.handler, traces), settings)
    profile = cProfile.Profile() if options.profile else None
    wall, cpu = time.perf_counter(), time.process_time()
    if profile:
        profile.enable()
    offer = KeeperOffer(url="sqlite://:memory:", log_level="critical")
    await worker.run(until_idle=True, keeper=offer if options.keeper else None)
    if profile:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    cpu = (time.process_time() - cpu) / options.jobs * 1e6
    wall = time.perf_counter() - wall
    stats = worker.stats
    sys.stdout.write(
        f"{options.handler}: {cpu:.2f} µs CPU per job, {options.jobs / wall:,.0f} jobs/s, "
        f"{stats.exchanges} exchanges, {stats.released} released\n"
    )
    assert stats.succeeded + stats.failed + stats.released == source.settled
    return {
        "handler": options.handler,
        "jobs": options.jobs,
        "tracing": options.tracing,
        "cpu_us_per_job": round(cpu, 2),
        "jobs_per_s": round(options.jobs / wall),
    }


def _export_to_nowhere() -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import (
        BatchSpanProcessor,
        SpanExporter,
        SpanExportResult,
    )

    class Nowhere(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    trace.set_tracer_provider(provider)


def _registry(name: str, traces: TracingSettings) -> Registry:
    decode = msgspec.json.Decoder(_Arguments).decode
    execution = Execution.THREAD if name == "thread" else Execution.ASYNC
    handlers = [
        Handler(type="noop", decode=decode, run=RUNS[name], execution=execution),
        Handler(type="fail", decode=decode, run=fail),
    ]
    return Registry(tracing.around(handlers, traces, "bench"))


def _same(jobs: int) -> Iterator[Claim]:
    for number in range(jobs):
        payload = b'{"user_id": 7, "name": "ada"}'
        yield a_claim(handle=number, payload=payload, timeout=300_000_000)


def _mixed(jobs: int) -> Iterator[Claim]:
    for number in range(jobs):
        share, spread = number % 100, (number * 7_919 % 1_000) / 1_000
        fails = 0 if share < 90 else 1 if share < 95 else 3
        short, long = 0.001 + 0.004 * spread, 0.2 + 1.8 * spread
        seconds = 0.0 if fails else short if share < 70 else long
        claim = a_claim(
            handle=number,
            payload=msgspec.json.encode({"user_id": 7, "name": "ada", "seconds": seconds}),
            timeout=300_000_000,
            max_attempts=3,
        )
        for failures in range(fails):
            yield msgspec.structs.replace(
                claim, type="fail", delivery=failures + 1, attempt=failures, failures=failures
            )
        if fails < 3:
            yield msgspec.structs.replace(
                claim, delivery=fails + 1, attempt=fails, failures=fails
            )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=300_000)
    parser.add_argument("--handler", choices=sorted(RUNS), default="async")
    parser.add_argument("--concurrency", type=int, help="64; mixed: 5000")
    parser.add_argument("--rate", type=float, default=12_000, help="mixed: jobs/s")
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="asyncio")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--keeper", action="store_true")
    parser.add_argument("--tracing", choices=["sampled", "unsampled"])
    return parser.parse_args()


if __name__ == "__main__":
    main()
