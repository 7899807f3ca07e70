"""Which jobs of a segment a span holds: masks, handles, and the way they travel.

A mask is an int: bit k is ordinal k. In the store it is bytes, least significant first, which
is how get_bit() counts; no mask at all means every ordinal between `lo` and `hi`.
"""

from collections.abc import Iterable, Iterator

__all__ = [
    "MOST_JOBS",
    "ORDINAL_BITS",
    "mask_between",
    "mask_bytes",
    "mask_of",
    "ordinal",
    "ordinals",
    "read_mask",
    "stored_mask",
]

ORDINAL_BITS = 12
MOST_JOBS = 500
"""Jobs per segment. Longer ones gain nothing and make claimers meet at the head."""
_ORDINAL = (1 << ORDINAL_BITS) - 1


def ordinal(job_handle: int) -> int:
    """The ordinal of a handle."""
    return job_handle & _ORDINAL


def mask_between(lo: int, hi: int) -> int:
    """Every ordinal from `lo` up to and without `hi`."""
    return (1 << hi) - (1 << lo)


def mask_of(places: Iterable[int]) -> int:
    """These ordinals."""
    mask = 0
    for place in places:
        mask |= 1 << place
    return mask


def ordinals(mask: int) -> Iterator[int]:
    """The ordinals of a mask, in order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def mask_bytes(mask: int, hi: int) -> bytes:
    """The mask as the store keeps it: long enough for every ordinal below `hi`."""
    return mask.to_bytes((hi + 7) // 8, "little")


def stored_mask(mask: int, lo: int, hi: int) -> bytes | None:
    """The mask as the store keeps it for a span from `lo` to `hi`: None when it is whole."""
    return None if mask == mask_between(lo, hi) else mask_bytes(mask, hi)


def read_mask(stored: bytes | None, lo: int, hi: int) -> int:
    """What `stored_mask` was given."""
    return mask_between(lo, hi) if stored is None else int.from_bytes(stored, "little")
