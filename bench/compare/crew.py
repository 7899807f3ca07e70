"""The processes of one peer: its workers, and the producer's calls."""

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.compare.catalogue import Peer
from bench.compare.cpu import cpu_seconds, descendants
from bench.compare.environments import ROOT, Environment
from bench.compare.stores import Store

__all__ = ["Crew", "PeerError"]

_STOP_SECONDS = 10.0
_LAST_WORDS = 1_500


class PeerError(RuntimeError):
    """A peer's process failed; the message ends with its last words."""


class Crew:
    """Starts what a peer needs, in process groups of their own, and ends all of it."""

    def __init__(
        self, peer: Peer, environment: Environment, store: Store, folder: Path
    ) -> None:
        self._peer = peer
        self._environment = environment
        self._store = store
        self._folder = folder
        self._workers: list[subprocess.Popen[bytes]] = []

    def call(self, *words: object, seconds: float) -> dict[str, Any]:
        """Run a role of the peer's file to its end and take its line of JSON."""
        command = self._environment.command(*(str(word) for word in words))
        with (self._folder / "producer.log").open("wb") as log:
            process = self._popen(command, subprocess.PIPE, log)
            try:
                said, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                raise PeerError(f"{words[0]} took over {seconds:.0f} s") from None
            finally:
                _end(process)
        if process.returncode:
            raise PeerError(f"{words[0]} failed: {self._last('producer.log')}")
        return json.loads(said.splitlines()[-1]) or {}

    def start(self) -> None:
        """Start the workers."""
        self._workers = [self._launch(words) for words in self._peer.workers]

    def stop(self) -> None:
        """Ask the workers to leave; kill those that do not."""
        for worker in self._workers:
            with suppress(ProcessLookupError):
                worker.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for worker in self._workers:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(max(deadline - time.monotonic(), 0.1))
            _end(worker)
        self._workers = []

    def check(self) -> None:
        """PeerError when a worker has ended."""
        if any(worker.poll() is not None for worker in self._workers):
            raise PeerError(f"a worker ended: {self._last('workers.log')}")

    def kill(self, pid: int) -> None:
        """Send SIGKILL to the process that runs a handler, and to what it started.

        What it started in a session of its own was meant to outlive it, and does.
        """
        if not any(pid in descendants(worker.pid) for worker in self._workers):
            raise PeerError(f"process {pid} is of no worker")
        session = os.getsid(pid)
        for one in descendants(pid):
            with suppress(ProcessLookupError):
                if os.getsid(one) == session:
                    os.kill(one, signal.SIGKILL)

    def revive(self) -> None:
        """Start those workers anew that have ended, as whoever runs them would."""
        for number, worker in enumerate(self._workers):
            if worker.poll() is not None:
                _end(worker)
                self._workers[number] = self._launch(self._peer.workers[number])

    def cpu_seconds(self) -> float:
        """Processor time of the workers so far."""
        return cpu_seconds([worker.pid for worker in self._workers])

    def _launch(self, words: tuple[str, ...]) -> subprocess.Popen[bytes]:
        with (self._folder / "workers.log").open("ab") as log:
            return self._popen(self._environment.program(words), log, log)

    def _popen(self, command: list[str], out: Any, log: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self._environment.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "COMPARE_FOLDER": str(self._folder),
                "COMPARE_URL": self._store.url,
            },
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            start_new_session=True,
        )

    def _last(self, name: str) -> str:
        text = (self._folder / name).read_text(errors="replace").strip()
        return text[-_LAST_WORDS:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
