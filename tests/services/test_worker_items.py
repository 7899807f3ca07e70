"""Whatever one job holds or says, the jobs beside it end as they should."""

from collections.abc import Callable
from pathlib import Path

import pytest

from longshore import Cancel, Dead, Longshore, Retry, Snooze, current_job

NASTY = ("\0", "\ud800", "\x1b[31m", "\u202e", "x" * 2_000_000, "", "%s{}\n\r")


class NastyError(Exception):
    """Cannot even be told."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def told(words: str) -> Exception:
    if current_job().delivery == 1:
        return Snooze(0, reason=words)
    return Dead(words)


RAISED: dict[str, Callable[[str], BaseException]] = {
    "error": ValueError,
    "class": lambda words: type(words[:100].replace("\0", "0") or "E", (Exception,), {})(),
    "dead": Dead,
    "cancel": Cancel,
    "snooze": told,
    "retry": lambda words: Retry(after=0, reason=words),
    "untold": lambda _: NastyError(),
}
RETURNED: dict[str, Callable[[str], object]] = {
    "text": lambda words: words,
    "key": lambda words: {words: [words]},
    "bytes": lambda words: words.encode("utf-8", "surrogatepass"),
    "nan": lambda _: float("nan"),
    "deep": lambda _: deep(),
}


def deep() -> list[object]:
    found: list[object] = []
    for _ in range(100_000):
        found = [found]
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


async def test_words_that_no_store_keeps_hold_up_no_other_job(store: str):
    app, done = Longshore(store), list[int]()

    @app.task(name="nasty", max_attempts=2, retry_base=0.001)
    async def nasty(way: str, number: int) -> object:
        words = NASTY[number]
        current_job().progress(0.5, words)
        if way in RAISED:
            raise RAISED[way](words)
        return RETURNED[way](words)

    @app.task(name="good")
    async def good(number: int) -> None:
        done.append(number)

    ways = (*RAISED, *RETURNED)
    async with app:
        await app.engine.migrate()
        for way in ways:
            for number in range(len(NASTY)):
                await app.submit("nasty", {"way": way, "number": number})
                await app.submit("good", {"number": number})
        await app.work(until_idle=True, horizon=5, concurrency=8)
        left = await app.engine.counts()

    assert len(done) == len(NASTY) * len(ways)
    assert sum(one.ready + one.scheduled + one.running for one in left) == 0
