"""What services write while they run."""

import json
import logging
from collections.abc import Iterator

import pytest
from cli_steps import Queue

from longshore.cli import logs
from longshore.cli.tail import Tail
from longshore.contract import Engine
from longshore.settings import LogFormat, LogLevel, LogSettings
from longshore.testing.factories import a_job


@pytest.fixture(autouse=True)
def _own_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level


def test_a_line_of_text_has_its_fields(capsys: pytest.CaptureFixture[str]):
    logs.configure(LogSettings(format=LogFormat.TEXT))

    logging.getLogger("x").info("job dead", extra={"job": 7, "error": "two words\n", "why": ""})

    line = capsys.readouterr().err
    assert line[8:] == " info job dead job=7 error='two words\\n' why=''\n"


@pytest.mark.parametrize("format", [LogFormat.TEXT, LogFormat.AUTO])
def test_what_looks_like_a_secret_is_not_written(
    capsys: pytest.CaptureFixture[str], format: LogFormat
):
    logs.configure(LogSettings(format=format))
    said = (
        'at "postgresql://me:hunter2@db/x" with ls_abc123_s3cr3tpart_99 and Bearer eyJh.b.c '
        'to "https://me:hunter2@example.com/hook?token=t0k3n&x=1" by whsec_c2lnbmVk+/dpdGg='
    )

    log = logging.getLogger("x")
    log.error("call failed", extra={"error": said}, exc_info=ValueError(said))

    line = capsys.readouterr().err
    for secret in ("hunter2", "s3cr3t", "eyJh", "t0k3n", "c2lnbmVk", "dpdGg"):
        assert secret not in line
    assert "postgresql://me:***@db/x" in line
    assert "https://me:***@example.com/hook?***" in line
    assert line.startswith("{") is (format is LogFormat.AUTO)


def test_a_line_of_json_is_one_object(capsys: pytest.CaptureFixture[str]):
    logs.configure(LogSettings(format=LogFormat.JSON))

    facts = {"beat": "fire", "odd": {1}}
    logging.getLogger("x").error("tick failed", extra=facts, exc_info=ValueError("no"))

    document = json.loads(capsys.readouterr().err)
    assert document["at"].endswith("Z")
    assert "ValueError: no" in document.pop("traceback")
    del document["at"]
    assert document == {
        "level": "error",
        "logger": "x",
        "event": "tick failed",
        "beat": "fire",
        "odd": "{1}",
    }


def test_lines_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]):
    logs.configure(LogSettings(level=LogLevel.WARNING))

    logging.getLogger("x").info("nothing to see")

    assert capsys.readouterr().err == ""


def test_the_tail_begins_now_and_shows_each_event_once(
    queue: Queue, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)

    async def watch(engine: Engine) -> None:
        await engine.submit([a_job(type="before")])
        tail = Tail(engine)
        await tail.skip()
        await engine.submit([a_job(type="after")])
        await tail.tick()
        await tail.tick()

    queue.ask(watch)

    assert [(record.message, record.type) for record in caplog.records] == [
        ("job.submitted", "after")
    ]


def test_a_flood_is_counted_and_not_printed(queue: Queue, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)

    async def flood(engine: Engine) -> None:
        await engine.submit([a_job() for _ in range(1_000)])
        await engine.submit([a_job()])
        await Tail(engine).tick()

    queue.ask(flood)

    assert [(one.message, getattr(one, "count", 1)) for one in caplog.records] == [
        ("job.submitted", 1),
        ("more events", 1_000),
    ]
