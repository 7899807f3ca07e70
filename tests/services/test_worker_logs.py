"""The lines a worker writes: one per attempt, with the same fields, and never too many."""

import logging
from typing import Any

import msgspec
import pytest

from longshore import Longshore
from longshore.settings import Settings
from longshore.worker.settings import WorkerSettings

FIELDS = ("job", "type", "queue", "attempt", "worker", "trace")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: getattr(record, name, None) for name in FIELDS}


async def test_every_attempt_has_a_line_up_to_so_many_and_none_has_the_payload(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.INFO, "longshore")
    settings = Settings(worker=WorkerSettings(log_successes=10, name="w"))
    app = Longshore("sqlite://:memory:", settings=settings)

    @app.task(name="t", max_attempts=2, retry_base=0.001)
    async def run(secret: str, fails: bool = False) -> None:
        if fails:
            raise ValueError("no")

    async with app:
        bad = run.spec(secret="hunter2", fails=True)
        trace = f"00-{TRACE}-00f067aa0ba902b7-01"
        bad = replace_job(bad, trace=trace)
        await app.submit_many([bad, *(run.spec(secret="hunter2") for _ in range(150))])
        await app.work(until_idle=True, horizon=2)

    lines = {record.message: record for record in caplog.records}
    told = [record for record in caplog.records if record.message == "job succeeded"]
    rest = [record for record in caplog.records if record.message == "more jobs succeeded"]
    assert len(told) + sum(getattr(one, "count", 0) for one in rest) == 150
    assert 10 <= len(told) < 150
    assert set(fields(told[0])) == set(FIELDS)
    assert fields(lines["attempt failed"])["trace"] == TRACE
    assert fields(lines["attempt failed"])["attempt"] == 1
    assert getattr(lines["attempt failed"], "retry_at", "").endswith("Z")
    assert fields(lines["job dead"])["attempt"] == 2
    assert all(fields(one)["worker"] == "w" for one in (*told, lines["job dead"]))
    assert "hunter2" not in str([vars(record) for record in caplog.records])


def replace_job(spec: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(spec, job=msgspec.structs.replace(spec.job, **changes))
