"""What relays shipped, against what the outbox told."""

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from longshore.contract.outbox import Outbox
from longshore.core import ids
from longshore.core.event import Event, expand
from longshore.relay.sink import Refused
from longshore_lab.checkers import Finding

__all__ = ["FileSink", "arrivals", "relayed"]

_EXAMPLES = 5
_PAGE = 1_000


class FileSink:
    """Appends events to a file that all relays share; see `longshore.relay.sink.Sink`."""

    name = "file"

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    async def send(
        self, events: Sequence[Event], *, keep: Callable[[], Awaitable[None]]
    ) -> list[Refused]:
        """Write them all at once: the kernel keeps what a killed process has written."""
        await keep()
        lines = (f"{ids.text(event.job_id)} {event.id}\n" for event in events)
        os.write(self._file, "".join(lines).encode())
        return []

    async def close(self) -> None:
        """Write no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def arrivals(path: Path) -> list[tuple[str, str]]:
    """Job and event of each line."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(job, event) for job, _, event in (line.partition(" ") for line in lines)]


async def relayed(outbox: Outbox, arrived: Iterable[tuple[str, str]]) -> Finding:
    """Every event arrived, and those of a job in their order, each where it came first."""
    told: dict[str, list[str]] = {}
    position = 0
    while batches := await outbox.events(after=position, limit=_PAGE):
        for event in (one for batch in batches for one in expand(batch)):
            told.setdefault(ids.text(event.job_id), []).append(event.id)
        position = batches[-1].position
    found: dict[str, dict[str, None]] = {}
    for job, event in arrived:
        found.setdefault(job, {}).setdefault(event)
    wrong = [
        f"{job}: events {events} arrived as {list(found.get(job, {}))}"
        for job, events in told.items()
        if events != list(found.get(job, {}))
    ]
    wrong += [f"{job} has events that were never told" for job in found.keys() - told]
    return Finding("relayed", len(told), len(wrong), wrong[:_EXAMPLES])
