"""Load .sql files into a typed namespace, once, at import.

A file has a section for each statement, which begins with a line of its own:

    -- name: what it does.

A statement that is missing, misspelt, no longer used or there twice fails here and not in
production.
"""

import re
from dataclasses import fields
from importlib.resources import files
from typing import TypeVar

__all__ = ["load", "read"]

T = TypeVar("T")

_SECTION = re.compile(r"(?:\A|(?<=\n\n))-- ([a-z]\w*): ")


def load(into: type[T], package: str, suffix: str) -> T:
    """Fill every field of the dataclass `into` with the statement of its name."""
    found = read(package, suffix)
    wanted = {field.name for field in fields(into)}  # pyright: ignore[reportArgumentType]  # T is always a dataclass
    if found.keys() != wanted:
        missing, unused = sorted(wanted - found.keys()), sorted(found.keys() - wanted)
        raise ImportError(f"{package}: missing {missing}, unused {unused}")
    return into(**found)


def read(package: str, suffix: str) -> dict[str, str]:
    """Every statement of a package by its name, with the line that says what it does."""
    found: dict[str, str] = {}
    for entry in files(package).iterdir():
        if not entry.name.endswith(suffix):
            continue
        text = entry.read_text(encoding="utf-8")
        begins = list(_SECTION.finditer(text))
        ends = [one.start() for one in begins[1:]] + [len(text)]
        for begin, end in zip(begins, ends, strict=True):
            if begin[1] in found:
                raise ImportError(f"{package}: {begin[1]} is there twice")
            found[begin[1]] = text[begin.start() : end].rstrip() + "\n"
    return found
