"""What the outbox costs: processor time per job with events, and without any.

    python bench/outbox_cost.py [--pairs 5] [--seconds 8] [--profile noop]

Each pair is two runs of `longshore bench` on one PostgreSQL of its own, each in a new database
and in turn the first. In the silent one processes make no events (`bench/silent`), and a
trigger lets no row into the outbox; nothing of the product knows of such a switch. Nobody reads
the outbox in either. Prints each run, then as JSON by how much server and worker together took
more with events: the middle of all pairs, and the least and the most. The middle may be 15 %.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import asyncpg
from msgspec.structs import replace

from longshore.bench.plan import Plan, Profile
from longshore.bench.run import Figures, run
from longshore.engines import open_engine
from longshore_lab.bounds import Bound, conclude
from longshore_lab.servers import PostgresServer

_SILENT = Path(__file__).parent / "silent"
_LET_NOTHING_IN = """
create function longshore.let_nothing_in() returns trigger language plpgsql
    as $$ begin return null; end $$;
create trigger let_nothing_in before insert on longshore.outbox
    for each row execute function longshore.let_nothing_in();
"""
_MIX = {"concurrency": 4_000, "depth": 20_000}


def say(line: str) -> None:
    """One line of the report."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def prepare(url: str, *, is_silent: bool) -> None:
    """A schema, and in the silent database an outbox that stays empty."""
    engine = open_engine(url)
    await engine.migrate()
    await engine.close()
    if is_silent:
        connection = await asyncpg.connect(url)
        await connection.execute(_LET_NOTHING_IN)
        await connection.close()


async def told(url: str) -> int:
    """Rows of the outbox."""
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval("select count(*) from longshore.outbox")
    finally:
        await connection.close()


@contextmanager
def silence() -> Generator[None]:
    """Processes that are started inside the block make no events."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_SILENT), before)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def measure(server: PostgresServer, name: str, options: argparse.Namespace) -> float:
    """Microseconds per job of server and worker."""
    is_silent = name.startswith("silent")
    url = server.create(name)
    asyncio.run(prepare(url, is_silent=is_silent))
    profile = Profile(options.profile)
    more = _MIX if profile is Profile.MIX else {}
    plan = replace(Plan(url=url, profile=profile, seconds=options.seconds), **more)
    if is_silent:
        with silence():
            found = run(plan)
    else:
        found = run(plan)
    rows = asyncio.run(told(url))
    if bool(rows) is is_silent:
        raise RuntimeError(f"{name}: {rows} rows in the outbox")
    server.drop(name)
    say(shown(name, found, rows))
    return found.cpu_us_per_job.worker + found.cpu_us_per_job.server


def shown(name: str, found: Figures, rows: int) -> str:
    """One run."""
    cpu = found.cpu_us_per_job
    return (
        f"{name:10} {found.jobs_per_s:9,.0f} jobs/s; CPU per job: worker {cpu.worker:6.2f} µs, "
        f"server {cpu.server:6.2f} µs; {rows} rows; stolen {found.stolen}"
    )


def main() -> None:
    """All pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--profile", choices=[*Profile], default="noop")
    options = parser.parse_args()
    rises: list[float] = []
    with PostgresServer(durable=True) as server:
        for number in range(options.pairs):
            names = [f"telling{number}", f"silent{number}"]
            took = {
                name: measure(server, name, options)
                for name in (names if number % 2 else names[::-1])
            }
            rises.append(took[names[0]] / took[names[1]] - 1)
    shares = {"median": median(rises), "least": min(rises), "most": max(rises)}
    rise = {f"rise_{name}": round(share, 3) for name, share in shares.items()}
    bound = Bound("rise of CPU per job", round(100 * median(rises), 1), 15, " %")
    facts = {"profile": options.profile, "pairs": options.pairs, "seconds": options.seconds}
    sys.exit(conclude({**facts, **rise}, bound))


if __name__ == "__main__":
    main()
