"""Declare what happens again and again, beside the task that does it."""

import asyncio
from datetime import UTC, datetime, timedelta

from longshore import Longshore, current_job
from longshore.core.schedule import preview

app = Longshore("sqlite://:memory:")
beats = asyncio.Event()


@app.task(queue="reports", priority=7)
async def report(kind: str) -> None:
    print(f"{kind} report")


@app.schedule("pulse", every=timedelta(milliseconds=200))
@app.task
async def beat() -> None:
    print("a beat for", current_job().due)
    beats.set()


# At six in the morning of each working day, also on those when the clocks change.
morning = app.schedule(
    "morning sales",
    report.spec("sales"),
    cron="0 6 * * MON-FRI",
    timezone="Europe/Berlin",
    overlap="skip",
)


async def main() -> None:
    async with app, asyncio.timeout(30):
        for due in preview(morning, await app.engine.now(), 3):
            print("morning sales at", datetime.fromtimestamp(due / 1e6, UTC))

        working = asyncio.create_task(app.work())
        await beats.wait()
        working.cancel()
        await asyncio.wait([working])


asyncio.run(main())
