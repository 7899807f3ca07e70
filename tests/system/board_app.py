"""Jobs of every kind that the board shows."""

import asyncio
from datetime import timedelta

from longshore import Breaker, Cancel, Dead, Longshore

app = Longshore()
app.queue("narrow", max_depth=1)


@app.task(queue="board")
async def works(number: int) -> None:
    await asyncio.sleep(0.01)


@app.task(queue="board", max_attempts=2, retry_base=0.01)
async def fails() -> None:
    raise ValueError("no")


@app.task(queue="board")
async def dies() -> None:
    raise Dead("no use")


@app.task(queue="board")
async def leaves() -> None:
    raise Cancel("not today")


@app.task(queue="board", breaker=Breaker(failures=3, cooldown=timedelta(seconds=60)))
async def trips() -> None:
    raise ValueError("no")


app.schedule("again", app.spec("noop"), every=timedelta(milliseconds=500))
