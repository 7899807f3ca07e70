"""The wire that misbehaves does what it says, and is whole again when it is healed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from longshore.engines import open_engine
from longshore_lab.aftermath import untold
from longshore_lab.chaos import Supervisor
from longshore_lab.fleet import Fleet
from longshore_lab.kill import Runner
from longshore_lab.ledger import Ledger
from longshore_lab.strokes import ON_A_SERVER, PROCESSES, Harm, Stroke, plan
from longshore_lab.trial import Trial
from longshore_lab.verdict import judge
from longshore_lab.wires import Wire

PATIENCE = 30.0
CUT = (ConnectionError, asyncio.IncompleteReadError)


class Echo:
    """A server that says back what it hears, and remembers it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.came = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while some := await reader.read(100):
                self.heard.append(some)
                self.came.set()
                writer.write(some)
        except ConnectionError:
            pass
        finally:
            writer.close()


@pytest.fixture
async def echo() -> Echo:
    return Echo()


@pytest.fixture
async def wire(echo: Echo) -> AsyncIterator[Wire]:
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    async with Wire(server.sockets[0].getsockname()) as wire:
        yield wire
    server.close()


Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Phone:
    """Opens connections through the wire, and closes them in the end."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._writers: list[asyncio.StreamWriter] = []

    async def dial(self) -> Line:
        line = await asyncio.open_connection("127.0.0.1", self._wire.port)
        self._writers.append(line[1])
        return line

    async def connect(self) -> Line:
        line = await self.dial()
        assert await said_back(line, b"hello") == b"hello"
        return line

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@pytest.fixture
async def phone(wire: Wire) -> AsyncIterator[Phone]:
    phone = Phone(wire)
    yield phone
    await phone.close()


async def said_back(line: Line, words: bytes) -> bytes:
    reader, writer = line
    writer.write(words)
    async with asyncio.timeout(PATIENCE):
        return await reader.readexactly(len(words))


async def test_a_reset_ends_every_connection_and_new_ones_work(wire: Wire, phone: Phone):
    line = await phone.connect()

    wire.reset()

    with pytest.raises(CUT):
        await said_back(line, b"anyone?")
    await phone.connect()


async def test_a_wire_that_refuses_resets_new_connections_until_it_is_healed(
    wire: Wire, phone: Phone
):
    wire.refuse()

    with pytest.raises(CUT):
        await said_back(await phone.dial(), b"anyone?")
    wire.heal()
    await phone.connect()


async def test_what_is_swallowed_arrives_when_the_wire_is_healed(
    wire: Wire, echo: Echo, phone: Phone
):
    line = await phone.connect()
    wire.swallow()
    line[1].write(b"late")
    # Another connection through the same loop has been waited for, and stands still as well.
    other = asyncio.create_task(phone.connect())
    for _ in range(20):
        await asyncio.sleep(0)
    assert b"".join(echo.heard) == b"hello"

    wire.heal()

    async with asyncio.timeout(PATIENCE):
        assert await line[0].readexactly(4) == b"late"
        await other


async def test_a_delay_holds_back_both_directions_until_the_wire_is_healed(
    wire: Wire, phone: Phone
):
    line, loop = await phone.connect(), asyncio.get_running_loop()
    wire.delay(0.05)
    began = loop.time()

    assert await said_back(line, b"slow") == b"slow"

    # Once on the way there, and once on the way back.
    assert loop.time() - began >= 0.1
    wire.delay(PATIENCE * 2)
    wire.heal()
    assert await said_back(line, b"quick") == b"quick"


async def test_an_answer_is_lost_after_the_server_has_heard(
    wire: Wire, echo: Echo, phone: Phone
):
    line = await phone.connect()
    wire.lose_answers()

    with pytest.raises(CUT):
        await said_back(line, b"do it")

    assert b"".join(echo.heard) == b"hellodo it"
    await phone.connect()


async def test_half_open_is_silence_for_the_client_and_new_connections_work(
    wire: Wire, echo: Echo, phone: Phone
):
    line = await phone.connect()
    wire.leave_half_open()
    line[1].write(b"anyone?")

    await phone.connect()

    assert not line[0].at_eof()
    assert b"anyone?" not in b"".join(echo.heard)


def test_a_plan_of_chaos_is_the_same_for_its_seed_and_has_every_kind():
    assert plan(7, 180) == plan(7, 180) != plan(8, 180)
    assert {one.harm for one in plan(7, 180)} == set(ON_A_SERVER)


async def test_a_signal_that_finds_no_process_is_not_counted_as_sent(tmp_path: Path):
    trial = Trial(url=f"sqlite:///{tmp_path}/jobs.db", folder=str(tmp_path))
    engine, nobody = open_engine(trial.url), cast(Any, None)
    await engine.migrate()
    book = Ledger(trial.ledgers, "runner", role="runner")

    async with Fleet(trial, book) as fleet, asyncio.TaskGroup() as chores:
        supervisor = Supervisor(Runner(trial, fleet, engine), nobody, None, Console(quiet=True))
        for harm in PROCESSES:
            await supervisor.strike(Stroke(0.0, harm, 0.0, 0.5), chores)
    verdict = await judge(trial, engine)
    await engine.close()

    assert supervisor.done.total() == 0
    assert untold(supervisor.done, verdict.figures).holds


async def test_a_clock_that_cannot_be_set_is_not_counted_as_set():
    stroke = Stroke(0.0, Harm.SKEW, 0.0, 0.5)
    nobody: Any = None
    supervisor = Supervisor(nobody, nobody, None, Console(quiet=True))

    async with asyncio.TaskGroup() as chores:
        await supervisor.strike(stroke, chores)

    assert supervisor.done.total() == 0
