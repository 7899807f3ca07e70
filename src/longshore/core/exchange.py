"""Which queues an exchange may claim from."""

from collections.abc import Mapping, Sequence

from longshore.errors import QueueNotOpenedError

__all__ = ["queues_to_claim"]


def queues_to_claim(asked: Sequence[str] | None, opened: Mapping[str, None]) -> list[str]:
    """The queues to drain, in order and each once: those asked for, else all that are opened.

    `opened` are the queues that the session was opened for; QueueNotOpenedError if another is
    asked for.
    """
    if not asked:
        return list(opened)
    wanted = list(dict.fromkeys(asked))
    for queue in wanted:
        if queue not in opened:
            raise QueueNotOpenedError(queue)
    return wanted
