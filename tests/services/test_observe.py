"""What a program counts while it submits and works, and what it says to who asks."""

import asyncio
import socket
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from longshore import Cancel, Dead, Longshore
from longshore.contract import Engine
from longshore.core.limit_settings import BreakerSettings, Layer
from longshore.errors import ConfigError, EngineUnavailableError
from longshore.observe.overview import Overview
from longshore.observe.serving import listen, serving
from longshore.observe.settings import MetricsSettings
from longshore.records import breaker_settings


def counted(page: bytes, *, of: str) -> dict[str, float]:
    """By metric, what was counted of one type, or without labels."""
    return {
        one.name.removeprefix("longshore_"): one.value
        for family in text_string_to_metric_families(page.decode())
        for one in family.samples
        if one.labels in ({}, {"queue": "default", "type": of})
    }


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


async def test_every_end_of_a_job_is_counted_once(store: str):
    app = Longshore(store)

    @app.task(max_attempts=2, retry_base=0.001, name="t")
    async def end(how: str) -> None:
        if how == "cancel":
            raise Cancel
        if how == "dead":
            raise Dead
        if how == "fail":
            raise ValueError

    async with app:
        await app.engine.migrate()
        await app.submit_many(end.spec(how=how) for how in ["well", "cancel", "dead", "fail"])
        for _ in range(2):
            await end.using(unique="u").submit(how="well")
        waiting = await end.using(delay=3600).submit(how="well")
        await waiting.cancel()
        await app.work(until_idle=True, horizon=2)
        page = app.metrics.text(await Overview(app.engine).readings())
    found = counted(page, of="t")

    assert found["jobs_submitted_total"] == 6
    assert found["jobs_deduplicated_total"] == 1
    assert found["jobs_succeeded_total"] == 2
    assert found["jobs_failed_total"] == 3
    assert found["jobs_retried_total"] == 1
    assert found["jobs_dead_total"] == 2
    assert found["jobs_cancelled_total"] == 2
    assert found["jobs_poisoned_total"] == 0
    assert found["job_wait_seconds_count"] == 6
    assert found["leases_acquired_total"] == 1
    assert found["submit_seconds_count"] == 4
    assert found["claim_seconds_count"] >= 1
    assert found["settle_seconds_count"] >= 1


class Reluctant:
    """An engine that counts slowly, or not at all."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.looks = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_away = False
        self.get_records = engine.get_records
        self.list_records = engine.list_records
        self.write_records = engine.write_records
        self.sessions = engine.sessions
        self.now = engine.now

    async def ping(self) -> None:
        if self.is_away:
            raise EngineUnavailableError("away")
        await self._engine.ping()

    async def counts(self, *, tenant: str | None = None, may_estimate: bool = False):
        self.looks += 1
        await self.gate.wait()
        if self.is_away:
            raise EngineUnavailableError("away")
        return await self._engine.counts(tenant=tenant, may_estimate=may_estimate)


async def test_the_queue_is_looked_at_once_for_all_who_ask_and_a_slow_look_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("longshore.observe.overview._FRESH", 0.0)
    monkeypatch.setattr("longshore.observe.overview._SHARE", 0)
    app = Longshore("sqlite://:memory:")
    async with app:
        await app.submit("noop")
        await breaker_settings.put(app.engine, "t", Layer.DECLARED, BreakerSettings(failures=3))
        engine = Reluctant(app.engine)
        overview = Overview(engine)

        await asyncio.gather(*(overview.view() for _ in range(20)))
        assert engine.looks == 1

        engine.gate.clear()
        old = await overview.view()
        readings = {one.name: dict(one.values) for one in await overview.readings()}
        assert engine.looks == 2
        assert old is not None
        assert readings["queue_depth"]["default", "ready"] == 1
        assert readings["breaker_state"]["t",] == 0
        assert readings["engine_up"][()] == 1

        engine.is_away = True
        engine.gate.set()
        fresh = Overview(engine)
        assert await fresh.view() is None
        assert [one.name for one in await fresh.readings()] == ["engine_up"]


async def _ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def test_the_port_answers_its_pages_and_refuses_all_else():
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = free.getsockname()[1]
        with pytest.raises(ConfigError, match="--metrics-port"):
            listen(MetricsSettings(port=number))
    assert listen(MetricsSettings(port=0)) is None
    first, second = listen(MetricsSettings()), listen(MetricsSettings())
    assert first is not None
    assert second is not None
    second.close()

    async def page() -> bytes:
        return b"x 1\n"

    port = first.getsockname()[1]
    async with serving(first, page):
        told = await _ask(port, b"GET /metrics?a=b HTTP/1.1\r\nhost: localhost\r\n\r\n")
        head = await _ask(port, b"HEAD /metrics HTTP/1.1\r\n\r\n")
        alive = await _ask(port, b"GET /healthz HTTP/1.1\r\n\r\n")
        lost = await _ask(port, b"GET /secrets HTTP/1.1\r\n\r\n")
        posted = await _ask(port, b"POST /metrics HTTP/1.1\r\n\r\n")
        long = await _ask(port, b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n")

    assert told.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4")
    assert told.endswith(b"\r\n\r\nx 1\n")
    assert head.endswith(b"\r\n\r\n")
    assert alive.endswith(b"alive\n")
    assert lost.startswith(b"HTTP/1.1 404 ")
    assert posted.startswith(b"HTTP/1.1 405 ")
    assert long.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"host: localhost:9464", 200),
        (b"Host: LOCALHOST", 200),
        (b"host: 127.0.0.1:9464", 200),
        (b"host: [::1]:9464", 200),
        (b"host: [::1]", 200),
        (b"host: 10.0.0.7:9464", 200),
        (b"host: worker:9464", 200),
        (b"accept: */*", 200),
        (b"host: evil.example:9464", 421),
        (b"host: evil.example", 421),
        (b"host: localhost.evil.example", 421),
        (b"host: 127.0.0.1.evil.example", 421),
        (b"host:", 421),
        (b"host: localhost\r\nhost: evil.example", 421),
        (b"host : evil.example", 421),
    ],
)
async def test_the_metrics_port_answers_only_to_names_of_its_machine(host: bytes, status: int):
    listening = listen(MetricsSettings())
    assert listening is not None

    async def page() -> bytes:
        return b"secret 1\n"

    port = listening.getsockname()[1]
    async with serving(listening, page, hosts=("Worker",)):
        told = await _ask(port, b"GET /metrics HTTP/1.1\r\n" + host + b"\r\n\r\n")
        alive = await _ask(port, b"GET /healthz HTTP/1.1\r\n" + host + b"\r\n\r\n")

    assert told.startswith(b"HTTP/1.1 %d " % status)
    assert alive.startswith(b"HTTP/1.1 %d " % status)
    assert (b"secret" in told) is (status == 200)


async def test_a_metrics_port_can_be_told_to_answer_to_any_name():
    listening = listen(MetricsSettings())
    assert listening is not None

    async def page() -> bytes:
        return b"x 1\n"

    port = listening.getsockname()[1]
    async with serving(listening, page, hosts=("*",)):
        told = await _ask(port, b"GET /metrics HTTP/1.1\r\nhost: any.example\r\n\r\n")

    assert told.endswith(b"x 1\n")


class Hours:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def test_a_store_that_answers_is_up_however_long_ago_it_was_asked_and_it_takes_to_count():
    async with Longshore("sqlite://:memory:") as app:
        await app.submit("noop")
        engine, clock = Reluctant(app.engine), Hours()
        overview = Overview(engine, clock)
        await overview.readings()
        clock.now += 150.0

        engine.gate.clear()
        asyncio.get_running_loop().call_later(0.2, engine.gate.set)
        readings = {one.name: dict(one.values) for one in await overview.readings()}

    assert engine.looks == 2
    assert readings["engine_up"][()] == 1
    assert readings["queue_depth"]["default", "ready"] == 1


async def test_a_store_that_answers_and_cannot_count_in_time_is_up_without_depths(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("longshore.observe.overview._DEADLINE", 0.1)
    async with Longshore("sqlite://:memory:") as app:
        engine = Reluctant(app.engine)
        engine.gate.clear()

        readings = await Overview(engine).readings()
        engine.gate.set()

    assert [(one.name, dict(one.values)) for one in readings] == [("engine_up", {(): 1.0})]


async def test_a_store_that_no_longer_answers_is_down_though_its_last_depths_are_known():
    async with Longshore("sqlite://:memory:") as app:
        engine = Reluctant(app.engine)
        overview = Overview(engine)
        await overview.readings()
        engine.is_away = True

        readings = {one.name: dict(one.values) for one in await overview.readings()}

    assert readings["engine_up"][()] == 0


async def test_a_store_that_is_back_is_looked_at_soon_however_long_it_failed_to_answer():
    async with Longshore("sqlite://:memory:") as app:
        engine, clock = Reluctant(app.engine), Hours()
        overview = Overview(engine, clock)
        engine.is_away = True
        engine.gate.clear()
        looking = asyncio.create_task(overview.view())
        while not engine.looks:
            await asyncio.sleep(0)
        clock.now += 20.0  # so long nothing is heard of the store
        engine.gate.set()
        assert await looking is None

        engine.is_away = False
        clock.now += 1.0

        assert await overview.view() is not None


async def test_a_count_that_takes_long_is_made_again_before_it_is_too_old_to_be_told():
    async with Longshore("sqlite://:memory:") as app:
        engine, clock = Reluctant(app.engine), Hours()
        overview = Overview(engine, clock)
        engine.gate.clear()
        looking = asyncio.create_task(overview.view())
        while not engine.looks:
            await asyncio.sleep(0)
        clock.now += 10.0  # so long it counts
        engine.gate.set()
        assert await looking is not None

        clock.now += 100.0

        assert await overview.view() is not None
        assert engine.looks == 2
