"""What a peer's handlers tell the harness, at a cost of less than a microsecond per job.

Every worker process counts in a file of its own, mapped into memory. Standard library only:
this module runs in the environment of each peer.
"""

import mmap
import os
import threading
import time
from pathlib import Path

__all__ = ["Meter", "folder", "url"]


def folder() -> Path:
    """Where the processes of one trial meet."""
    return Path(os.environ["COMPARE_FOLDER"])


def url() -> str:
    """The address of the server, or of the file, under trial."""
    return os.environ["COMPARE_URL"]


class Meter:
    """The handlers' side: jobs counted, waits noted, a job that hangs once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cell: memoryview | None = None

    def open(self) -> memoryview:
        """Count in this process and in those it forks from now on, which must take turns."""
        path = folder() / f"counts.{os.getpid()}"
        with path.open("wb+") as file:
            file.truncate(8)
            self._cell = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")
        return self._cell

    def count(self) -> None:
        """One job has run."""
        with self._lock:
            cell = self._cell or self.open()
            cell[0] += 1

    def ping(self, submitted_ns: str) -> None:
        """A job has begun that carries the instant at which its submit was called."""
        wait = time.monotonic_ns() - int(submitted_ns)
        _append("pings", wait.to_bytes(8, "little"))

    def hangs(self) -> bool:
        """Note that the job has begun; True the first time: then it is not to return."""
        is_first = not (folder() / "hangs").exists()
        _append("hangs", f"{os.getpid()} {time.monotonic_ns()}\n".encode())
        return is_first


def _append(name: str, line: bytes) -> None:
    file = os.open(folder() / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)
