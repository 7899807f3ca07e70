"""Tasks whose code says when they are not to be run."""

import asyncio

import pytest

from longshore import Breaker, ConfigError, Longshore, Settings
from longshore.core.limit_settings import BreakerSettings, Phase
from longshore.records import breaker_settings


async def test_a_task_that_fails_waits_and_runs_once_it_works_again():
    app = Longshore("sqlite://:memory:", settings=Settings())
    is_down, calls = True, 0

    @app.task(
        breaker=Breaker(failures=3, cooldown=0.2), retry_base=0, retry_cap=0, max_attempts=20
    )
    async def send() -> None:
        nonlocal calls
        calls += 1
        if is_down:
            raise ConnectionError("no route to host")

    async with app:
        handles = await app.submit_many([send.spec() for _ in range(5)])
        working = asyncio.create_task(app.work(concurrency=1))
        async with asyncio.timeout(30):
            while [one.phase for one in await breaker_settings.every(app.engine)] != [
                Phase.OPEN
            ]:
                await asyncio.sleep(0.01)
            is_down = False
            for handle in handles:
                await handle.result(timeout=30)
        (stands,) = await breaker_settings.every(app.engine)
        working.cancel()
        await asyncio.wait([working])

    assert stands.phase is Phase.CLOSED
    assert stands.declared == BreakerSettings(failures=3, cooldown=200_000)
    assert calls >= 8


@pytest.mark.parametrize(
    ("breaker", "words"),
    [
        (Breaker(failures=0), "failures is 0"),
        (Breaker(cooldown="30s"), "cooldown says nothing without failures"),
        (Breaker(failures=1, least=3), "least says nothing without a ratio"),
        (Breaker(failures=1, cooldown="soon"), "cooldown: 'soon' is not a duration"),
    ],
)
def test_code_that_says_nonsense_of_a_breaker_is_told_at_once(breaker: Breaker, words: str):
    app = Longshore("sqlite://:memory:", settings=Settings())

    with pytest.raises(ConfigError, match=words):

        @app.task(breaker=breaker)
        async def send() -> None: ...
