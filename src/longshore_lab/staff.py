"""`longshore worker` processes, as users have them, that an experiment can kill."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["Staff", "StaffError"]

_PATIENCE = 60.0
_LAST_WORDS = 2_000
_OURS = "LONGSHORE_LAB_"
"""Variables that plant faults; all others of the name are settings of whoever runs this."""


class StaffError(Exception):
    """A worker ended, though nobody had asked it to."""


class Staff:
    """Workers of one application on one store. Leaving the block ends them all.

    They run in `folder`, where their logs are, and whatever their handlers write.
    """

    def __init__(self, url: str, app: str, folder: Path, *options: str) -> None:
        words = ("worker", "--json", "--app", app, "--url", url, "--metrics-port", "0")
        self._command = [sys.executable, "-m", "longshore", *words, *options]
        self._folder = folder
        self._started = 0
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one in self._processes:
            one.kill()
            one.wait()

    def hire(self, count: int = 1) -> None:
        """Start so many more."""
        for _ in range(count):
            self._started += 1
            with self._log(self._started).open("wb") as log:
                self._processes.append(
                    subprocess.Popen(
                        self._command, cwd=self._folder, env=_environment(), stderr=log
                    )
                )

    def kill(self, choice: float) -> None:
        """End one with SIGKILL, picked by a share of their number, and start another."""
        self.check()
        victim = self._processes.pop(int(choice * len(self._processes)))
        victim.kill()
        victim.wait()
        self.hire()

    def mend(self) -> int:
        """Start another for each that has ended by itself; how many that were."""
        ended = [one for one in self._processes if one.poll() is not None]
        self._processes = [one for one in self._processes if one not in ended]
        self.hire(len(ended))
        return len(ended)

    def check(self) -> None:
        """StaffError if one has ended by itself."""
        for one in self._processes:
            if one.poll() is not None:
                logs = (self._log(n + 1).read_text("utf-8") for n in range(self._started))
                words = "\n".join(text[-_LAST_WORDS:] for text in logs)
                raise StaffError(f"a worker ended with {one.returncode}\n{words}")

    def dismiss(self) -> None:
        """Have all of them leave, and return when they have."""
        for one in self._processes:
            one.send_signal(signal.SIGTERM)
        for one in self._processes:
            one.wait(_PATIENCE)
        self._processes.clear()

    def _log(self, number: int) -> Path:
        return self._folder / f"worker-{number}.log"


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_OURS) or not name.startswith("LONGSHORE_")
    }
