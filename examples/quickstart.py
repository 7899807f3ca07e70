"""Submit a task for now and for later, run what is ready, read the result."""

import asyncio
from datetime import timedelta

from longshore import Longshore, Retry

app = Longshore("sqlite:///jobs.db")


@app.task(queue="mail", max_attempts=8, timeout=timedelta(seconds=30))
async def send_welcome(name: str, is_ready: bool = True) -> str:
    if not is_ready:
        raise Retry(after=timedelta(minutes=1), reason="the mailer is warming up")
    return f"welcome, {name}"


async def main() -> None:
    async with app:
        job = await send_welcome.submit("ada")
        await send_welcome.using(key="welcome:7", delay=timedelta(hours=1)).submit("grace")
        await app.work(queues=["mail"], until_idle=True)
        print(await job.result())


asyncio.run(main())
