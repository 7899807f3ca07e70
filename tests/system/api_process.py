"""The HTTP service as a process of its own: `python api_process.py URL DESCRIPTOR`."""

import asyncio
import socket
import sys

import uvicorn

from longshore.api.application import Application
from longshore.api.service import Service
from longshore.engines import open_engine


async def main() -> None:
    engine = open_engine(sys.argv[1])
    config = uvicorn.Config(
        Application(Service(engine)), lifespan="off", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    listening = socket.socket(fileno=int(sys.argv[2]))
    try:
        await server.serve(sockets=[listening])
    finally:
        await engine.close()


asyncio.run(main())
