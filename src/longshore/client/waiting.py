"""Waiting for a job's end by asking again and again: how long between two looks."""

from longshore.core.state import TERMINAL, State
from longshore.errors import JobFailedError, WaitTimeoutError
from longshore.operations.job_documents import JobDocument

__all__ = ["Waiting"]

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5


class Waiting:
    """Short pauses at first, for jobs that run at once; then longer, to be no burden."""

    def __init__(self, job_id: str, seconds: float, *, now: float) -> None:
        self._id = job_id
        self._seconds = seconds
        self._deadline = now + seconds
        self._pause = _FIRST_PAUSE

    def is_over(self, job: JobDocument) -> bool:
        """The job has succeeded; JobFailedError if it ended otherwise."""
        if job.state not in TERMINAL:
            return False
        if job.state is not State.SUCCEEDED:
            why = job.reason
            if job.failure is not None:
                why = f"{job.reason}; {job.failure.kind}: {job.failure.message}"
            raise JobFailedError(self._id, job.state, why)
        return True

    def pause(self, job: JobDocument, now: float) -> float:
        """Seconds until the next look, or WaitTimeoutError."""
        left = self._deadline - now
        if left <= 0:
            raise WaitTimeoutError(
                f"job {self._id} is still {job.state} after {self._seconds:g} s"
            )
        pause, self._pause = self._pause, min(self._pause * 1.5, _LONGEST_PAUSE)
        return min(pause, left)
