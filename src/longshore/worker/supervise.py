"""Several worker processes under one: start, forward signals, restart what crashed, reap."""

import logging
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from longshore.worker.health import Condition, Health, Sign

__all__ = ["EXIT_CONFIG", "EXIT_WORN_OUT", "Supervisor"]

log = logging.getLogger("longshore.supervise")

EXIT_WORN_OUT = 75
"""A worker leaves with this when a fresh process should take its place at once."""
EXIT_CONFIG = 2
"""A worker leaves with this when starting it again would not help."""

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_STEADY = 60.0
"""Seconds after which a child counts as healthy, and its next crash as its first."""
_LONGEST_LOOK = 1.0
_LONGEST_START = 60.0
"""Seconds after which a fresh child is taken as ready, whether it shows that or not."""
_RELIEF_LOOK = 0.1
_PATIENT = 2
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(slots=True)
class _Place:
    """Room for one child, over all its restarts."""

    number: int
    ready_file: Path
    """There while its child is ready, if anyone wants to know."""
    farewell: Path
    """There when its child has left of its own will."""
    child: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    restart_at: float = 0.0
    pause: float = _FIRST_PAUSE
    is_over: bool = False


@dataclass(slots=True)
class _Relief:
    """A fresh child that is about to take over."""

    place: _Place
    old: int
    """The pid of the one that goes."""
    until: float


@dataclass(slots=True)
class Supervisor:
    """Keeps `count` processes of one command running until it is told to stop.

    A child that ends well stays ended; one that crashed is started again, later each time.
    The first SIGTERM or SIGINT is passed on, so that the children drain; so is the second, so
    that they leave at once; the third kills them. `signs` show whether all are ready, which
    the command is told to show by `--ready-file`. Where it renews, SIGHUP puts a fresh child
    beside each one, by turns; when the fresh one is ready, the other is asked to go.

    Where the command `says_farewell`, it writes the file it is told by `--farewell` before it
    ends, however it ends. A job that calls `os._exit(0)` does not: that was a crash.
    """

    command: Sequence[str]
    count: int
    signs: Sequence[Sign] = ()
    listening: Sequence[socket.socket] = ()
    """Sockets that every child inherits and listens on once it serves. Connections are refused
    from when the last child has ended until a child serves."""
    renews: bool = False
    what: str = "worker"
    says_farewell: bool = False
    _places: list[_Place] = field(default_factory=list[_Place])
    _received: int = 0
    """Requests to stop, so far."""
    _passed_on: int = 0
    _hangups: int = 0
    _to_renew: list[_Place] = field(default_factory=list[_Place])
    _relief: _Relief | None = None
    _leaving: set[int] = field(default_factory=set[int])
    """Children whose place is taken."""
    _worst: int = 0

    def run(self) -> int:
        """The exit code: 0 when every child ended well, else that of one that did not."""
        with tempfile.TemporaryDirectory(prefix="longshore-") as folder:
            self._places = [
                _Place(number, Path(folder) / str(number), Path(folder) / f"{number}.left")
                for number in range(1, self.count + 1)
            ]
            return self._watch()

    def _watch(self) -> int:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        heeded = (*_SIGNALS, signal.SIGCHLD, *[signal.SIGHUP] * self.renews)
        previous = {one: signal.signal(one, self._note) for one in heeded}
        wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        try:
            while self._leaving or not all(place.is_over for place in self._places):
                self._renew_due()
                self._start_due()
                self._show()
                select.select([reader], [], [], self._patience())
                with suppress(BlockingIOError):
                    os.read(reader, 4096)
                self._pass_on()
                self._reap()
                self._refuse_if_alone()
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in previous.items():
                signal.signal(number, handler)
            os.close(reader)
            os.close(writer)
            self._show()
        return self._worst

    def _note(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._hangups += 1
        elif number != signal.SIGCHLD:
            self._received += 1

    def _pass_on(self) -> None:
        while self._passed_on < self._received:
            self._passed_on += 1
            self._signal(signal.SIGKILL if self._passed_on > _PATIENT else signal.SIGTERM)
            # A child closes its copy when it drains; with ours, connections would wait for
            # somebody to accept them.
            for one in self.listening:
                one.close()

    def _signal(self, number: signal.Signals) -> None:
        log.info("signal passed on", extra={"signal": number.name})
        for place in self._places:
            if place.child is None:
                place.is_over = True
            else:
                # Not through Popen, which would look whether the child is still there, and
                # take from us what it left.
                with suppress(ProcessLookupError):
                    os.kill(place.child.pid, number)

        for pid in self._leaving:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _refuse_if_alone(self) -> None:
        """Refuse connections when no child is left: in the backlog they would wait for one.

        Not while another child still starts: it may begin to listen at any moment.
        """
        is_alone = not self._leaving and all(place.child is None for place in self._places)
        if is_alone and not self._received:
            for one in self.listening:
                _stop_listening(one)

    def _renew_due(self) -> None:
        if self._hangups and not self._received:
            self._hangups = 0
            log.info("renewing", extra={"count": self.count})
            self._to_renew = [place for place in self._places if not place.is_over]
        relief, now = self._relief, time.monotonic()
        if relief is not None and (relief.place.ready_file.exists() or now > relief.until):
            self._relief = None
            with suppress(ProcessLookupError):
                os.kill(relief.old, signal.SIGTERM)
        if self._to_renew and self._relief is None and not self._received:
            place = self._to_renew.pop(0)
            if place.child is not None:
                self._leaving.add(place.child.pid)
                self._relief = _Relief(place, place.child.pid, now + _LONGEST_START)
            # Another file, for the one who goes may still be about to show that it is ready.
            place.ready_file = place.ready_file.with_name(f"{place.ready_file.name}-next")
            place.child, place.restart_at = None, now

    def _reap(self) -> None:
        places = {place.child.pid: place for place in self._places if place.child is not None}
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = found
                self._leaving.discard(pid)
                place = places.get(pid)
                if place is not None and place.child is not None:
                    place.child.returncode = os.waitstatus_to_exitcode(status)
                    self._ended(place, place.child.returncode)

    def _ended(self, place: _Place, code: int) -> None:
        now = time.monotonic()
        place.child = None
        place.ready_file.unlink(missing_ok=True)
        is_crash = self.says_farewell and not place.farewell.exists()
        place.farewell.unlink(missing_ok=True)
        facts = {"place": place.number, "code": code, "crashed": is_crash}
        log.info(f"{self.what} ended", extra=facts)
        if is_crash and not self._received:
            self._restart_later(place, now)
        elif code == 0 or (self._received and code == -signal.SIGTERM):
            # A child that the signal met before it had a handler had begun nothing yet.
            place.is_over = True
        elif self._received or code == EXIT_CONFIG:
            place.is_over = True
            # As a shell would say it: 128 and the number of the signal.
            self._worst = 128 - code if code < 0 else code
            if not self._received:
                self._received += 1
        elif code == EXIT_WORN_OUT:
            place.restart_at = now
        else:
            self._restart_later(place, now)

    def _restart_later(self, place: _Place, now: float) -> None:
        place.pause = _FIRST_PAUSE if now - place.started >= _STEADY else place.pause
        place.restart_at = now + place.pause
        place.pause = min(place.pause * 2, _LONGEST_PAUSE)

    def _start_due(self) -> None:
        now = time.monotonic()
        for place in self._places:
            if place.child is None and not place.is_over and place.restart_at <= now:
                # In a group of its own: Ctrl-C in a terminal must reach a child once, from us.
                is_asked = self.signs or self.renews
                words = ["--ready-file", str(place.ready_file)] if is_asked else []
                words += ["--farewell", str(place.farewell)] if self.says_farewell else []
                place.child = subprocess.Popen(
                    [*self.command, *words],
                    process_group=0,
                    pass_fds=[one.fileno() for one in self.listening],
                )
                place.started = now
                facts = {"place": place.number, "pid": place.child.pid}
                log.info(f"{self.what} started", extra=facts)

    def _show(self) -> None:
        if not self.signs:
            return
        ready = sum(place.ready_file.exists() for place in self._places)
        if self._received or all(place.is_over for place in self._places):
            health = Health(Condition.LEAVING)
        elif ready == self.count:
            health = Health(Condition.READY)
        else:
            health = Health(Condition.STARTING, f"{ready} of {self.count} are ready")
        for sign in self.signs:
            sign.show(health)

    def _patience(self) -> float:
        now = time.monotonic()
        waiting = [
            place.restart_at - now
            for place in self._places
            if place.child is None and not place.is_over
        ]
        longest = _LONGEST_LOOK if self._relief is None else _RELIEF_LOOK
        return max(min([longest, *waiting]), 0.0)


def _stop_listening(listening: socket.socket) -> None:
    """Refuse connections to the socket's address and keep the address.

    The next `listen`, in whatever process, takes connections again. Only Linux can do that;
    elsewhere the socket goes on listening.
    """
    if not listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return  # and a shutdown would cut off every connection that it will ever accept
    address = listening.getsockname()
    try:
        listening.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # not Linux
    # Linux keeps a port that was asked for, and refuses to bind it again; it lets go of one
    # that it chose itself.
    with suppress(OSError):
        listening.bind(address)
