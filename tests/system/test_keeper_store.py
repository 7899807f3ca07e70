"""Real workers and keepers on a PostgreSQL of their own: gone for a while, behind TLS."""

import asyncio
import os
import pwd
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from keeper_yard import Yard, open_yard
from tls_proxy import TlsProxy

from longshore_lab.servers import PostgresServer, postgres_binaries

TLS = Path(__file__).parents[1] / "services" / "tls"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux"),
]


@pytest.mark.prove
@pytest.mark.usefixtures("postgres_server")
async def test_keepers_outlive_an_outage_of_the_store(tmp_path: Path):
    """A worker that lives through it keeps its lease; the death of another is told after."""
    async with PostgresServer() as server:
        server.create("outage")
        async with open_yard(server.url("outage", tcp=True), tmp_path) as yard:
            await outage(yard, server)


async def outage(yard: Yard, server: PostgresServer) -> None:
    alive = await yard.started("hold", "--stuck-after", "2s", lease="30s", concurrency="1")
    dies = await yard.started("hold", concurrency="1")
    kept, *lost = await yard.submit("hold", 2)
    await yard.ran(2)
    by_pid = {run.pid: run.n for run in yard.runs()}
    if by_pid[dies.pid] == 0:
        kept, lost = lost[0], [kept]

    await asyncio.to_thread(server.stop)
    dies.kill()
    await dies.logged("death not reported")
    stuck = await alive.logged("worker is stuck")
    await asyncio.to_thread(server.start)
    await dies.logged("worker died, its jobs are free")
    yard.go()
    (first,), (second,) = await yard.settled([kept]), await yard.settled(lost)

    assert (first.delivery, first.crashes) == (1, 0)
    assert (second.delivery, second.crashes) == (2, 1)
    assert alive.lines("lease lost") == []
    assert stuck["why"] == "the engine does not answer"
    await alive.logged("worker can claim again")


@asynccontextmanager
async def server_with_tls() -> AsyncIterator[str]:
    """A server that speaks TLS itself, where the machine has one that can."""
    binaries = postgres_binaries(15)
    if binaries is None:
        pytest.skip("this machine has no PostgreSQL that was built with TLS")
    owner = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid()
    key = Path(shutil.copy(TLS / "server.pem", Path("/tmp") / f"longshore-{os.getpid()}.pem"))
    os.chown(key, owner, -1)
    key.chmod(0o600)
    try:
        settings = {"ssl": "on", "ssl_cert_file": str(key), "ssl_key_file": str(key)}
        async with PostgresServer(binaries=binaries, settings=settings) as server:
            server.create("tls")
            yield server.url("tls", tcp=True)
    finally:
        key.unlink()


@asynccontextmanager
async def proxy_with_tls(server: PostgresServer) -> AsyncIterator[str]:
    """The wheel's server cannot; before it stands someone who can."""
    parts = urlsplit(server.url("tls", tcp=True))
    server.create("tls")
    with TlsProxy(TLS / "server.pem", ("127.0.0.1", parts.port or 0)) as proxy:
        yield parts._replace(
            netloc=f"postgres:{parts.password}@127.0.0.1:{proxy.port}"
        ).geturl()
    server.drop("tls")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["proxy", pytest.param("server", marks=pytest.mark.prove)])
async def test_a_keeper_gets_into_a_store_with_a_password_and_tls(
    kind: str, tmp_path: Path, postgres_server: PostgresServer
):
    made = proxy_with_tls(postgres_server) if kind == "proxy" else server_with_tls()
    async with made as plain:
        url = plain.replace("127.0.0.1", "localhost")
        url += f"?sslmode=verify-full&sslrootcert={TLS / 'authority.pem'}"
        async with open_yard(url, tmp_path) as yard:
            first = await yard.started("hold")
            (job_id,) = await yard.submit("hold")
            await yard.ran(1)
            seen = [_told_to_all(pid) for pid in (first.pid, await first.keeper())]
            await yard.started("hold")

            first.kill()
            (job,) = await yard.settled([job_id])

            password = urlsplit(url).password or ""
            assert (job.crashes, job.delivery) == (1, 2)
            await first.logged("worker died, its jobs are free")
            # The worker was given it as an argument; its keeper was not.
            assert [password.encode() in told for told in seen] == [True, False]


def _told_to_all(pid: int) -> bytes:
    """What every user of the machine, or the process's own, can read of it."""
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
