"""How long what is over is kept."""

import msgspec

__all__ = ["Retention"]


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long finished things are kept, in microseconds."""

    succeeded: int = 86_400_000_000
    cancelled: int = 86_400_000_000
    dead: int = 14 * 86_400_000_000
    idempotency: int = 86_400_000_000
    outbox: int = 3_600_000_000
    consumer: int = 7 * 86_400_000_000
    """Nothing is kept for a consumer of the outbox that nobody has read for in so long."""
    audit: int = 90 * 86_400_000_000
    """Entries of the audit log that are older are cut off."""
