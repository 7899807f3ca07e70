"""An application that declares nothing but a task, so that a key to work suffices."""

import asyncio
from pathlib import Path

from longshore import Longshore

app = Longshore()


@app.task(queue="held")
async def hold(name: str) -> str:
    Path(f"{name}.started").touch()
    while not Path(f"{name}.go").exists():
        await asyncio.sleep(0.01)
    return name
