"""Declare what happens again and again, beside the task that does it."""

import asyncio
from datetime import UTC, datetime, timedelta

from longshore import Longshore
from longshore.core.schedule import preview

app = Longshore("sqlite://:memory:")
beats = asyncio.Event()


@app.task(queue="reports", priority=7)
async def report(kind: str) -> None:
    print(f"{kind} report")


@app.task
async def beat() -> None:
    beats.set()


# At six in the morning of each working day, also on those when the clocks change.
morning = app.schedule(
    "morning sales",
    report.spec("sales"),
    cron="0 6 * * MON-FRI",
    timezone="Europe/Berlin",
    overlap="skip",
)
app.schedule("pulse", beat.spec(), every=timedelta(milliseconds=200))


async def main() -> None:
    async with app, asyncio.timeout(30):
        for due in preview(morning, await app.engine.now(), 3):
            print("morning sales at", datetime.fromtimestamp(due / 1e6, UTC))

        working = asyncio.create_task(app.work())
        await beats.wait()
        print("a beat")
        working.cancel()
        await asyncio.wait([working])


asyncio.run(main())
