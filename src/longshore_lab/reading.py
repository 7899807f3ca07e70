"""What can be read off source code: docstrings beneath fields, calls as they are written."""

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from textwrap import dedent
from types import ModuleType
from typing import Any

__all__ = ["attributes", "call", "fields", "line", "remarks", "table"]


def remarks(owner: type[Any] | ModuleType) -> dict[str, str]:
    """By field, member or constant, the docstring beneath it; those of bases first."""
    found: dict[str, str] = {}
    for base in _bases(owner):
        found |= remarks(base)
    return found | dict(_remarks(_definition(owner).body))


def attributes(owner: type[Any]) -> dict[str, str]:
    """By attribute that `__init__` sets and explains, the docstring beneath it."""
    for statement in _definition(owner).body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            return dict(_remarks(statement.body))
    return {}


def fields(owner: type[Any]) -> dict[str, str]:
    """By field, its type as it is written; those of bases first."""
    found: dict[str, str] = {}
    for base in _bases(owner):
        found |= fields(base)
    return found | {
        statement.target.id: ast.unparse(statement.annotation)
        for statement in _definition(owner).body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }


def call(name: str, thing: Callable[..., Any]) -> str:
    """The function's call as its author wrote it, without self."""
    (definition,) = ast.parse(dedent(inspect.getsource(thing))).body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = definition.args
    arguments.args = [one for one in arguments.args if one.arg != "self"]
    result = f" -> {ast.unparse(definition.returns)}" if definition.returns else ""
    prefix = "await " if isinstance(definition, ast.AsyncFunctionDef) else ""
    return f"{prefix}{name}({ast.unparse(arguments)}){result}"


def line(text: str) -> str:
    """The text in one line."""
    return " ".join(text.split())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in lines
    )


def _definition(owner: type[Any] | ModuleType) -> ast.ClassDef | ast.Module:
    module = ast.parse(dedent(inspect.getsource(owner)))
    definition = module.body[0] if isinstance(owner, type) else module
    assert isinstance(definition, ast.ClassDef | ast.Module)
    return definition


def _bases(owner: type[Any] | ModuleType) -> Iterator[type[Any]]:
    """Our own classes among the bases, as written: at run time a TypedDict has none."""
    definition = _definition(owner)
    for base in definition.bases if isinstance(definition, ast.ClassDef) else ():
        kind = getattr(sys.modules[owner.__module__], ast.unparse(base), None)
        if isinstance(kind, type) and kind.__module__.startswith("longshore"):
            yield kind


def _remarks(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for before, after in pairwise(body):
        if (
            isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
            and (name := _target(before))
        ):
            yield name, line(inspect.cleandoc(after.value.value))


def _target(statement: ast.stmt) -> str:
    targets = (
        [statement.target]
        if isinstance(statement, ast.AnnAssign)
        else statement.targets
        if isinstance(statement, ast.Assign)
        else []
    )
    for target in targets:
        if isinstance(target, ast.Name):
            return target.id
        if isinstance(target, ast.Attribute):
            return target.attr
    return ""
