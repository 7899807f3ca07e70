"""Signs by which others see that a worker is ready: a file, and systemd's notifications.

Both are shown again every second. The file's age therefore tells whether whoever keeps it is
alive, and systemd's watchdog hears nothing of a worker that is stuck.
"""

import logging
import os
import socket
from contextlib import suppress
from pathlib import Path

from longshore.errors import ConfigError
from longshore.worker.health import Condition, Health

__all__ = ["ReadyFile", "ServiceManager"]

log = logging.getLogger("longshore.worker")


class ReadyFile:
    """A file that is there while the worker is ready, and is touched as long as it is."""

    def __init__(self, path: Path) -> None:
        """Whatever is left there is taken away; ConfigError if none could be put there."""
        self._path = path
        self._has_failed = False
        if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
            raise ConfigError(f"worker.ready_file is {path}, where no file can be put")
        path.unlink(missing_ok=True)

    def show(self, health: Health) -> None:
        """Put the file there, or take it away."""
        try:
            if health.is_ready:
                self._path.touch()
            else:
                self._path.unlink(missing_ok=True)
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                facts = {"file": str(self._path), "error": str(error)}
                log.warning("ready file not kept", extra=facts)
            self._has_failed = True


class ServiceManager:
    """Whoever started this process and wants to be told: systemd, with `Type=notify`."""

    def __init__(self, address: str, *, has_watchdog: bool = False) -> None:
        """`address` as systemd gives it in NOTIFY_SOCKET; one with @ has no file."""
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._has_watchdog = has_watchdog
        self._said = ""

    def show(self, health: Health) -> None:
        """Say how the worker is if that is new; and that it is well, as long as it is."""
        lines = ["STATUS=" + ": ".join(filter(None, [health.condition, health.why]))]
        lines += ["READY=1"] * health.is_ready
        lines += ["STOPPING=1"] * (health.condition is Condition.LEAVING)
        message = "\n".join(lines)
        if message != self._said:
            self._said = message
            self._send(message)
        if self._has_watchdog and health.condition is not Condition.STUCK:
            self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        # That nobody is there to hear it is no fault of the worker.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.setblocking(False)
            line.sendto(message.encode(), self._address)
