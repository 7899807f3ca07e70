"""The OpenAPI document, written from the table of routes."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, cast

import msgspec

from longshore.api.problems import CATALOGUE, Problem
from longshore.api.remarks import remarks, structs
from longshore.api.routing import Header, Nothing, Route

__all__ = ["document"]

Document = dict[str, Any]

_SCHEMAS = "#/components/schemas/"
_SCHEME = "apiKey"
_TENANT = Header(
    "Whom an operator's key speaks for; a tenant's own key may name no other (403).",
    "^[A-Za-z0-9_.:/@+-]{1,128}$",
)
_EVERYWHERE = ("overloaded", "internal", "request_timeout", "headers_too_large")
_WITH_STORE = ("engine_unavailable", "engine_busy", "schema")
_WITH_KEY = ("unauthenticated", "forbidden", "tenant_not_found", "quota_exceeded", "invalid")
_WITH_BODY = (
    "content_too_large",
    "unsupported_media_type",
    "malformed",
    "invalid",
    "body_budget",
)


def document(routes: Iterable[Route[Any, Any, Any]]) -> Document:
    """All of the table, as OpenAPI 3.1."""
    table = list(routes)
    kinds = _kinds(table)
    references, components = msgspec.json.schema_components(
        kinds, ref_template=f"{_SCHEMAS}{{name}}", schema_hook=_anything
    )
    by_kind = dict(zip(kinds, references, strict=True))
    _explain(kinds, components)
    paths: dict[str, Document] = {}
    for route in table:
        for path in (route.path, *route.aliases):
            operation = _operation(route, path, by_kind, components)
            paths.setdefault(path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Longshore",
            "version": version("longshore"),
            "description": "A durable job queue and scheduler.",
        },
        "paths": paths,
        "components": {
            "schemas": _plain(components),
            "securitySchemes": {_SCHEME: {"type": "http", "scheme": "bearer"}},
        },
    }


def _anything(kind: type[Any]) -> Document:
    """What an `object` may be; whatever else is not known is a mistake of ours."""
    if kind is not object:
        raise NotImplementedError
    return {"description": "Any value."}


def _kinds(table: Sequence[Route[Any, Any, Any]]) -> list[Any]:
    """Every type that the table speaks of, once."""
    found: dict[Any, None] = {Problem: None}
    for route in table:
        for kind in (route.parameters, route.query, route.body, *route.answers.values()):
            if kind not in (None, Nothing):
                found[kind] = None
    return list(found)


def _explain(kinds: Sequence[Any], components: Mapping[str, Any]) -> None:
    """Say of each field what the docstring beneath it says."""
    for kind in structs(kinds):
        # A list of fields has places instead of names.
        properties: dict[str, Document] = components[kind.__name__].get("properties", {})
        if not properties:
            continue
        texts = remarks(kind)
        for field in msgspec.structs.fields(kind):
            facts = properties[field.encode_name]
            if field.name in texts and "$ref" not in facts:
                properties[field.encode_name] = {"description": texts[field.name], **facts}


def _operation(
    route: Route[Any, Any, Any],
    path: str,
    references: Mapping[Any, Document],
    components: Mapping[str, Any],
) -> Document:
    words = inspect.getdoc(route.handler) or ""
    summary, _, rest = words.partition("\n\n")
    operation: Document = {
        "operationId": route.name if path == route.path else f"{route.name}_{_slug(path)}",
        "summary": " ".join(summary.split()),
        "responses": _responses(route, references),
    }
    if rest:
        operation["description"] = " ".join(rest.split())
    if parameters := _parameters(route, path, components):
        operation["parameters"] = parameters
    if route.has_body:
        operation["requestBody"] = {
            "required": route.is_body_required,
            "content": {"application/json": {"schema": references[route.body]}},
        }
    if route.scope is not None:
        operation["security"] = [{_SCHEME: []}]
        operation["x-required-scope"] = route.scope.value
    return operation


def _parameters(
    route: Route[Any, Any, Any], path: str, components: Mapping[str, Any]
) -> list[Document]:
    found = [
        *_fields("path", route.parameters, components),
        *_fields("query", route.query, components),
    ]
    headers = dict(route.headers)
    if route.scope is not None:
        headers["Longshore-Tenant"] = _TENANT
    for name, header in headers.items():
        schema = {"type": "string", **({"pattern": header.pattern} if header.pattern else {})}
        found.append(
            {"in": "header", "name": name, "description": header.words, "schema": schema}
        )
    return found


def _fields(place: str, kind: type[Any], components: Mapping[str, Any]) -> list[Document]:
    if kind is Nothing:
        return []
    schema = components[kind.__name__]
    required = schema.get("required", ())
    return [
        {
            "in": place,
            "name": name,
            "required": name in required,
            "schema": _plain(_without_null(facts)),
        }
        for name, facts in schema["properties"].items()
    ]


def _without_null(schema: Document) -> Document:
    """A parameter that is left out is not null."""
    options = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return options[0] if len(options) == 1 else schema


def _responses(
    route: Route[Any, Any, Any], references: Mapping[Any, Document]
) -> dict[str, Document]:
    found: dict[str, Document] = {}
    for status, kind in route.answers.items():
        found[str(status)] = {"description": _STATUS[status]}
        if kind is not None:
            found[str(status)]["content"] = {route.media: {"schema": references[kind]}}
    for code in _codes(route):
        kind = CATALOGUE[code]
        known = found.setdefault(
            str(kind.status),
            {
                "description": "",
                "content": {"application/problem+json": {"schema": references[Problem]}},
            },
        )
        known["description"] = "; ".join(filter(None, [known["description"], kind.title]))
    return found


def _codes(route: Route[Any, Any, Any]) -> list[str]:
    codes = [*route.problems, *_EVERYWHERE]
    if route.scope is not None:
        codes += [*_WITH_KEY, *_WITH_STORE]
    if route.has_body:
        codes += _WITH_BODY
    elif route.parameters is not Nothing or route.query is not Nothing:
        codes.append("invalid")
    return list(dict.fromkeys(codes))


_STATUS = {200: "Done", 201: "Created", 202: "Begun", 204: "Done"}


def _slug(path: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in path).strip("_")


def _plain(value: Any) -> Any:
    """The schema as other languages read it: `^` and `$` for the ends of a text."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {name: _plain(one) for name, one in items}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in cast("Sequence[Any]", value)]
    if isinstance(value, str):
        return value.replace(r"\A", "^").replace(r"\Z", "$")
    return value
