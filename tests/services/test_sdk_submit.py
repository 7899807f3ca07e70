"""What reaches the engine when a task is submitted."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from msgspec.structs import replace

from longshore import (
    ConfigError,
    IdempotencyError,
    IdTakenError,
    Longshore,
    PayloadError,
    State,
    SubmitError,
    Task,
)
from longshore.core import ids
from longshore.core.instant import micros
from longshore.core.job import UniqueUntil, Verdict
from longshore.runtime.clock import SECOND, ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def app(clock: ManualClock) -> AsyncIterator[Longshore]:
    app = Longshore("sqlite://:memory:", clock=clock)
    async with app:
        yield app


@pytest.fixture
def greet(app: Longshore) -> Task[[str], str]:
    @app.task(queue="mail", max_attempts=8, timeout=timedelta(seconds=30), tags=["polite"])
    async def greet(name: str) -> str:
        return f"hello {name}"

    return greet


async def jobs_in(app: Longshore) -> int:
    return sum(
        queue.ready + queue.scheduled + queue.running for queue in await app.engine.counts()
    )


async def test_a_submitted_job_has_the_tasks_options_and_the_calls_arguments(
    app: Longshore, greet: Task[[str], str]
):
    handle = await greet.submit("Ann")

    job = await handle.get()
    assert handle.is_new
    assert (job.type, job.queue, job.payload) == ("greet", "mail", {"name": "Ann"})
    assert (job.max_attempts, job.timeout_seconds, job.tags) == (8, 30, ("polite",))
    assert await handle.status() is State.READY


async def test_using_changes_the_options_of_a_copy(app: Longshore, greet: Task[[str], str]):
    urgent = greet.using(queue="now", priority=1, max_attempts=1, timeout=None, tenant="acme")

    job = await (await urgent.using(tags=["a", "b"]).submit("Ann")).get()
    plain = await (await greet.submit("Bob")).get()

    assert (job.queue, job.priority, job.max_attempts) == ("now", 1, 1)
    assert (job.timeout_seconds, job.tenant, job.tags) == (None, "acme", ("a", "b"))
    assert (plain.queue, plain.priority, plain.max_attempts) == ("mail", 5, 8)


async def test_a_job_can_be_due_later(
    app: Longshore, greet: Task[[str], str], clock: ManualClock
):
    late = await (await greet.using(delay=timedelta(hours=1)).submit("Ann")).get()
    later = await (await greet.using(delay=0.5).submit("Ann")).get()
    moment = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    then = await (await greet.using(run_at=moment).submit("Ann")).get()

    assert late.state is State.SCHEDULED
    assert micros(late.run_at) == clock.now() + 3_600 * SECOND
    assert micros(later.run_at) == clock.now() + SECOND // 2
    assert then.run_at == datetime(2030, 1, 1, 10, tzinfo=UTC)


async def test_a_new_delay_takes_the_place_of_a_time_to_run_at(
    app: Longshore, greet: Task[[str], str], clock: ManualClock
):
    moment = datetime(2030, 1, 1, tzinfo=UTC)

    job = await (await greet.using(run_at=moment).using(delay=1).submit("Ann")).get()

    assert micros(job.run_at) == clock.now() + SECOND


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 0},
        {"priority": "high"},
        {"max_attempts": 26},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"delay": -1},
        {"delay": 1, "run_at": datetime(2030, 1, 1, tzinfo=UTC)},
        {"run_at": datetime(2030, 1, 1)},  # noqa: DTZ001
        {"queue": ""},
        {"queue": "a,b"},
        {"queue": "büro"},
        {"key": ""},
        {"key": "k" * 513},
        {"key": "a\0b"},
        {"unique": "\ud800"},
        {"unique": 7},
        {"unique_until": "never"},
        {"tags": "abc"},
        {"tags": [""]},
        {"trace": "abc"},
        {"queue_": "mail"},
    ],
    ids=str,
)
async def test_an_option_that_makes_no_sense_is_refused(
    app: Longshore, greet: Task[[str], str], options: Any
):
    with pytest.raises(SubmitError):
        greet.using(**options)
    with pytest.raises(ConfigError, match="task 'late'"):
        app.task(name="late", **options)(lambda: None)


async def test_wrong_arguments_are_refused_before_anything_is_stored(
    app: Longshore, greet: Task[[str], str]
):
    wrong: Any = greet

    for call in (
        lambda: wrong.submit(7),
        lambda: wrong.submit(),
        lambda: wrong.submit("a", "b"),
    ):
        with pytest.raises(PayloadError):
            await call()

    assert await jobs_in(app) == 0


async def test_the_same_key_and_content_stand_for_one_job(
    app: Longshore, greet: Task[[str], str]
):
    first = await greet.using(key="k").submit("Ann")
    again = await greet.using(key="k").submit(name="Ann")

    assert (again.id, again.is_new, again.verdict) == (first.id, False, Verdict.REPEATED)
    with pytest.raises(IdempotencyError, match=first.id):
        await greet.using(key="k").submit("Bob")
    assert await jobs_in(app) == 1


async def test_an_id_that_another_tenants_job_has_is_refused(
    app: Longshore, greet: Task[[str], str]
):
    theirs = await greet.using(tenant="theirs").submit("Ann")
    spec = greet.using(tenant="mine").spec("Bob")
    spec = replace(spec, job=replace(spec.job, id=ids.parse(theirs.id)))

    with pytest.raises(IdTakenError, match="choose another") as raised:
        await app.submit_spec(spec)

    assert raised.value.job_id == theirs.id
    assert await jobs_in(app) == 1


async def test_a_unique_task_has_one_live_job_per_arguments(app: Longshore):
    @app.task(unique=True, unique_until="started")
    async def sync_user(user_id: int) -> None: ...

    first = await sync_user.submit(1)
    again = await sync_user.submit(user_id=1)
    other = await sync_user.submit(2)
    twin = await sync_user.using(unique=False).submit(1)

    assert (again.id, again.verdict) == (first.id, Verdict.UNIQUE)
    assert other.is_new
    assert twin.is_new
    assert sync_user.spec(1).job.unique_until is UniqueUntil.STARTED


async def test_a_unique_key_of_ones_own_spans_tasks(app: Longshore, greet: Task[[str], str]):
    first = await greet.using(unique="nightly").submit("Ann")

    second = await greet.using(unique="nightly").submit("Bob")

    assert second.id == first.id


async def test_many_jobs_are_stored_in_order(app: Longshore, greet: Task[[str], str]):
    handles = await app.submit_many(greet.spec(f"{n}") for n in range(2_500))

    assert await jobs_in(app) == 2_500
    assert (await handles[-1].get()).payload == {"name": "2499"}


async def test_submitting_the_same_specs_again_stores_nothing_twice(
    app: Longshore, greet: Task[[str], str]
):
    specs = [greet.spec(f"{n}") for n in range(3)]
    first = await app.submit_many(specs)

    again = await app.submit_many(specs)

    assert [handle.id for handle in again] == [spec.id for spec in specs]
    assert {handle.verdict for handle in again} == {Verdict.REPEATED}
    assert len(first) == await jobs_in(app) == 3


async def test_one_conflict_does_not_hide_the_other_answers_of_a_batch(
    app: Longshore, greet: Task[[str], str]
):
    await greet.using(key="k").submit("Ann")

    handles = await app.submit_many([greet.spec("Bob"), greet.using(key="k").spec("Bob")])

    assert [handle.verdict for handle in handles] == [Verdict.ACCEPTED, Verdict.CONFLICT]


async def test_a_task_of_another_program_is_submitted_by_its_name(app: Longshore):
    handle = await app.submit("reports.build", {"month": 3}, queue="reports")
    text = await app.submit("reports.build", '{"month": 4}')

    job = await handle.get()
    assert (job.type, job.queue, job.payload) == ("reports.build", "reports", {"month": 3})
    assert (await text.get()).payload == {"month": 4}
    for payload in (
        '{"a":1,"a":2}',
        '{"a":"\ud800"}',
        b"[]",
        {"at": datetime(2030, 1, 1, tzinfo=UTC)},
    ):
        with pytest.raises(PayloadError):
            await app.submit("reports.build", payload)


async def test_a_payload_for_a_task_that_is_known_here_is_checked_against_it(
    app: Longshore, greet: Task[[str], str]
):
    handle = await app.submit("greet", {"name": "Ann"}, priority=2)

    assert ((await handle.get()).queue, (await handle.get()).priority) == ("mail", 2)
    for payload in ({"name_": "Ann"}, '{"name": 7}', {"name": 7}):
        with pytest.raises(PayloadError):
            await app.submit("greet", payload)


async def test_a_task_can_still_be_called(app: Longshore, greet: Task[[str], str]):
    @app.task
    def add(a: int, b: int = 1) -> int:
        """Sum."""
        return a + b

    assert add(1, b=2) == 3
    assert add.using(priority=1)(1) == 2
    assert (add.name, add.__doc__) == ("add", "Sum.")
    assert await greet("Ann") == "hello Ann"
    assert await jobs_in(app) == 0


def test_two_functions_cannot_share_a_type_name():
    app = Longshore("sqlite://:memory:")

    @app.task(name="a")
    def first() -> None: ...

    with pytest.raises(ConfigError, match=r"first and .*second are both registered as 'a'"):

        @app.task(name="a")
        def second() -> None: ...


def test_a_function_may_be_declared_again():
    """A notebook cell that is run twice, a module that is reloaded."""
    app = Longshore("sqlite://:memory:")

    for timeout in (1, 2):

        @app.task(timeout=timeout)
        def first() -> None: ...

    assert app.tasks["first"].spec().job.timeout == 2 * SECOND


def test_options_can_be_shared_by_several_tasks():
    app = Longshore("sqlite://:memory:")
    report = app.task(queue="reports", max_attempts=2)

    @report
    def daily() -> None: ...

    @report(name="reports.monthly", max_attempts=3)
    def monthly() -> None: ...

    assert daily.spec().job.max_attempts == 2
    assert (monthly.name, monthly.queue) == ("reports.monthly", "reports")
    assert monthly.spec().job.max_attempts == 3


def test_a_task_says_where_it_cannot_run():
    app = Longshore("sqlite://:memory:")

    async def coroutine() -> None: ...
    def function() -> None: ...

    assert app.task(coroutine).execution == "async"
    assert app.task(function).execution == "thread"
    assert app.task(name="a", execution="process")(coroutine).execution == "process"
    assert app.task(name="b", execution="process")(function).execution == "process"
    with pytest.raises(ConfigError, match="use async, thread or process"):
        app.task(execution="elsewhere")(function)
    for options in ({"max_crashes": 0}, {"memory_limit": "much"}, {"memory_limit": 0}):
        with pytest.raises(ConfigError, match="task 'function'"):
            app.task(execution="process", **options)(function)
    with pytest.raises(ConfigError, match="is for execution='process'"):
        app.task(memory_limit="1GiB")(function)
    with pytest.raises(ConfigError, match="event loop"):
        app.task(execution="thread")(coroutine)
    for retries in ({"retry_base": -1}, {"retry_cap": "long"}, {"retry_jitter": "some"}):
        with pytest.raises(ConfigError, match="task 'function'"):
            app.task(**retries)(function)
    with pytest.raises(ConfigError, match="has no name"):
        app.task(lambda: None)
    with pytest.raises(ConfigError, match=r"use task\.using\(delay="):
        app.task(delay=3)(function)


async def test_an_app_that_is_not_open_says_so():
    app = Longshore("sqlite://:memory:")

    with pytest.raises(ConfigError, match="async with app"):
        await app.submit("noop")
    async with app, app:
        await app.submit("noop")
    with pytest.raises(ConfigError, match="async with app"):
        await app.submit("noop")


@pytest.mark.parametrize("type_name", ["greet", "unknown.here"])
async def test_a_payload_that_is_no_mapping_is_refused(
    app: Longshore, greet: Task[[str], str], type_name: str
):
    with pytest.raises(PayloadError, match="mapping"):
        await app.submit(type_name, ["Ann"])  # type: ignore[arg-type]

    assert await jobs_in(app) == 0


@pytest.mark.parametrize("name", [["greet"], {"greet": 1}, 7, None], ids=repr)
async def test_a_name_that_is_no_text_is_refused(app: Longshore, name: Any):
    with pytest.raises(SubmitError, match="is not 1 to 128 of"):
        await app.submit(name, {"name": "Ann"})

    assert await jobs_in(app) == 0


async def test_a_task_in_place_of_a_name_is_refused(app: Longshore, greet: Task[[str], str]):
    with pytest.raises(SubmitError, match="type <task greet> is not 1 to 128 of"):
        await app.submit(greet, {"name": "Ann"})  # type: ignore[arg-type]

    assert await jobs_in(app) == 0
