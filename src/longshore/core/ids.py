"""Job ids: UUIDv7 as sixteen bytes, and as the text people see."""

from longshore.core.job import JobId

__all__ = ["PATTERN", "TAIL_BYTES", "make", "parse", "tails", "text"]

TAIL_BYTES = 10
PATTERN = (
    r"\A[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}\Z"
)
"""The text of a UUIDv7."""


def tails(random: bytes) -> list[bytes]:
    """The last ten bytes of as many ids as the random bytes suffice for."""
    count = len(random) // TAIL_BYTES
    size = count * TAIL_BYTES
    # One number over the whole block: version and variant are set in all tails at once.
    kept = int.from_bytes(b"\x0f\xff\x3f" + b"\xff" * 7, "big")
    set_bits = int.from_bytes(b"\x70\x00\x80" + bytes(7), "big")
    every = int.from_bytes((bytes(9) + b"\x01") * count, "big")
    block = int.from_bytes(random[:size], "big") & (kept * every) | (set_bits * every)
    shaped = block.to_bytes(size, "big")
    return [shaped[at : at + TAIL_BYTES] for at in range(0, size, TAIL_BYTES)]


def make(unix_ms: int, random: bytes) -> JobId:
    """A UUIDv7 for this millisecond from ten random bytes."""
    return JobId(unix_ms.to_bytes(6, "big") + tails(random)[0])


def text(job_id: JobId) -> str:
    """The canonical form: 36 characters, lower case."""
    digits = job_id.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def parse(value: str) -> JobId:
    """The id that `text` wrote, or ValueError. Only the canonical form is accepted."""
    try:
        raw = JobId(bytes.fromhex(value.replace("-", "")))
    except ValueError:
        raw = JobId(b"")
    if len(raw) != 16 or text(raw) != value.lower() or raw[6] >> 4 != 7 or raw[8] >> 6 != 2:
        raise ValueError(f"not a job id: {value!r:.80}")
    return raw
