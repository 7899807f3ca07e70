"""Job ids: UUIDv7 as sixteen bytes, and as the text people see."""

from longshore.core.job import JobId

__all__ = ["make", "parse", "text"]


def make(unix_ms: int, random: bytes) -> JobId:
    """A UUIDv7 for this millisecond from ten random bytes."""
    return JobId(
        unix_ms.to_bytes(6, "big")
        + bytes((0x70 | random[0] & 0x0F, random[1], 0x80 | random[2] & 0x3F))
        + random[3:10]
    )


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
