"""Payloads on the command line: JSON, a file of it, standard input, or `key=value` words."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from longshore.core import codec
from longshore.errors import PayloadError

__all__ = ["payload_argument", "read"]

payload_argument = click.argument("words", metavar="[JSON|@FILE|-|KEY=VALUE...]", nargs=-1)


def read(words: Sequence[str]) -> bytes:
    """The payload that the words mean, checked as strictly as any other, or PayloadError."""
    if not words:
        return b"{}"
    if len(words) == 1 and words[0] == "-":
        return codec.check(sys.stdin.buffer.read(codec.MAX_BYTES + 1))
    if len(words) == 1 and words[0].startswith("@"):
        return codec.check(_file(Path(words[0][1:])))
    if len(words) == 1 and words[0].lstrip().startswith(("{", "[", '"')):
        return codec.check(words[0].encode(errors="surrogateescape"))
    return codec.encode(_arguments(words))


def _file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(codec.MAX_BYTES + 1)
    except OSError as error:
        raise PayloadError(f"cannot read {path}: {error.strerror}") from error


def _arguments(words: Sequence[str]) -> dict[str, object]:
    arguments: dict[str, object] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise PayloadError(
                f"{word!r:.80} is neither JSON nor key=value; quote JSON for the shell: "
                """'{"user_id": 7}'"""
            )
        if key in arguments:
            raise PayloadError(f"{key!r:.80} is given twice")
        arguments[key] = _value(value)
    return arguments


def _value(text: str) -> object:
    """`7`, `true`, `null`, `[1,2]` as JSON has them; anything else is a string."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text
