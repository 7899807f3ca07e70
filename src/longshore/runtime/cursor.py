"""Where the next page of a listing begins, as a text that only fits that listing."""

import base64
from typing import Annotated, NamedTuple, TypeVar

import msgspec

from longshore.errors import ConfigError

__all__ = [
    "RecordPlace",
    "read_cursor",
    "read_record_cursor",
    "write_cursor",
    "write_record_cursor",
]

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_Place = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class RecordPlace(NamedTuple):
    """A record's place in a list of records."""

    created_at: _Place
    name: str
    tenant: str


_decoder = msgspec.json.Decoder(tuple[_Place, msgspec.Raw])
_record_decoder = msgspec.json.Decoder(tuple[RecordPlace, msgspec.Raw])


def write_cursor(place: int, which: msgspec.Struct) -> str:
    """The text for a place in the listing of this filter."""
    return base64.urlsafe_b64encode(_encode((place, which))).decode()


def read_cursor(cursor: str, which: msgspec.Struct) -> int:
    """The place; ConfigError if it was not written for this filter."""
    return _read(_decoder, cursor, which)


def write_record_cursor(place: RecordPlace, which: msgspec.Struct) -> str:
    """The text for a place in a list of records with this filter."""
    return base64.urlsafe_b64encode(_encode((place, which))).decode()


def read_record_cursor(cursor: str, which: msgspec.Struct) -> RecordPlace:
    """The place in a list of records; ConfigError if it was not written for this filter."""
    return _read(_record_decoder, cursor, which)


def _read(
    decoder: msgspec.json.Decoder[tuple[T, msgspec.Raw]], cursor: str, which: msgspec.Struct
) -> T:
    try:
        body = base64.b64decode(cursor, altchars=b"-_", validate=True)
        place, written_for = decoder.decode(body)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        raise ConfigError("not a cursor of this listing") from None
    if bytes(written_for) != _encode(which):
        raise ConfigError("the cursor belongs to a listing with another filter")
    return place
