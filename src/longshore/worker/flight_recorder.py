"""How the worker's parts write into the flight record; without a keeper they write nothing."""

from collections.abc import Callable, Sequence

from longshore.core import settle
from longshore.runtime.flight import CELL_BYTES, FlightRecord, begin
from longshore.worker.attempt import Attempt

__all__ = ["Flight"]


class Flight:
    """One attempt has one cell from its handler's start until the engine has settled it.

    The slots write starts and plain ends themselves; see there. What is here may be called from
    any thread.
    """

    def __init__(self, engine_time: Callable[[float], int]) -> None:
        self._engine_time = engine_time
        self.record: FlightRecord | None = None

    def begin(self, attempt: Attempt, *, in_child: bool = False) -> None:
        """The handler is about to start; `started` and `deadline` are set."""
        record = self.record
        if record is None:
            return
        try:
            attempt.cell = cell = record.free.pop()
        except IndexError:
            attempt.cell = cell = record.spare()
        # The cell may have been in use after this attempt's clock was read.
        record.ends[cell] = 0.0
        claim, at = attempt.claim, cell * CELL_BYTES
        deadline = -attempt.deadline if in_child else attempt.deadline
        begin(record.cells, at, attempt.started, claim.handle, claim.delivery, deadline)

    def end(self, attempt: Attempt) -> None:
        """The handler has ended, and how is decided."""
        record = self.record
        if record is None or attempt.cell < 0:
            return
        settlement = attempt.settlement
        if settlement is None:
            if attempt.result is None:
                record.ends[attempt.cell] = attempt.finished
                return
            settlement = settle.succeeded(
                attempt.claim,
                started_at=self._engine_time(attempt.started),
                finished_at=self._engine_time(attempt.finished),
                result=attempt.result,
            )
        record.end(attempt.cell, attempt.finished, settlement)

    def release(self, cells: Sequence[int]) -> None:
        """The engine has heard of these attempts, or they are none of its business."""
        if self.record is not None:
            self.record.release(cells)
