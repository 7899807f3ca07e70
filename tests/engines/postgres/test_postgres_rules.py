"""The functions with which PostgreSQL computes rules, each against the one of `core`.

What claims and submits make of them is compared in `../test_rules_agree.py`.
"""

from itertools import pairwise, product
from typing import Any

import msgspec
import pytest

from longshore.core import circuit_breaker, limit_settings, ordering_key
from longshore.core.circuit_breaker import Standing
from longshore.core.limit_settings import (
    LONGEST_AGING_US,
    NO_LIMIT,
    Order,
    Phase,
    QueueSettings,
)
from longshore.core.priority_rank import EPOCH_US, aging_rank, first_ranks, strict_rank
from longshore.core.token_bucket import Limit, borrow
from longshore.engines.postgres.connection import Connection
from longshore.testing.factories import HOUR, MINUTE, SECOND

NOW = 1_800_000_000_000_000
RATES = [0.001, 0.3, 1.0, 1.001, 2.5, 33.333, 999.999, 1_000_000.0]
BURSTS = [1, 7, 1_000, 1_000_000]

pytestmark = pytest.mark.usefixtures("empty_postgres_url")


def as_json(settings: QueueSettings) -> str:
    """The settings as they are stored."""
    return msgspec.json.encode(settings).decode()


async def test_the_rank_of_an_aging_queue(db: Connection) -> None:
    band = 1 << 51
    arrivals = [0, EPOCH_US - 1, EPOCH_US, EPOCH_US + 1, NOW]
    arrivals += [EPOCH_US + band - 1, EPOCH_US + band, EPOCH_US + 2 * band]
    agings = [0, 1, 60_000_000, LONGEST_AGING_US]
    cases = list(product(range(1, 10), arrivals, agings))

    rows = await db.fetch(
        "select longshore.aged(p, a - $4, g) as rank"
        "  from unnest($1::bigint[], $2::bigint[], $3::bigint[]) with ordinality"
        "       as t (p, a, g, place) order by place",
        *map(list, zip(*cases, strict=True)),
        EPOCH_US,
    )

    expected = [aging_rank(priority, at, aging=aging) for priority, at, aging in cases]
    assert [row["rank"] for row in rows] == expected


async def test_how_much_a_priority_level_is_worth(db: Connection) -> None:
    cases = [
        QueueSettings(order=order, aging=aging)
        for order, aging in product([None, *Order], [None, 0, 1, LONGEST_AGING_US])
    ]

    rows = await db.fetch(
        "select longshore.aging_of(s::jsonb) as aging"
        "  from unnest($1::text[]) with ordinality as t (s, place) order by place",
        [as_json(one) for one in cases],
    )

    assert [row["aging"] for row in rows] == [
        limit_settings.aging_of(one) if one.order is Order.AGING else None for one in cases
    ]


async def test_where_the_ranks_of_what_comes_next_begin(db: Connection) -> None:
    """Claims look no further back in a band of ranks than two seconds."""
    await db.execute("select longshore.note_horizon('q', array['t'], $1, now())", NOW)

    rows = await db.fetch("select low, high from longshore.horizon order by low")

    ranks = sorted(first_ranks())
    bands = pairwise([*ranks, ranks[-1] + ranks[1] - ranks[0]])
    arriving = sorted(
        strict_rank(priority, NOW, punctual=punctual)
        for priority in range(1, 10)
        for punctual in (True, False)
    )
    assert [tuple(row) for row in rows] == [
        (max(first, rank - 2 * SECOND), end)
        for (first, end), rank in zip(bands, arriving, strict=True)
    ]


async def test_where_they_begin_in_a_fair_queue(db: Connection) -> None:
    row = await db.fetchrow(
        "select (extract(epoch from clock_timestamp()) * 1000000)::bigint as before,"
        "       longshore.lane_lows('q', 'anna', array['t'], null) as lows,"
        "       (extract(epoch from clock_timestamp()) * 1000000)::bigint as after"
    )

    assert row is not None
    found = sorted(row["lows"])
    earliest, latest = (
        sorted(
            strict_rank(priority, row[end] - 2 * SECOND, punctual=punctual)
            for priority in range(1, 10)
            for punctual in (True, False)
        )
        for end in ("before", "after")
    )
    assert len(found) == len(earliest)
    for first, low, last in zip(earliest, found, latest, strict=True):
        assert first <= low <= last


async def test_the_limits_that_settings_come_to(db: Connection) -> None:
    limits = list(product([None, 1, 9], [None, *RATES], [None, *BURSTS]))
    cases = [
        QueueSettings(max_running=most, rate=rate, burst=burst, rate_per_key=a, burst_per_key=b)
        for (most, rate, burst), (_, a, b) in zip(limits, reversed(limits), strict=True)
    ]

    rows = await db.fetch(
        "select l.max_running, l.rate, l.burst, k.rate as key_rate, k.burst as key_burst"
        "  from unnest($1::text[]) with ordinality as t (s, place)"
        " cross join lateral longshore.limits_of(s::jsonb) l"
        " cross join lateral longshore.key_limits_of(s::jsonb) k order by place",
        [as_json(one) for one in cases],
    )

    assert [tuple(row) for row in rows] == [
        (
            one.max_running,
            *_whole(limit_settings.limit_of(one.rate, one.burst)),
            *_whole(ordering_key.bucket_limit(one)),
        )
        for one in cases
    ]


def _whole(limit: Limit | None) -> tuple[int | None, int | None]:
    """Rates in SQL are whole numbers: tokens per thousand seconds."""
    return (None, None) if limit is None else (round(limit.rate * 1_000), limit.burst)


async def test_what_a_bucket_has_and_what_is_stored_of_it(db: Connection) -> None:
    earlier = [-SECOND, -1, 0, 1, 999, 1_000_000_007, 10**15 + 1, 10**18]
    wants = [0, 1, 3, 1_000_000]
    cases = [
        (Limit(rate, burst), NOW * 1_000 - ago, want)
        for rate, burst, ago, want in product(RATES, BURSTS, earlier, wants)
    ]

    rows = await db.fetch(
        "select tokens, since + longshore.filling(rate, granted) as stored,"
        "       (since + longshore.filling(rate, granted)"
        "              + longshore.filling(rate, burst) + 999) / 1000 as full_at"
        "  from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])"
        "       with ordinality as t (rate, burst, empty_at, want, place)"
        " cross join lateral longshore.filled_since(empty_at, rate, burst, $5) as since"
        " cross join lateral (select ($5 * 1000 - since) * rate / 1000000000000 as tokens) a"
        " cross join lateral (select least(want, tokens) as granted) b order by place",
        [_whole(limit)[0] for limit, _, _ in cases],
        [limit.burst for limit, _, _ in cases],
        [empty_at for _, empty_at, _ in cases],
        [want for _, _, want in cases],
        NOW,
    )

    for row, (limit, empty_at, want) in zip(rows, cases, strict=True):
        stored, asked = borrow(empty_at, limit, want=want, now=NOW)
        expected = (asked.left + asked.granted, stored, limit.full_at(stored))
        assert tuple(row) == expected, (limit, empty_at, want)


async def test_a_bucket_that_is_full_is_forgotten(db: Connection) -> None:
    limit = Limit(0.3, 7)
    for number, ago in enumerate([0, 20 * SECOND, 24 * SECOND, HOUR]):
        stored = (NOW - ago) * 1_000
        await db.execute(
            "insert into longshore.bucket values ($1, $2, $3)",
            f"b{number}",
            stored,
            limit.full_at(stored),
        )
    full = borrow(None, limit, want=0, now=NOW)[1].left

    await db.execute("select longshore.prune_buckets($1, 99)", NOW)

    rows = await db.fetch("select empty_at from longshore.bucket")
    assert {borrow(row["empty_at"], limit, want=0, now=NOW)[1].left < full for row in rows} == {
        True
    }
    assert len(rows) == 2


async def test_claims_beside_each_other_have_room_together(db: Connection) -> None:
    """Only then they need not wait for each other, and need not count."""
    loose = 0
    for most, rows, jobs, want in product([1, 8, 60, 1_000], [1, 2, 5], [0, 1, 12], [1, 4, 9]):
        await db.execute("delete from longshore.running")
        await db.execute(
            "insert into longshore.running select 'q', n, $2 from generate_series(1, $1) n",
            rows,
            jobs,
        )

        is_loose = await db.fetchval("select longshore.is_loose(1, 'q', $1, $2)", most, want)

        settings = QueueSettings(max_running=most)
        room = limit_settings.room(settings, running=rows * jobs, empty_at=None, now=NOW)
        assert room < NO_LIMIT
        assert not is_loose or rows * want <= room, (most, rows, jobs, want)
        loose += is_loose
    assert loose > 10


async def test_which_types_a_breaker_holds_back(db: Connection) -> None:
    moments = [NOW - MINUTE, NOW - 1, NOW, NOW + 1, NOW + MINUTE]
    standings = {
        f"t{number}": Standing(phase=phase, since=since, until=until)
        for number, (phase, since, until) in enumerate(product(Phase, moments, moments))
    }
    await db.executemany(
        "insert into longshore.breaker (type, settings, phase, since, until, probes)"
        " values ($1, '{}', $2, $3, $4, 1)",
        [(name, it.phase, it.since, it.until) for name, it in standings.items()],
    )
    for name, it in [("unknown", Standing()), *standings.items()]:
        row: Any = await db.fetchrow("select * from longshore.sift($1, $2)", NOW, [name])

        now = circuit_breaker.waking(it, NOW)
        assert (row["types"] == [name]) is (now.phase is Phase.CLOSED), it
        assert (row["probed"] == [name]) is (now.phase is Phase.HALF_OPEN), it
        # Whoever meets it then notes that it is half-open.
        assert (row["due"] == [name]) is (now is not it), it
        look = circuit_breaker.look_in(it, NOW) if now.phase is Phase.OPEN else None
        assert row["look"] == look, it
