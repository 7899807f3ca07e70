"""A service in front of a queue, and a shell whose commands are given its URL."""

import asyncio
import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from cli_steps import Shell
from click.testing import Result

from longshore.api.context import Service
from longshore.api.http_server import ApiServer, listen
from longshore.api.settings import ApiSettings
from longshore.engines import open_engine

__all__ = ["ServiceShell", "at_any_time", "serving", "the_same"]


@contextmanager
def serving(url: str) -> Generator[str]:
    """The URL of a service in front of the store, until the block ends."""
    settings = ApiSettings(port=0)
    listening = listen(settings)
    is_ready = threading.Event()
    servers: list[ApiServer] = []

    async def serve() -> None:
        engine = open_engine(url)
        await engine.migrate()
        server = ApiServer(Service(engine, settings), is_local=True)
        servers.append(server)
        await server.run(listening, on_ready=is_ready.set)
        await engine.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert is_ready.wait(30)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        servers[0].hand_over()
        thread.join(30)
        listening.close()


class ServiceShell(Shell):
    """Runs `longshore --url http://…` as a user would."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, *words: object, input: str | bytes | None = None) -> Result:
        return super().__call__("--url", self._url, *words, input=input)

    def json(self, *words: object) -> tuple[int, Any]:
        """The exit code, and the document that the command prints."""
        result = self(*words, "--json")
        return result.exit_code, json.loads(result.stdout)


def the_same(shell: Shell, service: Shell, *words: object) -> str:
    """What the command prints, for people and as JSON, which has to be the same on both."""
    for form in ((), ("--json",)):
        beside, over = shell(*words, *form), service(*words, *form)
        assert (over.exit_code, at_any_time(over.stdout)) == (
            beside.exit_code,
            at_any_time(beside.stdout),
        )
    return shell(*words).stdout


def at_any_time(text: str) -> str:
    """The words without how long ago something was."""
    return " ".join(
        re.sub(
            r"\bnow\b|[\dsmhd]+ ago|for [\dsmhd]+|in [\dsmhd]+", "at some time", text
        ).split()
    )
