"""What every test shares: rewritten asserts, Hypothesis profiles, and servers."""

import asyncio
import os
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from longshore.engines import open_engine
from longshore_lab.emptying import empty
from longshore_lab.kafka import KafkaServer, kafka_jars
from longshore_lab.pooler import PgBouncer
from longshore_lab.servers import PostgresServer, postgres_binaries

pytest.register_assert_rewrite("longshore.testing.contract")

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every
# process that they start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# CI repeats the same examples, so a red build is red for everyone; at home they vary, and a
# counterexample found there is kept in .hypothesis until it is fixed.
settings.register_profile("home", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "prove",
    deadline=None,
    max_examples=5_000,
    stateful_step_count=200,
    suppress_health_check=[HealthCheck.too_slow],
)


def chosen_profile() -> str:
    """HYPOTHESIS_PROFILE if it is set, else ci where CI is set, else home."""
    return os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "home")


settings.load_profile(chosen_profile())


def servers_are_required() -> bool:
    """A missing server is a skip at home and a failure in CI."""
    return bool(os.environ.get("CI") or os.environ.get("LONGSHORE_REQUIRE_SERVERS"))


def required(binaries: Path | None, name: str) -> Path:
    """The folder of a server's programs, or else this test does not run."""
    if binaries is None and servers_are_required():
        pytest.fail(f"{name} is missing; run `make setup`")
    if binaries is None:
        pytest.skip(f"{name} is missing; run `make setup`")
    return binaries


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for the whole run. Whoever wants to stop it starts one of its own."""
    binaries = required(postgres_binaries(), "PostgreSQL")
    with PostgresServer(binaries=binaries) as server:
        yield server


@pytest.fixture(scope="session")
def pgbouncer(postgres_server: PostgresServer) -> Iterator[PgBouncer]:
    """A pooler in transaction mode in front of it, with three sessions for all."""
    script = Path(__file__).parents[1] / "scripts" / "pgbouncer"
    found = subprocess.run([script, "--offline"], capture_output=True, text=True, check=False)
    folder = Path(found.stdout.strip()) if found.returncode == 0 else None
    programs = required(folder, "PgBouncer, which scripts/pgbouncer fetches,")
    with PgBouncer(programs, postgres_server) as pooler:
        yield pooler


@pytest.fixture(scope="session")
def kafka_server() -> Iterator[KafkaServer]:
    """One broker for the whole run, started in about ten seconds."""
    jars = required(kafka_jars(), "Kafka, which needs Java and Maven's repository,")
    with KafkaServer(jars=jars, user=("anna", "let-me-in")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> str:
    """A database of this run, migrated, with whatever the tests before this one left there."""
    return migrated(postgres_server)


@pytest.fixture(scope="session")
def postgres_15_url() -> Iterator[str]:
    """The same on the oldest PostgreSQL that is supported, where the machine has one."""
    binaries = postgres_binaries(15)
    if binaries is None:
        pytest.skip("this machine has no PostgreSQL 15")
    with PostgresServer(binaries=binaries) as server:
        yield migrated(server)


def migrated(server: PostgresServer) -> str:
    """A new database with Longshore's schema."""

    async def migrate_it() -> None:
        engine = open_engine(url)
        await engine.migrate()
        await engine.close()

    url = server.create("longshore")
    asyncio.run(migrate_it())
    return url


@pytest.fixture
async def empty_postgres_url(postgres_url: str) -> str:
    """The same database as it was when it had just been migrated."""
    await empty(postgres_url)
    return postgres_url


@pytest.fixture
async def empty_postgres_15_url(postgres_15_url: str) -> str:
    """The same on PostgreSQL 15."""
    await empty(postgres_15_url)
    return postgres_15_url


@pytest.fixture
async def empty_pooled_url(empty_postgres_url: str, pgbouncer: PgBouncer) -> str:
    """The same behind PgBouncer."""
    return f"{pgbouncer.url(named(empty_postgres_url))}?pgbouncer=on"


@pytest.fixture
async def new_pooled_url(new_postgres_url: str, pgbouncer: PgBouncer) -> str:
    """A database without a schema behind PgBouncer, of which the URL says nothing."""
    return pgbouncer.url(named(new_postgres_url))


def named(url: str) -> str:
    """The database of a URL."""
    return url.partition("?")[0].rpartition("/")[2]


@pytest.fixture
async def new_postgres_url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    """A database without a schema, for one test. Takes 50 ms."""
    name = f"new_{secrets.token_hex(4)}"
    yield postgres_server.create(name)
    postgres_server.drop(name)
