"""Errors of the contract on their way through HTTP: written in a header, and read again."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from longshore.errors import LongshoreError

__all__ = ["HEADER", "told", "understood"]

HEADER = "longshore-error"
"""Of an answer that is no success: the LongshoreError that the engine raised."""


class _Told(msgspec.Struct, frozen=True):
    code: str
    message: str
    facts: dict[str, Any] = {}


_decoder = msgspec.json.Decoder(_Told)
_LONGEST = 4_096


def told(error: LongshoreError) -> bytes:
    """The header's value: code, message and attributes of the error."""
    facts = {
        name: value
        for name, value in vars(error).items()
        if isinstance(value, str | int | float | None)
    }
    whole = {"code": error.code, "message": str(error), "facts": facts}
    # ASCII, as a header has to be.
    text = json.dumps(whole).encode("ascii")
    if len(text) <= _LONGEST:
        return text
    return json.dumps({"code": error.code, "message": str(error)[:500]}).encode("ascii")


def understood(value: str) -> LongshoreError | None:
    """The same error; None if the header says nothing of the kind."""
    try:
        said = _decoder.decode(value)
    except (msgspec.DecodeError, UnicodeError):
        return None
    kind = _KINDS.get(said.code)
    if kind is None:
        return None
    error = kind.__new__(kind)
    error.args = (said.message,)
    vars(error).update(said.facts)
    return error


def _kinds(base: type[LongshoreError]) -> Iterator[type[LongshoreError]]:
    yield base
    for kind in base.__subclasses__():
        yield from _kinds(kind)


_KINDS = {kind.code: kind for kind in _kinds(LongshoreError)}
