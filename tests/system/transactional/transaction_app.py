"""A task that ends its worker by SIGKILL once its transaction is committed."""

import os
import signal

from longshore import Longshore, current_job

app = Longshore()


@app.task
async def ship(n: int) -> None:
    async with current_job().transaction() as connection:
        await connection.execute("insert into public.done values ($1)", n)
    # Nothing is awaited in between, so no exchange can have told of it.
    os.kill(os.getpid(), signal.SIGKILL)
