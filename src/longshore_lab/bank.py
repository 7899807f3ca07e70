"""A bank in the queue's own database: accounts, and a row for each transfer that was made.

Nothing in it refuses a transfer that is made twice, so that whoever counts can see one. Its
tables are written by handlers only, in the transactions of their jobs.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import asyncpg
import msgspec

from longshore import Longshore, current_job

__all__ = [
    "ATTEMPTS",
    "OPENING",
    "TYPE",
    "Audit",
    "Transfer",
    "app",
    "audit",
    "books",
    "drawn",
    "found",
]

TYPE = "bank.transfer"
OPENING = 1_000
"""What every account has at first."""
ATTEMPTS = 25
"""As many as there can be: a crash of the server fails whatever is in its transaction."""

_AFTER = 0.01
"""Seconds between commit and report, for a kill to fall into."""
_LONGEST = 0.2
_TABLES = """
create schema bank;
create table bank.account (id integer primary key, balance bigint not null);
create table bank.transfer (
    number integer not null, source integer not null, target integer not null,
    amount integer not null, delivery integer not null,
    at timestamptz not null default clock_timestamp()
)
"""

app = Longshore()


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """What a customer asked for."""

    number: int
    source: int
    target: int
    amount: int
    seconds: float = 0.0
    """How long its transaction stays open, as if there were more to do."""


class Audit(NamedTuple):
    """The bank's books beside the list of what customers were promised."""

    made: int
    """Rows of transfers."""
    twice: list[int]
    """Numbers of transfers with more than one row."""
    missing: list[int]
    """Promised, and without a row."""
    strange: list[int]
    """Rows that say something else than what was promised."""
    wrong: list[int]
    """Accounts that do not have what the promised transfers leave there."""
    surplus: int
    """What all accounts together have too much."""
    again: int
    """Transfers that were made by another delivery than the first."""


@app.task(name=TYPE, max_attempts=ATTEMPTS, retry_base=0.1, retry_cap=1.0)
async def transfer(
    number: int, source: int, target: int, amount: int, seconds: float = 0.0
) -> None:
    """Move the money, write the row and end the job, all in one commit."""
    job = current_job()
    async with job.transaction() as connection:
        # In the order of the accounts, or two transfers could wait for each other.
        for account, change in sorted([(source, -amount), (target, amount)]):
            await connection.execute(
                "update bank.account set balance = balance + $2 where id = $1", account, change
            )
        await connection.execute(
            "insert into bank.transfer values ($1, $2, $3, $4, $5)",
            *(number, source, target, amount, job.delivery),
        )
        await asyncio.sleep(seconds)
    await asyncio.sleep(_AFTER)


def drawn(seed: int, count: int, *, accounts: int) -> list[Transfer]:
    """As many transfers, which the seed decides."""
    rng = Random(seed)
    return [
        Transfer(
            number=number,
            source=(pair := rng.sample(range(accounts), 2))[0],
            target=pair[1],
            amount=rng.randint(1, 100),
            seconds=round(rng.uniform(0.0, _LONGEST), 3),
        )
        for number in range(count)
    ]


async def found(url: str, *, accounts: int) -> None:
    """Open the bank, with so many accounts."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_TABLES)
        await connection.execute(
            "insert into bank.account select n, $2 from generate_series(0, $1 - 1) n",
            accounts,
            OPENING,
        )
    finally:
        await connection.close()


async def books(url: str) -> tuple[dict[int, int], list[Mapping[str, Any]]]:
    """Every account's balance, and every row of a transfer."""
    connection = await asyncpg.connect(url)
    try:
        accounts = await connection.fetch("select id, balance from bank.account")
        rows = await connection.fetch("select *, extract(epoch from at) s from bank.transfer")
    finally:
        await connection.close()
    return {one["id"]: one["balance"] for one in accounts}, [dict(row) for row in rows]


def audit(
    promised: Iterable[Transfer],
    balances: Mapping[int, int],
    rows: Sequence[Mapping[str, Any]],
) -> Audit:
    """Compare the books with what was promised."""
    asked = {one.number: one for one in promised}
    due = dict.fromkeys(balances, OPENING)
    for one in asked.values():
        due[one.source] -= one.amount
        due[one.target] += one.amount
    made = Counter(row["number"] for row in rows)
    return Audit(
        made=len(rows),
        twice=sorted(number for number, times in made.items() if times > 1),
        missing=sorted(asked.keys() - made.keys()),
        strange=sorted(
            {row["number"] for row in rows if not _is_as_asked(row, asked.get(row["number"]))}
        ),
        wrong=sorted(one for one, balance in balances.items() if balance != due[one]),
        surplus=sum(balances.values()) - OPENING * len(balances),
        again=sum(row["delivery"] > 1 for row in rows),
    )


def _is_as_asked(row: Mapping[str, Any], asked: Transfer | None) -> bool:
    made = (row["source"], row["target"], row["amount"])
    return asked is not None and made == (asked.source, asked.target, asked.amount)
