"""A worker that kills itself: `python transaction_process.py URL WHEN`.

Its handler writes a row in its job's transaction and ends its own process by SIGKILL, before
the commit or after it, as WHEN says. Any later delivery only writes.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from longshore import Longshore, current_job

URL, WHEN = sys.argv[1], sys.argv[2]
app = Longshore(URL)


@app.task
async def ship(n: int) -> None:
    async with current_job().transaction() as connection:
        await write(connection, n)
        kill_if("before")
    kill_if("after")


async def write(connection: Any, n: int) -> None:
    await connection.execute("insert into public.done values ($1)", n)


def kill_if(when: str) -> None:
    if when == WHEN and current_job().delivery == 1:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(app.work(until_idle=True))
