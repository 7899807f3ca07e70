"""The process a keeper looks after, by a descriptor that can mean no other. Linux only."""

import os
import select
import signal
from contextlib import suppress
from pathlib import Path

__all__ = ["Ward"]

_STOPPED = frozenset("Tt")
"""States of a process that someone stopped, by a signal or to trace it."""


class Ward:
    """A process that may end, or be stopped, at any time. A pid alone could be another's."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        """Readable when the process has ended."""
        self._pid = _pid(descriptor)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    @property
    def is_over(self) -> bool:
        """The process has ended, whether or not its parent has noticed."""
        return bool(self._poll.poll(0))

    @property
    def is_stopped(self) -> bool:
        """The process does not run, and will not until someone lets it."""
        try:
            status = Path(f"/proc/{self._pid}/stat").read_text()
        except OSError:
            return False
        # Only now is it known that the file was that of this process.
        return status[status.rindex(")") + 2] in _STOPPED and not self.is_over

    def kill(self) -> None:
        """End the process, if it has not ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)


def _pid(descriptor: int) -> int:
    facts = Path(f"/proc/{os.getpid()}/fdinfo/{descriptor}").read_text()
    lines = (line.partition(":") for line in facts.splitlines())
    return next((int(value) for name, _, value in lines if name == "Pid"), -1)
