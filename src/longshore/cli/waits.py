"""Why a ready job is not being taken."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from longshore.contract import SessionView
from longshore.errors import UnknownTaskError
from longshore.operations.workers import WorkerView

__all__ = ["is_served", "refuse_unknown"]


def is_served(type_name: str, queue: str, workers: Sequence[WorkerView | SessionView]) -> bool:
    """Whether one live worker takes both."""
    return any(type_name in one.types and queue in one.queues for one in workers)


def refuse_unknown(type_name: str, known: Collection[str]) -> None:
    """UnknownTaskError, with a suggestion, for a type that is none of these."""
    if type_name not in known:
        close = get_close_matches(type_name, known, n=1)
        raise UnknownTaskError(type_name, close[0] if close else None)
