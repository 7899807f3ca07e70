"""Processes of an experiment: each runs one function, and tells in the end what it returned.

Started as `python -m longshore_lab.experiments.crew ROLE MODULE:FUNCTION ARGUMENTS`; whoever
started it is heard on the standard input, and gone if that ends.
"""

import asyncio
import json
import logging
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from longshore.runtime.process import loop_factory, settle_in
from longshore_lab.experiments.experiment import ExperimentError

__all__ = ["Crew", "say", "told_to_stop"]

_MODULE = "longshore_lab.experiments.crew"
_PATIENCE = 60.0


class Crew:
    """One process. Leaving its block kills it, if it is still there."""

    def __init__(
        self, role: str, part: Callable[..., Awaitable[Any]], **arguments: Any
    ) -> None:
        name = f"{part.__module__}:{part.__name__}"
        self._name = f"{role} {name}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, role, name, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._reader.join(_PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def told(self, within: float = _PATIENCE) -> Any:
        """The next thing it says; ExperimentError when it says nothing for so long."""
        try:
            line = self._lines.get(timeout=within)
        except queue.Empty:
            raise ExperimentError(f"{self._name} said nothing for {within:g} s") from None
        if not line:
            raise ExperimentError(f"{self._name} ended with {self._process.wait()}")
        return json.loads(line)

    def stop(self, within: float = _PATIENCE) -> Any:
        """Have it finish; the last thing it says."""
        assert self._process.stdin is not None
        self._process.stdin.write("stop\n")
        self._process.stdin.flush()
        return self.told(within)

    def terminate(self, within: float) -> float:
        """Send SIGTERM; seconds until it was gone."""
        began = time.perf_counter()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise ExperimentError(f"{self._name} was not gone after {within:g} s") from None
        return time.perf_counter() - began

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        """Collect what it says; an empty line stands for its end."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")


def say(words: Any) -> None:
    """Tell whoever started this process something before the end."""
    sys.stdout.write(f"{json.dumps(words)}\n")
    sys.stdout.flush()


async def told_to_stop() -> None:
    """Return when whoever started this process says so, or is gone."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())


def main() -> None:
    """Run the function to its end."""
    _, name, arguments = sys.argv[1:]
    module, _, function = name.partition(":")
    part = getattr(import_module(module), function)
    # Jobs fail by plan here, and nobody wants to read about each.
    logging.basicConfig(level=logging.CRITICAL)
    settle_in()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        say(runner.run(part(**json.loads(arguments))))


if __name__ == "__main__":
    main()
