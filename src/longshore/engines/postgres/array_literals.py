"""Lists as PostgreSQL writes arrays.

The driver asks of every number in a list whether it is a list itself, which takes longer than
all the rest of the way there. One text that the server casts is a third of that.
"""

from collections.abc import Sequence

import msgspec

__all__ = ["packed", "packed_columns", "turned"]

_json = msgspec.json.Encoder()


_Value = int | str | bytes | None


def packed(values: Sequence[_Value]) -> str:
    """Numbers, texts or bytes as an array's text, which the statement has to cast."""
    if values and any(isinstance(one, bytes) for one in values):
        values = ["\\x" + one.hex() if isinstance(one, bytes) else one for one in values]
    text = _json.encode(values)[1:-1].decode()
    if "\\" in text:
        # An array's text escapes with a backslash too, but not control characters.
        text = ",".join(map(_quoted, values))
    return "{" + text + "}"


def packed_columns(rows: Sequence[tuple[_Value, ...]], width: int) -> list[str]:
    """Rows as packed columns."""
    if not rows:
        return ["{}"] * width
    return [packed(column) for column in zip(*rows, strict=True)]


def _quoted(value: _Value) -> str:
    if not isinstance(value, str):
        return "null" if value is None else str(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def turned(rows: Sequence[tuple[object, ...]], width: int) -> list[list[object]]:
    """Rows as columns."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
