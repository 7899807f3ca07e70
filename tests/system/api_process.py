"""The HTTP service as a process of its own: `python api_process.py URL DESCRIPTOR`."""

import asyncio
import socket
import sys

from longshore.api.context import Service
from longshore.api.http_server import ApiServer
from longshore.cli.wiring import recovery
from longshore.engines import open_engine


async def main() -> None:
    engine = open_engine(sys.argv[1])
    server = ApiServer(Service(engine), is_local=True)
    listening = socket.socket(fileno=int(sys.argv[2]))
    try:
        await server.run(listening, ticks=recovery(engine, lease=2_000_000))
    finally:
        await engine.close()


asyncio.run(main())
