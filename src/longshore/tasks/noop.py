"""`noop`: a task that does nothing, to try a queue out and to measure it."""

__all__ = ["noop"]


async def noop(seq: int = 0, padding: str = "", fail: str = "") -> None:
    """Succeeds at once, or with `fail` raises these words, at every attempt.

    `seq` tells jobs apart, `padding` gives the payload a size.
    """
    if fail:
        raise RuntimeError(fail)
