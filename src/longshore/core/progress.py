"""What a handler may say of its progress."""

import math
from typing import SupportsFloat

from longshore.core.text import storable
from longshore.errors import LongshoreError

__all__ = ["MESSAGE_CHARACTERS", "checked"]

MESSAGE_CHARACTERS = 200


def checked(fraction: SupportsFloat, message: object) -> tuple[float, str | None]:
    """Both as any store can keep them, or LongshoreError. A long message is cut."""
    try:
        done = float(fraction)
    except (TypeError, ValueError, OverflowError):
        done = math.nan
    if not 0.0 <= done <= 1.0:
        raise LongshoreError(f"progress is {fraction!r:.40}; it is a number from 0 to 1")
    if message is None:
        return done, None
    if not isinstance(message, str):
        raise LongshoreError(f"a progress message is text, not {type(message).__name__}")
    return done, storable(message[:MESSAGE_CHARACTERS])
