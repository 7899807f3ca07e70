"""Why a ready job is not being taken."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from longshore.core.job import Job
from longshore.core.state import State
from longshore.engine import Engine, Pause, SessionView
from longshore.errors import UnknownTaskError

__all__ = ["is_served", "obstacle", "pause_text", "paused_types", "refuse_unknown", "why"]


async def why(engine: Engine, job: Job) -> str | None:
    """What keeps the job waiting; None when nothing does, or it is not its turn yet."""
    if job.state is not State.READY:
        return None
    return obstacle(job, await engine.pauses(), await engine.sessions())


def obstacle(job: Job, pauses: Sequence[Pause], sessions: Sequence[SessionView]) -> str | None:
    """What keeps a ready job from being taken, given what is paused and who works."""
    for pause in pauses:
        if pause.queue in (None, job.queue) and pause.type in (None, job.type):
            return f"{pause_text(pause)} is paused"
    if not is_served(job.type, job.queue, sessions):
        return f"no live worker serves {job.type} on queue {job.queue}"
    return None


def is_served(type_name: str, queue: str, sessions: Sequence[SessionView]) -> bool:
    """Whether one live worker takes both."""
    return any(type_name in one.types and queue in one.queues for one in sessions)


def refuse_unknown(type_name: str, known: Collection[str]) -> None:
    """UnknownTaskError, with a suggestion, for a type that is none of these."""
    if type_name not in known:
        close = get_close_matches(type_name, known, n=1)
        raise UnknownTaskError(type_name, close[0] if close else None)


def paused_types(queue: str, pauses: Sequence[Pause]) -> list[str]:
    """The types that this queue does not hand out, wherever else they are paused."""
    return sorted(
        {pause.type for pause in pauses if pause.type and pause.queue in (None, queue)}
    )


def pause_text(pause: Pause) -> str:
    """What is paused, in words."""
    words = [f"type {pause.type}"] * (pause.type is not None)
    words += [f"queue {pause.queue}"] * (pause.queue is not None)
    return " in ".join(words)
