"""A client that openapi-python-client makes of the document works with the real service."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from api_service import PATIENCE, api, listens, operator_key

from longshore.api.encoding import encode
from longshore.api.openapi import document
from longshore.api.routes import ROUTES
from longshore.core.state import Verb
from longshore.engines import open_engine
from longshore.testing.factories import a_job, a_settlement
from longshore.testing.harness import eventually

pytestmark = pytest.mark.slow

PACKAGE = "generated_longshore_client"
UNKNOWN = "019a8a6e-7c00-7000-8000-000000000000"
LEASE = 30_000_000


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What the generator says; the package that it makes can be imported meanwhile."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_bytes(encode(document(ROUTES)))
    # Otherwise it formats the code with tools that it looks for in PATH.
    (folder / "config.yml").write_text("post_hooks: []\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"),
            *("--path", "openapi.json", "--config", "config.yml", "--fail-on-warning"),
            *("--output-path", PACKAGE),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield text


class Generated(NamedTuple):
    """The generated package, and its client of a service."""

    client: Any
    url: str
    """Of the store beneath."""

    def ask(self, operation: str, *path: str, **asked: Any) -> Any:
        """What an operation answers, such as `jobs.submit_job`: status and document."""
        module = import_module(f"{PACKAGE}.api.{operation}")
        return module.sync_detailed(*path, client=self.client, **asked)

    async def told(self, operation: str, *path: str, **asked: Any) -> Any:
        """The document of an answer that is no error."""
        answer = await asyncio.to_thread(self.ask, operation, *path, **asked)
        assert answer.status_code < 400, answer.content
        return answer.parsed


def models() -> Any:
    return import_module(f"{PACKAGE}.models")


@pytest.fixture
async def service(said: str, tmp_path: Path) -> AsyncIterator[Generated]:
    """A real process, and the generated client with an operator's key."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    key = await operator_key(url)
    client = import_module(f"{PACKAGE}.client").AuthenticatedClient
    with api(url, tmp_path) as (port, _):
        await eventually(lambda: listens(port), within=PATIENCE)
        with client(base_url=f"http://127.0.0.1:{port}", token=key) as asking:
            yield Generated(asking, url)
    assert "Traceback" not in (tmp_path / "log").read_text()


async def dead_jobs(url: str, count: int) -> None:
    """Have this many jobs of the queue `mail` fail for good."""
    engine = open_engine(url)
    try:
        await engine.submit([a_job(queue="mail") for _ in range(count)])
        session = await engine.open_session(
            worker="w", queues=["mail"], types=[a_job().type], lease=LEASE
        )
        claims = (await session.exchange(1, want=count)).claims
        settlements = [a_settlement(one, Verb.KILL, reason="poison") for one in claims]
        await session.exchange(2, settlements=settlements)
        await session.close()
    finally:
        await engine.close()


def a_body(**fields: Any) -> Any:
    payload = models().JobBodyPayload.from_dict({"to": "anna", "times": [1, None]})
    return models().JobBody(type_="mail.send", payload=payload, **fields)


def test_the_generator_has_nothing_to_warn_of(said: str):
    assert "arning" not in said


def test_its_modules_are_the_tags(said: str):
    package = Path(str(import_module(PACKAGE).__file__)).parent

    folders = {one.name for one in (package / "api").iterdir() if one.is_dir()}

    tags = {one["name"].replace(" ", "_") for one in document(ROUTES)["tags"]}
    assert folders - {"__pycache__"} == tags


async def test_it_submits_a_job_once_and_gets_it(service: Generated):
    first, again = [
        await asyncio.to_thread(
            service.ask, "jobs.submit_job", body=a_body(tags=["x"]), idempotency_key="k"
        )
        for _ in range(2)
    ]
    job = await service.told("jobs.get_job", first.parsed.id)

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.parsed == first.parsed
    assert (job.state, job.type_, job.tags) == (models().JobState.READY, "mail.send", ["x"])
    assert job.payload == {"to": "anna", "times": [1, None]}
    assert isinstance(job.created_at, datetime)
    assert (job.finished_at, job.result, job.failure) == (None, None, None)


async def test_it_lists_jobs_page_by_page(service: Generated):
    batch = models().BatchBody(jobs=[a_body().to_dict() for _ in range(5)])
    accepted = await service.told("jobs.submit_jobs", body=batch)

    pages = [await service.told("jobs.list_jobs", limit=2)]
    while pages[-1].cursor is not None:
        query = {"limit": 2, "cursor": pages[-1].cursor}
        pages.append(await service.told("jobs.list_jobs", **query))

    assert accepted.accepted == 5
    assert [len(one.jobs) for one in pages] == [2, 2, 1]
    listed = {job.id for one in pages for job in one.jobs}
    assert listed == {one.id for one in accepted.results}


async def test_it_cancels_one_job_and_many(service: Generated):
    made = [await service.told("jobs.submit_job", body=a_body()) for _ in range(3)]

    reason = models().CancelJobBody(reason="sent twice")
    one = await service.told("jobs.cancel_job", made[0].id, body=reason)
    rest = models().CancelJobsBody(filter_=models().LiveFilter(type_="mail.send"))
    many = await service.told("jobs.cancel_jobs", body=rest)

    assert (one.state, one.reason) == (models().JobState.CANCELLED, "sent twice")
    assert (many.cancelled, many.is_complete) == (2, True)


async def test_it_replays_one_dead_job_and_many(service: Generated):
    await dead_jobs(service.url, 4)
    dead = (await service.told("dead_letters.list_dead_jobs", queue="mail")).jobs
    some = models().DeadFilter(queue="mail")

    one = await service.told("dead_letters.replay_dead_job", dead[0].id)
    operation, body = "dead_letters.replay_dead_jobs", models().ReplayJobsBody
    counted = await service.told(operation, body=body(filter_=some, dry_run=True))
    named = await service.told(operation, body=body(ids=[dead[1].id]))
    many = await service.told(operation, body=body(filter_=some))

    assert {job.state for job in dead} == {models().JobState.DEAD}
    assert (one.id, one.state) == (dead[0].id, models().JobState.READY)
    assert (counted.matched, counted.replayed) == (3, 0)
    assert [job.id for job in named.jobs] == [dead[1].id]
    assert (many.replayed, many.is_complete, many.jobs) == (2, True, None)
    assert (await service.told("dead_letters.list_dead_jobs")).jobs == []


async def test_it_gets_the_events_that_there_are_as_a_text(service: Generated):
    job = await service.told("jobs.submit_job", body=a_body())

    text = await service.told("events.follow_events", follow=False, from_start=True)

    assert "event: job.submitted" in text
    assert job.id in text


async def test_it_gets_a_problem_for_what_is_refused(service: Generated):
    odd = models().JobBody(type_="mail send")

    missing = await asyncio.to_thread(service.ask, "jobs.get_job", UNKNOWN)
    invalid = await asyncio.to_thread(service.ask, "jobs.submit_job", body=odd)

    assert (missing.status_code, missing.parsed.code) == (404, "job_not_found")
    assert (invalid.status_code, invalid.parsed.code) == (422, "invalid")
    assert [one.pointer for one in invalid.parsed.errors] == ["/type"]
