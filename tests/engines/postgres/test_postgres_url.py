"""PostgreSQL URLs: our options, the driver's, and nothing else."""

import subprocess
import sys

import pytest

from longshore.engines import open_engine
from longshore.engines.postgres.address import Address, parse, without_password
from longshore.errors import ConfigError


def test_a_plain_url_is_the_drivers() -> None:
    assert parse("postgresql://u:p@h:5433/d") == Address(dsn="postgresql://u:p@h:5433/d")
    assert parse("postgres://u@h/d") == Address(dsn="postgresql://u@h/d")


def test_our_options_do_not_reach_the_driver_and_its_own_do() -> None:
    address = parse("postgresql://u@/d?pool=20&host=/run/pg&listen=off&sslmode=require")

    assert address == Address(
        dsn="postgresql://u@/d?host=%2Frun%2Fpg&sslmode=require", pool=20, listens=False
    )


def test_behind_pgbouncer_nobody_listens() -> None:
    address = parse("postgresql://h/d?pgbouncer=on")

    assert (address.is_pooled, address.listens) == (True, False)


@pytest.mark.parametrize(
    "options",
    [
        "pool=0",
        "pool=-1",
        "pool=many",
        "pool=1001",
        "pool=²",
        "pool=",
        "listen=maybe",
        "pgbouncer=yes",
        "pgbouncer=on&listen=on",
        "connect_timeout=3",
        "search_path=mine",
        "nonsense",
    ],
)
def test_an_option_that_means_nothing_is_a_mistake(options: str) -> None:
    with pytest.raises(ConfigError):
        parse(f"postgresql://u:secret@h/d?{options}")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:secret@h:1/d?pool=3", "postgresql://u@h:1/d?pool=3"),
        ("postgresql://u:sec@ret@h/d", "postgresql://u@h/d"),
        ("postgresql://u@/d?host=/run/pg&password=secret", "postgresql://u@/d?host=/run/pg"),
        ("postgresql://u:secret@a:1,b:2/d", "postgresql://u@a:1,b:2/d"),
        ("postgresql:///d", "postgresql:///d"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_an_engine_shows_its_url_without_the_password_and_opens_again_from_it() -> None:
    engine = open_engine("postgresql://u:secret@h/d?pool=3&pgbouncer=on")

    assert engine.url == "postgresql://u@h/d?pool=3&pgbouncer=on"
    assert open_engine(engine.url).url == engine.url


def test_a_missing_driver_is_told_with_what_to_install() -> None:
    script = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from longshore.engines import open_engine\n"
        "from longshore.errors import ConfigError\n"
        "try: open_engine('postgresql://h/d')\n"
        "except ConfigError as error: print(error)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert "pip install 'longshore[postgres]'" in done.stdout
