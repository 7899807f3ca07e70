"""Why a job waits is told in the same words wherever somebody asks."""

import re
from collections.abc import Generator
from pathlib import Path

import pytest
from cli_steps import Queue
from service_steps import ServiceShell, serving

from longshore.contract import Engine
from longshore.core import ids
from longshore.core.limit_settings import BreakerSettings, Layer, QueueSettings
from longshore.records import breaker_settings, pauses, queue_settings
from longshore.testing.factories import HOUR, a_job
from longshore.testing.manual import a_worker

QUEUES = ("paused", "broken", "full", "rated", "keyed", "later", "strange", "stopped")


@pytest.fixture(params=["sqlite", "postgres"])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Queue:
    if request.param == "postgres":
        return Queue(request.getfixturevalue("empty_postgres_url"))
    return Queue(f"sqlite:///{tmp_path}/jobs.db")


@pytest.fixture
def service(queue: Queue) -> Generator[ServiceShell]:
    with serving(queue.url) as url:
        yield ServiceShell(url)


async def let_wait(engine: Engine) -> dict[str, list[str]]:
    """Jobs that wait, each for a reason of its own, and the codes of the reasons."""
    worker = await a_worker(engine, queues=QUEUES, types=["noop", "broken"], lease=HOUR)
    breaker = BreakerSettings(failures=1, cooldown=HOUR)
    await breaker_settings.put(engine, "broken", Layer.OVERRIDDEN, breaker)
    for name, settings in (
        ("full", QueueSettings(max_running=1)),
        ("rated", QueueSettings(rate=0.001, burst=1)),
    ):
        await queue_settings.put(engine, name, Layer.DECLARED, settings)
    await engine.submit(
        [
            a_job(queue="broken", type="broken"),
            a_job(queue="full"),
            a_job(queue="rated"),
            a_job(queue="keyed", ordering_key="k"),
        ]
    )
    for claim in await worker.claim(4):
        if claim.type == "broken":
            await worker.fail(claim)
        else:
            await worker.start(claim)
    waiting = {
        "paused": a_job(queue="paused"),
        "breaker": a_job(queue="broken", type="broken"),
        "max_running": a_job(queue="full"),
        "rate": a_job(queue="rated"),
        "line": a_job(queue="keyed", ordering_key="k"),
        "scheduled": a_job(queue="later", delay=HOUR),
        "no_worker": a_job(queue="strange", type="strange"),
        "paused no_worker": a_job(queue="stopped", type="strange"),
    }
    await engine.submit(list(waiting.values()))
    for name in ("paused", "stopped"):
        await pauses.pause(engine, queue=name)
    return {ids.text(job.id): codes.split() for codes, job in waiting.items()}


def test_what_a_job_waits_for_is_told_in_the_same_words_by_show_and_explain(
    queue: Queue, service: ServiceShell
) -> None:
    waiting: dict[str, list[str]] = queue.ask(let_wait)
    beside = ServiceShell(queue.url)

    for job_id, codes in waiting.items():
        (told,) = beside.lines("explain", job_id)
        assert [one["code"] for one in told["reasons"]] == codes
        texts = [at_any_time(one["text"]) for one in told["reasons"]]
        for shell in (beside, service):
            (explained,) = shell.lines("explain", job_id)
            (shown,) = shell.lines("jobs", "show", job_id)
            words = shell("explain", job_id).stdout
            sheet = shell("jobs", "show", job_id).stdout

            assert [at_any_time(one["text"]) for one in explained["reasons"]] == texts
            assert at_any_time(shown["waits_because"]) == texts[0]
            assert at_any_time(words).splitlines() == texts
            assert waits_of(at_any_time(sheet)) == texts


def waits_of(sheet: str) -> list[str]:
    """What a sheet says under `waits`, line by line."""
    (_, rest) = re.split(r"^waits\b", sheet, flags=re.MULTILINE)
    return [line.strip() for line in re.split(r"^\S", rest, flags=re.MULTILINE)[0].splitlines()]


def at_any_time(text: str) -> str:
    """The words without how long anything takes yet."""
    return re.sub(r"\b(\d+(\.\d+)?(ms|s|m|h|d))+\b", "some time", text)
