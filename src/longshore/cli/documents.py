"""What `--json` prints: plain documents with stable names, ids as text, times as RFC 3339."""

from datetime import UTC, datetime, timedelta

__all__ = ["Document", "instant"]

Document = dict[str, object]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def instant(microseconds: int | None) -> str | None:
    """An engine's time as RFC 3339, in UTC."""
    if microseconds is None:
        return None
    moment = _EPOCH + timedelta(microseconds=min(max(microseconds, 0), _LAST))
    return moment.isoformat().replace("+00:00", "Z")
