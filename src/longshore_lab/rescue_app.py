"""The task of the rescue trial: it tells when it starts, and waits to be let go."""

import os
import time
from pathlib import Path

from longshore import Longshore

app = Longshore()


@app.task(queue="rescue", timeout=None)
def hold(n: int) -> None:
    """Leave a line `<time> <process> <n>` in the file `runs`; end when `go-<n>` is there."""
    book = os.open("runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(book, f"{time.monotonic()} {os.getpid()} {n}\n".encode())
    os.close(book)
    while not Path(f"go-{n}").exists():
        time.sleep(0.02)
