"""An application whose jobs tell, by files, that they run, and wait to be let go."""

import asyncio
import logging
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from longshore import Longshore

app = Longshore()


@app.task(queue="held")
async def hold(name: str) -> str:
    Path(f"{name}.started").touch()
    while not Path(f"{name}.go").exists():
        await asyncio.sleep(0.01)
    return name


@app.task(queue="held")
async def hold_on(name: str) -> None:
    """Heed no cancellation, on the loop or in a thread of its own."""
    Path(f"{name}.started").touch()
    while not Path(f"{name}.go").exists():
        with suppress(asyncio.CancelledError):
            await asyncio.to_thread(time.sleep, 60)


@app.task(queue="held")
async def chatter(lines: int) -> None:
    for _ in range(lines):
        logging.getLogger("chatter").warning("." * 1_000)


app.schedule("again", app.spec("noop", {"seq": 1}), every=timedelta(milliseconds=200))
