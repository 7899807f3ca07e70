"""Where the next page of a listing begins, as a text that only fits that listing."""

import base64
from typing import Annotated

import msgspec

from longshore.errors import ConfigError

__all__ = ["read_cursor", "write_cursor"]

_encode = msgspec.json.Encoder().encode
_Place = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_decoder = msgspec.json.Decoder(tuple[_Place, msgspec.Raw])


def write_cursor(place: int, which: msgspec.Struct) -> str:
    """The text for a place in the listing of this filter."""
    return base64.urlsafe_b64encode(_encode((place, which))).decode()


def read_cursor(cursor: str, which: msgspec.Struct) -> int:
    """The place; ConfigError if it was not written for this filter."""
    try:
        body = base64.b64decode(cursor, altchars=b"-_", validate=True)
        place, written_for = _decoder.decode(body)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        raise ConfigError("not a cursor of this listing") from None
    if bytes(written_for) != _encode(which):
        raise ConfigError("the cursor belongs to a listing with another filter")
    return place
