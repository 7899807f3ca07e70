"""One validation for every way in: what one refuses all refuse, and all take what one takes."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from click.testing import CliRunner

from longshore import Longshore
from longshore.api.application import Application
from longshore.api.context import Service
from longshore.cli.main import main
from longshore.contract import Engine, JobFilter, TransactionalProducer
from longshore.core.job import NewJob
from longshore.core.schedule import Firing, Schedule, Shot
from longshore.core.submission import LONGEST_KEY
from longshore.errors import ConfigError, SubmitError
from longshore.records import schedules
from longshore.testing.factories import HOUR, SECOND, an_id

TEN_YEARS_S = 315_360_000
DEEP = '{"a":' * 33 + "1" + "}" * 33
TRACE = f"00-{'a' * 32}-{'b' * 16}-01"
NAMES = ("", "a b", "é", "a,b", "a=b", "a\n", "x" * 129)
TEXTS = ("", "x" * 513, "a\nb", "a\0b", "\u202e")

Wanted = Mapping[str, Any]
"""A job as people speak of it; the payload is JSON text, times are seconds."""

BAD: list[tuple[str, Any]] = [
    *(("type", name) for name in NAMES),
    *(("queue", name) for name in NAMES),
    *(("priority", number) for number in (0, 10, -1)),
    *(("max_attempts", number) for number in (0, 26)),
    *(("timeout", number) for number in (0, -1, TEN_YEARS_S + 1)),
    *(("tags", tags) for tags in (["x"] * 33, [""], ["x" * 257], ["a\nb"], ["a\0"])),
    ("payload", "[]"),
    ("payload", "7"),
    ("payload", '"text"'),
    ("payload", "null"),
    ("payload", "{"),
    ("payload", '{"a":1} x'),
    ("payload", DEEP),
    ("payload", '{"a":' + "[" * 5_000 + "]" * 5_000 + "}"),
    ("payload", '{"a":NaN}'),
    ("payload", '{"a":18446744073709551616}'),
    ("payload", '{"a":1e999}'),
    ("payload", '{"a":"\\u0000"}'),
    ("payload", '{"a":"\\ud800"}'),
    ("payload", '{"a":1,"a":2}'),
    ("payload", json.dumps({"a": "x" * (1 << 20)})),
]
BAD_JOBS: list[tuple[str, Any]] = [
    *((name, text) for name in ("key", "unique", "ordering_key") for text in TEXTS),
    *(("delay", seconds) for seconds in (-1, TEN_YEARS_S + 1)),
    ("run_at", datetime(1969, 12, 31, tzinfo=UTC)),
]
"""Of jobs alone: a schedule has no such thing."""
GOOD: list[tuple[str, Any]] = [
    ("type", "x" * 128),
    ("queue", "a_.:/@+-Z9"),
    ("priority", 9),
    ("max_attempts", 25),
    ("timeout", TEN_YEARS_S),
    ("tags", ["x" * 256] * 30),
    ("payload", DEEP[5:-1]),
    ("payload", '{"a":-9223372036854775808}'),
    # A request over HTTP has 1 MiB, all of it counted.
    ("payload", json.dumps({"a": "x" * ((1 << 20) - 1_000)})),
]
GOOD_JOBS: list[tuple[str, Any]] = [
    ("key", "k" * LONGEST_KEY),
    ("unique", "é ü"),
    ("ordering_key", "o" * 512),
    ("delay", TEN_YEARS_S),
    ("run_at", datetime(2999, 1, 1, tzinfo=UTC)),
    ("run_at", datetime(9999, 12, 30, tzinfo=UTC)),
    ("tags", ["x" * 256] * 32),
    ("trace", TRACE),
]


class Refused(Exception):  # noqa: N818
    """The way in said no, as it should: by its own kind of refusal."""


class House:
    """A store, and every way into it."""

    def __init__(self, app: Longshore, client: httpx.AsyncClient, url: str) -> None:
        self.app = app
        self.client = client
        self.url = url

    async def sdk(self, wanted: Wanted) -> None:
        await self.app.submit(**_spec(wanted))

    async def sdk_batch(self, wanted: Wanted) -> None:
        await self.app.submit_many([self.app.spec("t"), self.app.spec(**_spec(wanted))])

    async def engine(self, wanted: Wanted) -> None:
        await self.app.engine.submit([_job(wanted)])

    async def transaction(self, wanted: Wanted) -> None:
        path = self.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("begin immediate")
            engine = cast("TransactionalProducer", self.app.engine)
            _ = engine.submit_on(db, [_job(wanted)])
            db.execute("commit")

    async def http(self, wanted: Wanted) -> None:
        _expect(await self._post("/v1/jobs", _document(wanted)), {201})

    async def http_batch(self, wanted: Wanted) -> None:
        answer = await self._post("/v1/jobs:batch", '{"jobs":[' + _document(wanted) + "]}")
        _expect(answer, {200, 207})
        (result,) = answer.json()["results"]
        if result["status"] != 201:
            assert result["status"] in (413, 422)
            raise Refused(answer.text)

    async def cli(self, wanted: Wanted) -> None:
        await self._shell("submit", wanted, "type")

    async def fired(self, wanted: Wanted) -> None:
        engine = self.app.engine
        now = await engine.now()
        at = now - now % SECOND
        await schedules.put(engine, Schedule(name="plain", type="t", every=HOUR, next_due=at))
        try:
            shot = Shot(at, _job(wanted))
            await engine.fire(Firing("plain", "default", at, (shot,), at + HOUR))
        finally:
            await schedules.delete(engine, "plain")

    async def sdk_schedule(self, wanted: Wanted) -> None:
        await self.app.schedules.put("s", self.app.spec(**_spec(wanted)), every=3_600)

    async def engine_schedule(self, wanted: Wanted) -> None:
        job = _job(wanted)
        await schedules.put(
            self.app.engine,
            Schedule(
                name="s",
                tenant=job.tenant,
                every=HOUR,
                type=job.type,
                payload=job.payload,
                queue=job.queue,
                priority=job.priority,
                max_attempts=job.max_attempts,
                timeout=job.timeout,
                tags=job.tags,
            ),
        )

    async def http_schedule(self, wanted: Wanted) -> None:
        body = _document(wanted, name="s", every_seconds=3_600)
        _expect(await self._post("/v1/schedules", body), {201})

    async def http_schedule_change(self, wanted: Wanted) -> None:
        await schedules.put(self.app.engine, Schedule(name="p", type="t", every=HOUR))
        headers = {"content-type": "application/json"}
        body = _document(wanted)
        path = "/v1/schedules/p"
        answer = await self.client.patch(path, content=body.encode(), headers=headers)
        await schedules.delete(self.app.engine, "p")
        _expect(answer, {200})

    async def cli_schedule(self, wanted: Wanted) -> None:
        await self._shell("schedules", wanted, "add", "s", "type", "--every", "1h")

    async def _post(self, path: str, body: str) -> httpx.Response:
        headers = {"content-type": "application/json"}
        return await self.client.post(path, content=body.encode(), headers=headers)

    async def _shell(self, command: str, wanted: Wanted, *words: str) -> None:
        wanted = {"type": "t", **wanted}
        said = [str(wanted["type"]) if word == "type" else word for word in words]
        payload = Path(self.url.removeprefix("sqlite:///")).with_name("payload.json")
        if "payload" in wanted:
            payload.write_text(wanted["payload"], encoding="utf-8", errors="surrogatepass")
            said.append(f"@{payload}")
        flags = [f"--url={self.url}"]
        for name, value in wanted.items():
            if name not in ("type", "payload"):
                flags += _flags(name, value)
        arguments = [command, *flags, "--", *said]
        if command == "schedules":
            arguments = [command, said[0], *flags, *said[3:5], "--", *said[1:3], *said[5:]]
        result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        if result.exit_code:
            assert result.exit_code == 2, result.output
            raise Refused(result.output)


def _flags(name: str, value: Any) -> list[str]:
    match name:
        case "tags":
            return [f"--tag={tag}" for tag in value]
        case "timeout" | "delay":
            return [f"--{name}={value}s"]
        case "run_at":
            return [f"--run-at={value.isoformat()}"]
        case _:
            return [f"--{name.replace('_', '-')}={value}"]


def _spec(wanted: Wanted) -> dict[str, Any]:
    given = {"type": "t", **wanted}
    return {"type_name": given.pop("type"), **given}


def _job(wanted: Wanted) -> NewJob:
    given = dict(wanted)
    fields: dict[str, Any] = {"type": "t"}
    for name, value in given.items():
        match name:
            case "payload":
                fields[name] = value.encode(errors="surrogatepass")
            case "timeout" | "delay":
                fields[name] = value * SECOND
            case "run_at":
                fields[name] = int(value.timestamp()) * SECOND
            case "tags":
                fields[name] = tuple(value)
            case "key":
                fields |= {"idempotency_key": value, "fingerprint": b"f"}
            case "unique":
                fields["unique_key"] = value
            case _:
                fields[name] = value
    return NewJob(id=an_id(), **fields)


def _document(wanted: Wanted, **more: Any) -> str:
    given = {"type": "t", **more, **wanted}
    renamed = {
        "timeout": "timeout_seconds",
        "delay": "delay_seconds",
        "key": "idempotency_key",
        "unique": "unique_key",
    }
    payload = given.pop("payload", None)
    if "run_at" in given:
        given["run_at"] = given["run_at"].isoformat()
    body = json.dumps({renamed.get(name, name): value for name, value in given.items()})
    return body if payload is None else f'{body[:-1]}, "payload": {payload}}}'


def _expect(answer: httpx.Response, good: set[int]) -> None:
    if answer.status_code not in good:
        assert answer.status_code in (400, 413, 422), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        raise Refused(answer.text)


SUBMITS = ("sdk", "sdk_batch", "engine", "transaction", "http", "http_batch", "cli", "fired")
SCHEDULES = (
    "sdk_schedule",
    "engine_schedule",
    "http_schedule",
    "http_schedule_change",
    "cli_schedule",
)


@pytest.fixture
async def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/jobs.db"
    async with Longshore(url) as app:
        await app.engine.migrate()
        transport = httpx.ASGITransport(
            Application(Service(app.engine)), client=("127.0.0.1", 1)
        )
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost"
        ) as client:
            yield House(app, client, url)


async def tried(house: House, ways: tuple[str, ...], wanted: Wanted) -> dict[str, bool]:
    """By way, whether it took the job."""
    found: dict[str, bool] = {}
    for way in ways:
        if len(wanted.get("key", "")) == LONGEST_KEY:
            # Keys are remembered.
            wanted = {"key": way.ljust(LONGEST_KEY, "k")}
        go: Callable[[Wanted], Coroutine[Any, Any, None]] = getattr(house, way)
        try:
            await go(wanted)
        except (Refused, SubmitError, ConfigError):
            found[way] = False
        else:
            found[way] = True
        await emptied(house.app.engine)
    return found


async def emptied(engine: Engine) -> None:
    """Keys and ids of one way do not stand in that of another."""
    jobs = (await engine.find(JobFilter(), limit=100)).jobs
    if jobs:
        await engine.change("cancel", [job.id for job in jobs], reason="tried")
        await engine.change("purge", [job.id for job in jobs])
    for schedule in await schedules.every(engine):
        await schedules.delete(engine, schedule.name)


def shown(case: object) -> str:
    return repr(case)[:40]


@pytest.mark.parametrize(("field", "value"), BAD, ids=shown)
async def test_what_no_job_may_be_is_refused_whichever_way_it_comes(
    house: House, field: str, value: Any
):
    took = await tried(house, SUBMITS + SCHEDULES, {field: value})

    assert took == dict.fromkeys(SUBMITS + SCHEDULES, False)


@pytest.mark.parametrize(("field", "value"), BAD_JOBS, ids=shown)
async def test_what_no_submitted_job_may_be_is_refused_whichever_way_it_comes(
    house: House, field: str, value: Any
):
    took = await tried(house, SUBMITS, {field: value})

    assert took == dict.fromkeys(SUBMITS, False)


async def test_a_schedule_has_two_tags_fewer_whichever_way_it_comes(house: House):
    took = await tried(house, SCHEDULES, {"tags": ["x"] * 31})

    assert took == dict.fromkeys(SCHEDULES, False)


@pytest.mark.parametrize("name", NAMES, ids=shown)
async def test_a_tenant_has_a_name_as_queues_have_whichever_way_its_job_comes(
    house: House, name: str
):
    ways = tuple(way for way in SUBMITS + SCHEDULES if not way.startswith("http"))

    took = await tried(house, ways, {"tenant": name})

    assert took == dict.fromkeys(ways, False)


@pytest.mark.parametrize("trace", ["", "none", f"{TRACE}-x", TRACE.upper()], ids=shown)
async def test_a_trace_is_a_traceparent_whichever_way_a_job_comes(house: House, trace: str):
    ways = tuple(way for way in SUBMITS if way != "cli")

    took = await tried(house, ways, {"trace": trace})

    assert took == dict.fromkeys(ways, False)


@pytest.mark.parametrize(("field", "value"), GOOD, ids=shown)
async def test_what_is_just_within_the_limits_is_taken_whichever_way_it_comes(
    house: House, field: str, value: Any
):
    took = await tried(house, SUBMITS + SCHEDULES, {field: value})

    assert took == dict.fromkeys(SUBMITS + SCHEDULES, True)


@pytest.mark.parametrize(("field", "value"), GOOD_JOBS, ids=shown)
async def test_what_a_submitted_job_may_just_be_is_taken_whichever_way_it_comes(
    house: House, field: str, value: Any
):
    ways = tuple(way for way in SUBMITS if way != "cli" or field != "trace")

    took = await tried(house, ways, {field: value})

    assert took == dict.fromkeys(ways, True)
