"""Submit ten thousand jobs at once, and send the same batch again without harm."""

import asyncio
from collections import Counter

from longshore import Longshore

app = Longshore("sqlite:///batch.db")


@app.task(keep_result=False)
async def resize(photo: int, width: int = 640) -> None:
    """Work on one photo."""


async def main() -> None:
    batch = [resize.spec(photo) for photo in range(10_000)]

    async with app:
        first = await app.submit_many(batch)
        # A spec carries its job's id: after a lost answer, send the whole batch again.
        again = await app.submit_many(batch)
        print(Counter(str(job.verdict) for job in [*first, *again]))

        await app.work(until_idle=True)
        (counts,) = await app.engine.counts()
        print(f"{counts.succeeded} succeeded")
        assert counts.succeeded == len(batch)


asyncio.run(main())
