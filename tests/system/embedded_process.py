"""`app.work` in a program of its own: `python embedded_process.py URL`, with the poison app."""

import asyncio
import sys

from poison_app import app


async def main() -> None:
    with app.at(sys.argv[1]):
        await app.work(until_idle=True, keeper=True)


asyncio.run(main())
