"""A store that is away for longer than a lease: what its workers do when it is back."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

import pytest
from poison_yard import Yard, job, open_yard
from postgres_yard import a_server

from longshore.core.state import State
from longshore.testing.harness import eventually
from longshore_lab.servers import PostgresServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("postgres_server"),
    pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux"),
]
log = logging.getLogger(__name__)

JOBS = 3


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[PostgresServer, Yard]]:
    with a_server() as server:
        url = await asyncio.to_thread(server.create, "outage")
        async with open_yard(url, tmp_path) as yard:
            yield server, yard


@pytest.mark.parametrize(
    ("lease", "outage", "within"),
    [(8.0, 14.0, 6.0), pytest.param(15.0, 40.0, 6.0, marks=pytest.mark.prove)],
)
async def test_jobs_that_an_outage_stopped_run_again_soon_after_the_store_is_back(
    served: tuple[PostgresServer, Yard], lease: float, outage: float, within: float
):
    """Reclaim alone would let them wait one full lease from then on."""
    server, yard = served
    ids = await yard.submit([job("linger_3", n, timeout=600_000_000) for n in range(JOBS)])
    with yard.worker("--lease", f"{lease:g}s"):
        await eventually(lambda: sum(yard.runs().values()) == JOBS, within=60.0)
        await asyncio.to_thread(server.stop)
        went = monotonic()
        await eventually(lambda: yard.logged("lease lost"), within=lease + 10.0)
        await eventually(lambda: monotonic() >= went + outage, within=outage + 1.0)
        await asyncio.to_thread(server.start)
        came = monotonic()
        await eventually(lambda: sum(yard.runs().values()) == 2 * JOBS, within=60.0)
        waited = monotonic() - came
        (yard.folder / "go").touch()
        ended = await yard.ended(ids)

    log.info("run again %.2f s after the store was back", waited)
    assert waited < within
    assert {(one.state, one.failures, one.crashes) for one in ended} == {
        (State.SUCCEEDED, 0, 0)
    }
