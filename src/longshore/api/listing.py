"""Pages of lists that an engine reads whole: `limit` and `cursor`, as `GET /v1/jobs` has them.

A cursor holds the place of the last item in the list's order, not a number of items: what is
added or removed in between neither repeats nor skips the others.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from longshore.api.problems import ProblemError, problem
from longshore.operations.fields import Limit

__all__ = ["Cursor", "Kind", "PageQuery", "Place", "after", "cursor_behind", "page"]

T = TypeVar("T")

Cursor = Annotated[str, Meta(max_length=2_000)]
Place = tuple[str | int, ...]
"""What a list is sorted by; no two items have the same."""
Kind = tuple[str | None, ...]
"""The name of a list, and its filter."""

_encode = msgspec.msgpack.Encoder().encode


class PageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of a list to show, and from where."""

    limit: Limit = 100
    """Items of one page, at most."""
    cursor: Cursor | None = None
    """What the last page ended with."""


def page(
    items: Sequence[T], query: PageQuery, place: Callable[[T], Place], *, of: Kind
) -> tuple[list[T], str | None]:
    """The items behind the query's cursor, in the order of `place`, and the next cursor.

    400 `cursor` for a cursor of another list, or of this one with another filter.
    """
    ordered = sorted(items, key=place)
    start = 0
    if query.cursor is not None:
        try:
            start = bisect_right(ordered, after(query.cursor, of), key=place)
        except TypeError:
            # The place has another form than those of this list: somebody made it up.
            raise ProblemError(problem("cursor")) from None
    shown = ordered[start : start + query.limit]
    if start + query.limit >= len(ordered):
        return shown, None
    return shown, cursor_behind(place(shown[-1]), of=of)


def cursor_behind(place: Place, *, of: Kind) -> str:
    """The cursor of a page that ends at this place of the list."""
    return urlsafe_b64encode(_encode((of, place))).rstrip(b"=").decode("ascii")


def after(cursor: str, of: Kind) -> Place:
    """The place that a cursor of this list holds, or 400 `cursor`."""
    try:
        raw = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        found_of, place = msgspec.msgpack.decode(raw, type=tuple[Kind, Place])
    except (ValueError, msgspec.DecodeError):
        raise ProblemError(problem("cursor")) from None
    if found_of != of:
        raise ProblemError(problem("cursor"))
    return place
