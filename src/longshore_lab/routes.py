"""The HTTP reference: every route and every document, as the table of routes has them."""

import inspect
from collections.abc import Iterator
from typing import Any

from longshore.api.field_docs import structs
from longshore.api.openapi import document, schema_name
from longshore.api.problems import CATALOGUE
from longshore.api.routes import ROUTES
from longshore.api.routing import Nothing, Route
from longshore_lab.reading import line, table

__all__ = ["routes"]


def routes() -> str:
    """One section per route, then one per document."""
    told = document(ROUTES)
    schemas = told["components"]["schemas"]
    parts = [_overview()]
    parts += [_route(route, told) for route in ROUTES]
    parts.append("## Documents")
    names = sorted(schema_name(kind.__name__) for kind in _documents())
    parts += [_document(name, schemas[name]) for name in names]
    return "\n\n".join(parts)


def _overview() -> str:
    rows = [
        [f"`{route.method} {path}`", route.scope or "none", _summary(route)]
        for route in ROUTES
        for path in (route.path, *route.aliases)
    ]
    return table(["route", "scope", "what it does"], rows)


def _summary(route: Route[Any, Any, Any]) -> str:
    return line((inspect.getdoc(route.handler) or "").partition("\n\n")[0])


def _route(route: Route[Any, Any, Any], told: dict[str, Any]) -> str:
    operation = told["paths"][route.path][route.method.lower()]
    parts = [f"## {route.method} {route.path}", inspect.getdoc(route.handler) or ""]
    rows = [
        [f"`{one['name']}`", one["in"], _kind(one["schema"]), _words(one["schema"], one)]
        for one in operation.get("parameters", ())
    ]
    if rows:
        parts.append(table(["parameter", "in", "type", "meaning"], rows))
    if route.has_body:
        may = "" if route.is_body_required else ", which may be left out"
        parts.append(f"Body: {_link_to(route.body)}{may}.")
    answers = [
        f"{status} {_link_to(kind) if kind in set(structs([kind])) else route.media}"
        for status, kind in route.answers.items()
        if kind is not None
    ]
    answers += [str(status) for status, kind in route.answers.items() if kind is None]
    codes = [f"`{code}` ({CATALOGUE[code].status})" for code in route.problems]
    problems = f" Problems of its own: {', '.join(codes)}." if codes else ""
    parts.append(f"Answers: {', '.join(answers)}.{problems}")
    return "\n\n".join(parts)


def _documents() -> Iterator[type[Any]]:
    kinds = [
        kind
        for route in ROUTES
        for kind in (route.body, *route.answers.values())
        if kind not in (None, Nothing)
    ]
    return iter(sorted(structs(kinds), key=lambda kind: kind.__name__))


def _document(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        [f"`{field}`", _kind(facts), _words(facts), "yes" if field in required else ""]
        for field, facts in schema.get("properties", {}).items()
    ]
    head = ["field", "type", "meaning", "always there"]
    return f"### {name}\n\n{schema.get('description', '')}\n\n{table(head, rows)}"


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return (
            _link(name)
            if name in {schema_name(kind.__name__) for kind in _documents()}
            else name
        )
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type") or "any JSON")


_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "maxLength": "at most {} characters",
    "maxItems": "at most {}",
    "default": "`{}` unless given",
}


def _words(schema: dict[str, Any], parameter: dict[str, Any] | None = None) -> str:
    said = (parameter or {}).get("description") or schema.get("description", "")
    limits = [
        text.format(schema[name])
        for name, text in _LIMITS.items()
        if schema.get(name) not in (None, (), {}, [])
    ]
    return line(" ".join(filter(None, [said, ", ".join(limits)])))


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _link_to(kind: type[Any]) -> str:
    return _link(schema_name(kind.__name__))
