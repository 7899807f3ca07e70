"""Payloads and results as bytes: JSON that every engine, language and API can carry.

A payload is a JSON object. What JSON leaves open is closed here, in one place: size, depth,
integers of 64 bits, no NaN or infinity, no lone surrogates, no NUL, no key twice.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from math import isfinite, isnan
from typing import Any, cast

import msgspec

from longshore.core.job import NewJob
from longshore.errors import PayloadError

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "check",
    "decode",
    "decode_result",
    "encode",
    "encode_result",
    "fingerprint",
    "is_fine",
    "pack",
    "unique_key",
    "verify",
    "written",
]

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
"""Levels of objects and arrays, the payload's own included."""

_MIN_INT, _MAX_INT = -(1 << 63), (1 << 63) - 1


def encode(arguments: Mapping[str, object], *, limit: int = MAX_BYTES) -> bytes:
    """The payload of these arguments, or PayloadError naming the place that cannot travel."""
    verify(arguments)
    return pack(arguments, limit=limit)


def decode(payload: bytes) -> dict[str, Any]:
    """The arguments that `encode` was given."""
    return _decoder.decode(payload)


def check(raw: bytes, *, limit: int = MAX_BYTES) -> bytes:
    """`raw` itself, if it is JSON text that may be stored as a payload; else PayloadError."""
    _within(raw, "payload", limit)
    try:
        value = _decoder.decode(raw)
    except UnicodeDecodeError:
        raise PayloadError("payload is not UTF-8") from None
    except RecursionError:
        raise PayloadError(f"payload is deeper than {MAX_DEPTH} levels") from None
    except msgspec.DecodeError as error:
        raise PayloadError(f"payload is refused: {error}") from None
    if type(value) is not dict:
        raise PayloadError("payload is not a JSON object")
    verify(cast("dict[str, object]", value))
    _repeats.decode(raw.decode())
    return raw


def verify(value: object, root: str = "payload") -> None:
    """Return if `value` comes back from JSON as it went in; else PayloadError."""
    try:
        _verify(value, MAX_DEPTH)
    except _FlawError as flaw:
        raise PayloadError(f"{root}{''.join(reversed(flaw.steps))} {flaw}") from None


def is_fine(value: Any) -> bool:
    """True for scalars that plainly may travel: the quick answer for most arguments."""
    kind = cast("type[object]", type(value))
    if kind is str:
        return value.isascii() and "\0" not in value
    if kind is int:
        return _MIN_INT <= value <= _MAX_INT
    return value is None or kind is bool or (kind is float and isfinite(value))


def written(value: object, root: str) -> object:
    """`value` in plain dicts, lists and scalars: dates, structs and enums as JSON has them."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_bare)
    except TypeError as error:
        raise PayloadError(f"{root} cannot travel: {error}") from None
    except RecursionError:
        raise PayloadError(f"{root} is deeper than {MAX_DEPTH} levels") from None


def pack(value: object, root: str = "payload", *, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a value that was verified before."""
    raw = _encode(value)
    return raw if len(raw) <= limit else _within(raw, root, limit)


def encode_result(value: object, *, limit: int = MAX_BYTES) -> bytes | None:
    """What a task returned, as it is stored: anything that can be written as JSON."""
    if value is None:
        return None
    plain = written(value, "result")
    verify(plain, "result")
    return pack(plain, "result", limit=limit)


def decode_result(raw: bytes | None) -> Any:
    """The value that `encode_result` was given, as plain JSON."""
    return None if raw is None else _decoder.decode(raw)


def fingerprint(job: NewJob) -> bytes:
    """Sixteen bytes that two jobs share only if they ask for the same thing.

    Id, key and trace make no difference, nor do the order of keys and white space in the
    payload. Fields at their defaults are left out: a field added later changes no fingerprint.
    """
    content: dict[str, object] = {
        name: value
        for name, default in _CONTENT.items()
        if (value := getattr(job, name)) != default
    }
    content["payload"] = _decoder.decode(job.payload)
    return blake2b(msgspec.json.encode(content, order="sorted"), digest_size=16).digest()


def unique_key(type_name: str, payload: bytes) -> str:
    """The key of jobs that are unique by their arguments, whoever submits them and how.

    As in a fingerprint, the order of keys and white space make no difference.
    """
    content = msgspec.json.encode(_decoder.decode(payload), order="sorted")
    return f"{type_name}:{blake2b(content, digest_size=16).hexdigest()}"


_CONTENT = {
    field.name: field.default
    for field in msgspec.structs.fields(NewJob)
    if field.name not in {"id", "payload", "idempotency_key", "fingerprint", "trace", "by"}
}


class _FlawError(Exception):
    """What JSON cannot carry, found on a walk; each level adds its step on the way out."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.steps: list[str] = []


def _verify(value: Any, room: int) -> None:
    if isinstance(value, dict):
        _verify_items(cast("dict[Any, object]", value), _deeper(room))
    elif isinstance(value, list | tuple):
        _verify_elements(cast("list[object]", value), _deeper(room))
    elif isinstance(value, str):
        _verify_text(value)
    elif isinstance(value, int):
        _verify_integer(value)
    elif isinstance(value, float):
        _verify_float(value)
    elif value is not None:
        raise _FlawError(f"is a {type(value).__qualname__}, which is not JSON")


def _verify_items(items: dict[Any, object], room: int) -> None:
    for key, value in items.items():
        if type(key) is str and is_fine(key) and is_fine(value):
            continue
        try:
            _verify_key(key)
            _verify(value, room)
        except _FlawError as flaw:
            flaw.steps.append(_step(key))
            raise


def _verify_elements(elements: list[object], room: int) -> None:
    for index, value in enumerate(elements):
        if is_fine(value):
            continue
        try:
            _verify(value, room)
        except _FlawError as flaw:
            flaw.steps.append(f"[{index}]")
            raise


def _verify_key(key: object) -> None:
    if not isinstance(key, str):
        raise _FlawError("is under a key that is not a string")
    _verify_text(key)


def _verify_text(value: str) -> None:
    if "\0" in value:
        raise _FlawError("has a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _FlawError("has a lone surrogate") from None


def _verify_integer(value: int) -> None:
    if not _MIN_INT <= value <= _MAX_INT:
        raise _FlawError("is an integer of more than 64 bits")


def _verify_float(value: float) -> None:
    if not isfinite(value):
        raise _FlawError("is NaN" if isnan(value) else "is infinite")


def _deeper(room: int) -> int:
    if room == 0:
        raise _FlawError(f"is deeper than {MAX_DEPTH} levels")
    return room - 1


def _step(key: object) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f".{key[:40]}"
    return f"[{key!a:.40}]"


def _within(raw: bytes, root: str, limit: int) -> bytes:
    if len(raw) > limit:
        raise PayloadError(f"{root} has {len(raw)} bytes; the limit is {limit}")
    return raw


def _bare(value: object) -> object:
    """A subclass of a scalar (a template's safe string) or a pydantic model, as JSON has it."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if dump := getattr(value, "model_dump", None):
        return dump(mode="json")
    raise TypeError(f"a {type(value).__qualname__} is not JSON")


def _refuse_repeats(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise PayloadError(f"payload has the key {repeated!a:.40} twice in one object")


_encode = msgspec.json.Encoder(enc_hook=_bare).encode
_decoder = msgspec.json.Decoder()
_repeats = json.JSONDecoder(object_pairs_hook=_refuse_repeats)
