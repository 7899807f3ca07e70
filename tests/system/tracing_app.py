"""Tasks whose runs are told to a collector."""

import asyncio
from pathlib import Path

from longshore import Longshore, current_job

app = Longshore()


@app.task(execution="process")
def apart() -> None:
    """Runs in a process of its own."""


@app.task
async def held() -> None:
    """The first run never ends."""
    if current_job().delivery == 1:
        Path("held.started").touch()
        await asyncio.sleep(3_600)
