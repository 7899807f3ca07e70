"""The gates that a request's text passes before anything else looks at it.

What JSON leaves open is closed: no key twice, no NaN, infinity or lone surrogate, no NUL, no
integer of more than 64 bits, bounded depth and number of values, no field that is not known.
Parameters are read by the same rules.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Generic, TypeVar, cast, get_args
from urllib.parse import parse_qsl

import msgspec

from longshore.api.problems import Flaw, ProblemError, invalid, problem
from longshore.core import codec
from longshore.errors import PayloadError

__all__ = ["Decoder", "query", "read_parameters", "refuse_second"]

T = TypeVar("T")

_MOST_PARAMETERS = 32
_FLAW = re.compile(r"(?P<words>.*?)(?: - at `(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_FIELD = re.compile(r"Object (?:contains unknown|missing required) field `(.*)`", re.DOTALL)
_DATE = re.compile(r"\d{4}-")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_UNFIT = re.compile(r"(?P<path>payload(?:\.\w+|\[\d+\])*)?.*?(?P<words>(?:has|is) [^'\"]+)")
# A text that is not closed is one too: whatever was sent, it is read through once.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_EMPTY = re.compile(rb"[\[{][ \t\r\n]*[\]}]")
_FIRST_KEY = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"[^"]*"[ \t\r\n]*:[ \t\r\n]*')


class Decoder(Generic[T]):
    """Reads documents of one type, or raises the problem with them.

    Of an outline, whose parts will be read one by one, only the number of values is looked at.
    """

    def __init__(self, kind: type[T], *, is_outline: bool = False) -> None:
        self._decode = msgspec.json.Decoder(kind).decode
        self._is_outline = is_outline
        self._free = [
            field.name
            for field in msgspec.structs.fields(cast("type[msgspec.Struct]", kind))
            if field.name == "payload"
        ]

    def read(self, raw: bytes, *, most_nodes: int) -> T:
        """The document, if it passes every gate."""
        # What they would take is not made first.
        _refuse_many(raw, most_nodes)
        try:
            value = self._decode(raw)
            for name in self._free:
                codec.verify(getattr(value, name) or {}, name)
            if not self._is_outline:
                _refuse_repeats(raw)
        except UnicodeDecodeError:
            raise ProblemError(problem("malformed", "The body is not UTF-8.")) from None
        except RecursionError:
            raise invalid("", f"is deeper than {codec.MAX_DEPTH} levels") from None
        except msgspec.ValidationError as error:
            raise ProblemError(problem("invalid", errors=[_flaw(str(error))])) from None
        except msgspec.DecodeError:
            raise ProblemError(problem("malformed")) from None
        except PayloadError as error:
            raise ProblemError(problem("invalid", errors=[_unfit(str(error))])) from None
        return value


def refuse_second(raw: bytes, value: msgspec.Raw) -> None:
    """Return if the object has no other key than the one whose value this is, its last."""
    # Nothing but the object's end follows it, so this is where it stands.
    if not _FIRST_KEY.fullmatch(raw, 0, raw.rindex(value)):
        raise invalid("", "an object has the same key twice")


def query(text: bytes, kind: type[T]) -> T:
    """The parameters behind the question mark, or the problem with them."""
    try:
        pairs = parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:
        raise invalid("", "the query cannot be read") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise invalid("", "a parameter stands there twice")
    return read_parameters(found, kind)


def read_parameters(found: Mapping[str, str], kind: type[T]) -> T:
    """The parameters as the route declares them; numbers and times from their text."""
    for name, value in found.items():
        if not value.isprintable():
            raise invalid(name if _PLAIN.fullmatch(name) else "", "is not printable")
        # A text that msgspec would take for the absence of one: a filter would mean anything.
        if value.lower() == "null" and name in _optional(kind):
            raise invalid(name, "cannot be null")
        # It would take a number for a time too, in seconds since 1970.
        if name in _times(kind) and not _DATE.match(value):
            raise invalid(name, "is not a time such as 2030-01-31T12:00:00Z")
    try:
        return msgspec.convert(dict(found), kind, strict=False)
    except msgspec.ValidationError as error:
        flaw = _flaw(str(error))
        named = Flaw(flaw.pointer.removeprefix("/"), flaw.detail)
        raise ProblemError(problem("invalid", errors=[named])) from None


@cache
def _times(kind: type[Any]) -> frozenset[str]:
    """The parameters that are times."""
    fields = msgspec.structs.fields(cast("type[msgspec.Struct]", kind))
    return frozenset(one.name for one in fields if "datetime" in str(one.type))


@cache
def _optional(kind: type[Any]) -> frozenset[str]:
    """The parameters that may be None. In the others the text `null` is a name."""
    fields = msgspec.structs.fields(cast("type[msgspec.Struct]", kind))
    return frozenset(one.name for one in fields if type(None) in get_args(one.type))


def _flaw(message: str) -> Flaw:
    """What msgspec complains of, without what was sent."""
    found = _FLAW.fullmatch(message)
    words, path = (found["words"], found["path"] or "$") if found else (message, "$")
    steps = [name or number for name, number in _STEP.findall(path)]
    pointer = "".join(f"/{step}" for step in steps)
    field = _FIELD.fullmatch(words)
    if field is None:
        shown = words.replace(r"\\A", "^").replace(r"\\Z", "$").replace("\\\\", "\\")
        return Flaw(pointer, shown[:1].lower() + shown[1:])
    if _PLAIN.fullmatch(field[1]):
        pointer = f"{pointer}/{field[1]}"
    return Flaw(pointer, "is not known here" if "unknown" in words else "is missing")


def _unfit(message: str) -> Flaw:
    """What `core.codec` complains of, in a free part of the document."""
    found = _UNFIT.fullmatch(message)
    if found is None:
        return Flaw("", "cannot be stored")
    steps = [name or number for name, number in _STEP.findall(f".{found['path'] or ''}")]
    return Flaw("".join(f"/{step}" for step in steps), found["words"])


def _refuse_many(raw: bytes, most: int) -> None:
    # Every value but the first follows a comma or opens an object or a list; those inside of
    # strings count too, which is why only a text over the limit is looked at closely.
    if _begun(raw) < most:
        return
    bare = _TEXT.sub(b"0", raw)
    if 1 + _begun(bare) - len(_EMPTY.findall(bare)) > most:
        raise invalid("", f"has more than {most} values")


def _begun(raw: bytes) -> int:
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def _refuse_repeats(raw: bytes) -> None:
    # It was read as JSON before, so there is nothing else to look for in it.
    _repeats.raw_decode(raw.decode().lstrip())


def _refuse_pairs(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise invalid("", "an object has the same key twice")


# No number is made of digits: of those that nobody has looked at, there may be too many.
_repeats = json.JSONDecoder(object_pairs_hook=_refuse_pairs, parse_int=str)
