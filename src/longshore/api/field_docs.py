"""What the docstrings beneath the fields of a document say."""

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import msgspec

__all__ = ["remarks", "structs"]


@cache
def remarks(kind: type[Any]) -> dict[str, str]:
    """By field, the docstring beneath it, on one line; those of its bases too."""
    (base,) = kind.__bases__
    inherited = {} if base is msgspec.Struct else remarks(base)
    body = _classes(kind.__module__)[kind.__name__].body
    return inherited | {
        before.target.id: " ".join(after.value.value.split())
        for before, after in pairwise(body)
        if isinstance(before, ast.AnnAssign)
        and isinstance(before.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }


def structs(kinds: Iterable[Any]) -> Iterator[type[msgspec.Struct]]:
    """The documents among these types, and those inside of them, each once."""
    ahead, seen = list(kinds), set[Any]()
    while ahead:
        kind = ahead.pop()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind not in seen:
                seen.add(kind)
                yield kind
                ahead += get_type_hints(kind).values()
        else:
            ahead += get_args(kind)


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}
