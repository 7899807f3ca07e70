"""Load .sql files into a typed namespace, once, at import.

A statement that is missing, misspelt or no longer used fails here and not in production.
"""

from dataclasses import fields
from importlib.resources import files
from typing import TypeVar

__all__ = ["load"]

T = TypeVar("T")


def load(into: type[T], package: str, suffix: str) -> T:
    """Fill every field of the dataclass `into` with the text of the file it is named after."""
    found = {
        entry.name.removesuffix(suffix): entry.read_text(encoding="utf-8")
        for entry in files(package).iterdir()
        if entry.name.endswith(suffix)
    }
    wanted = {field.name for field in fields(into)}  # pyright: ignore[reportArgumentType]  # T is always a dataclass
    if found.keys() != wanted:
        missing, unused = sorted(wanted - found.keys()), sorted(found.keys() - wanted)
        raise ImportError(f"{package}: missing {missing}, unused {unused}")
    return into(**found)
