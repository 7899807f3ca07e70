"""The keeper as a process: its orders come through standard input, and so does the end.

It is a composition root, the smallest: it opens the engine that its worker uses. Signals that
are meant for the worker are not heeded; it goes when the worker is gone.
"""

import asyncio
import os
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path

from longshore.engines import open_store
from longshore.errors import EngineError
from longshore.keeper.process import Ward
from longshore.keeper.watch import Charge, Watch
from longshore.observe.engine import observed
from longshore.observe.metrics import Metrics
from longshore.runtime import logs
from longshore.runtime.clock import SystemClock
from longshore.runtime.flight import FlightRecord
from longshore.runtime.keeper_config import IGNORED, Orders, decode

_STDIN = 0
_CLOSING = 1.0


def main() -> None:
    """Keep until there is nothing to keep."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    line = sys.stdin.buffer.readline()
    if not line:
        return  # the worker died before it could say anything
    orders = decode(line)
    logs.configure(orders.log_level, as_json=orders.logs_json)
    asyncio.run(_keep(orders))
    # Nothing is left to tidy up, and the worker may be waiting to leave.
    os._exit(0)


async def _keep(orders: Orders) -> None:
    # No clock for the engine: a server has its own, and leases end by that.
    engine, clock = open_store(orders.url), SystemClock()
    if orders.metrics_folder is not None:
        # It may be gone with whoever made it; the worker has to be kept all the same.
        with suppress(OSError):
            engine = observed(engine, Metrics(Path(orders.metrics_folder)))
    record = FlightRecord(orders.memory, orders.capacity)
    charge = Charge(
        worker=orders.worker,
        lease=orders.lease,
        stuck_after=orders.stuck_after,
        exit_when_stuck=orders.exit_when_stuck,
        ready_file=orders.ready_file,
        backoffs=orders.backoffs,
    )
    ward = Ward(orders.process)
    watch = Watch(engine, record, ward, charge, clock=clock, rng=random.Random())
    loop = asyncio.get_running_loop()

    def hear() -> None:
        if not os.read(_STDIN, 4096):
            loop.remove_reader(_STDIN)
            watch.dismiss()

    loop.add_reader(_STDIN, hear)
    try:
        await watch.run()
    finally:
        with suppress(EngineError, TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await engine.close()


if __name__ == "__main__":
    main()
