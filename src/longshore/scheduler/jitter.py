"""Delays that keep replicas from marching in step."""

import random

__all__ = ["early", "late"]

_EARLIEST = 0.75


def early(seconds: float, rng: random.Random) -> float:
    """Up to a quarter less: for a poll, where sooner does no harm."""
    return seconds * rng.uniform(_EARLIEST, 1.0)


def late(seconds: float, rng: random.Random, *, by: float) -> float:
    """Up to `by` more: for an appointment, where sooner would be in vain."""
    return max(seconds, 0.0) + rng.uniform(0.0, by)
