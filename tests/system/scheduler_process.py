"""A scheduler as a process of its own: `python scheduler_process.py URL`, until SIGTERM."""

import asyncio
import signal
import sys

from longshore.engines import open_engine
from longshore.scheduler.service import Scheduler


async def main(url: str) -> None:
    engine = open_engine(url)
    scheduler = Scheduler(engine)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, scheduler.drain)
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    try:
        await scheduler.run()
    finally:
        await engine.close()


asyncio.run(main(sys.argv[1]))
