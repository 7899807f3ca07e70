"""What a type checker must accept, with the types it must find."""

from datetime import UTC, datetime, timedelta
from typing import assert_type

from longshore import Job, JobHandle, Longshore, Options, Schedule, State, Task
from longshore.task import Spec

app = Longshore()


@app.task
async def double(n: int) -> int:
    return 2 * n


@app.task(queue="mail", max_attempts=3, timeout=timedelta(seconds=5), retry_jitter="full")
def greet(name: str, *, loud: bool = False) -> str:
    return name.upper() if loud else name


@app.schedule(cron="0 6 * * *", timezone="Europe/Berlin")
@app.schedule("often", every=timedelta(minutes=5))
@app.task
async def count(n: int = 1) -> int:
    return n


async def main() -> None:
    assert_type(await count.submit(n=2), JobHandle[int])
    assert_type(await app.schedules.put("x", count.spec(3), every=60), Schedule)
    assert_type(await double(1), int)
    assert_type(greet("ann", loud=True), str)
    assert_type(await double.submit(n=1), JobHandle[int])
    assert_type(await greet.using(key="k", delay=60).submit("ann"), JobHandle[str])
    assert_type(await (await double.submit(1)).result(timeout=1.5), int)
    assert_type(await app.submit_many([double.spec(1), double.spec(2)]), list[JobHandle[int]])
    assert_type(app.sync.submit(greet.spec("ann")), JobHandle[str])
    assert_type(app.sync.result(app.sync.submit(double.spec(1))), int)
    assert_type(await app.job("...").status(), State)
    assert_type(await app.job("...").get(), Job)

    late: Options = {"run_at": datetime(2030, 1, 1, tzinfo=UTC), "tags": ["a"]}
    assert_type(greet.using(**late).spec("ann"), Spec[str])
    await app.submit("other.task", {"n": 1}, priority=1)
    app.schedule("often", double.spec(1), every=timedelta(minutes=5))
    assert_type(greet.using(unique=True)("ann"), str)
    show(await double.submit(1))


def show(handle: JobHandle[object]) -> str:
    return handle.id


def specify(task: Task[[int], int]) -> Spec[int]:
    return task.spec(1)


specify(double)
specify(double.using(priority=1))


@double.on_cancelled
async def undo(n: int) -> None:
    assert n
