"""The command line on a queue in a temporary folder, and a queue to prepare behind its back."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from click.testing import CliRunner, Result

from longshore.cli.main import main
from longshore.contract import Engine
from longshore.core import ids
from longshore.core.job import Job
from longshore.core.settle import failure
from longshore.core.state import Verb
from longshore.engines import open_engine
from longshore.testing.factories import SECOND, a_settlement, an_unchecked_job

LEASE = 30 * SECOND
STOPPING = (signal.SIGTERM, signal.SIGINT)


class Shell:
    """Runs `longshore` as a user would. No command may ever end in a traceback."""

    def __call__(self, *words: object, input: str | bytes | None = None) -> Result:
        # A command that stays heeds signals to the end of its process, which this one is not.
        before = {number: signal.getsignal(number) for number in STOPPING}
        try:
            result = CliRunner().invoke(main, [str(word) for word in words], input=input)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        assert "Traceback" not in result.output
        return result

    def lines(self, *words: object) -> list[dict[str, Any]]:
        """The JSON lines that the command prints."""
        result = self(*words, "--json")
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]


class Queue:
    """The same queue through its engine."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.ask(lambda engine: engine.now())

    def ask(self, call: Callable[[Engine], Awaitable[Any]]) -> Any:
        async def inside() -> Any:
            engine = open_engine(self.url)
            try:
                await engine.migrate()
                return await call(engine)
            finally:
                await engine.close()

        return asyncio.run(inside())

    def submit(self, **facts: Any) -> str:
        job = an_unchecked_job(**facts)
        self.ask(lambda engine: engine.submit([job]))
        return ids.text(job.id)

    def get(self, job_id: str) -> Job:
        return self.ask(lambda engine: engine.get(ids.parse(job_id)))

    def settle(self, job_id: str, verb: Verb = Verb.SUCCEED, **facts: Any) -> None:
        """Claim the ready job, alone of its queue, and settle it."""

        async def run(engine: Engine) -> None:
            job = await engine.get(ids.parse(job_id))
            session = await engine.open_session(
                worker="w", queues=[job.queue], types=[job.type], lease=LEASE
            )
            claims = (await session.exchange(1, want=100)).claims
            (claim,) = [one for one in claims if one.id == job.id]
            settlement = a_settlement(claim, verb, **facts)
            await session.exchange(2, settlements=[settlement])
            await session.close()

        self.ask(run)

    def dead(self, **facts: Any) -> str:
        job_id = self.submit(**facts)
        why = failure("ValueError", "no such user", "line 1")
        self.settle(job_id, Verb.KILL, charge=True, failure=why, reason="out of attempts")
        return job_id
