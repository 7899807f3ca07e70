"""A real PgBouncer in transaction mode in front of a PostgreSQL of the tests."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from longshore_lab import server_guard
from longshore_lab.servers import PostgresServer, ServerError, free_port, give, unprivileged

__all__ = ["PgBouncer"]

_START_SECONDS = 20.0
# A client whose transactions follow each other gets the same session every time, and would find
# what it left there: so each transaction is followed by a reset. Transactions at one time meet
# all sessions in turn. Nothing that a client wants of its session at the start is passed over.
_SETTINGS = """\
[databases]
* = host={socket} port={server} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
server_round_robin = 1
server_reset_query_always = 1
max_client_conn = 500
"""


class PgBouncer:
    """Starts with `with`, and ends with it or with the process that started it."""

    def __init__(self, programs: Path, server: PostgresServer, *, sessions: int = 3) -> None:
        self._programs = programs
        self._server = server
        self._sessions = sessions
        self._port = 0
        self._folder: Path | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        """The superuser's address of a database, through the pooler."""
        return f"postgresql://postgres@127.0.0.1:{self._port}/{database}"

    def __enter__(self) -> "PgBouncer":
        uid = unprivileged()
        self._folder = Path(tempfile.mkdtemp(prefix="longshore-pgbouncer-"))
        give(self._folder, uid)
        self._port = free_port()
        settings = _SETTINGS.format(
            socket=self._server.socket, server=self._server.port, port=self._port,
            sessions=self._sessions,
        )  # fmt: skip
        (self._folder / "settings.ini").write_text(settings)
        self._guard = subprocess.Popen(
            [
                sys.executable, "-I", "-S", server_guard.__file__,
                str(-1 if uid is None else uid), str(self._folder),
                str(self._copied(self._folder)), "settings.ini",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={"PATH": os.defpath, "LD_LIBRARY_PATH": str(self._folder)},
            cwd="/",
            start_new_session=True,
        )  # fmt: skip
        self._await_start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait(_START_SECONDS)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _copied(self, folder: Path) -> Path:
        """Where an unprivileged user can run it, with the libraries that came with it."""
        if not self._programs.is_relative_to("/usr"):
            for library in self._programs.parent.glob("lib/*/lib*.so*"):
                shutil.copy(library, folder)
        return Path(shutil.copy(self._programs / "pgbouncer", folder))

    def _await_start(self) -> None:
        assert self._guard is not None
        assert self._folder is not None
        deadline = time.monotonic() + _START_SECONDS
        while self._guard.poll() is None and time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.01)
        said = (self._folder / "log").read_text()
        self.__exit__(None, None, None)
        raise ServerError(f"PgBouncer did not start\n{said[-2000:]}")
