"""The OpenAPI document, written from the table of routes."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any, cast, get_args

import msgspec

from longshore.api.field_docs import remarks, structs
from longshore.api.problems import CATALOGUE, Problem
from longshore.api.routing import Header, Nothing, Route
from longshore.api.sse import MEDIA as STREAM
from longshore.api.tags import TAGS, tag_of

__all__ = ["document", "schema_name"]

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
    """All of the table, as OpenAPI 3.1.

    A path that is an alias is named in the description of its operation: as an operation of
    its own it would be a second method of every generated client.
    """
    table = list(routes)
    kinds = _kinds(table)
    references, components = msgspec.json.schema_components(
        kinds, ref_template=f"{_SCHEMAS}{{name}}", schema_hook=_anything
    )
    by_kind = dict(zip(kinds, references, strict=True))
    _explain(kinds, components)
    paths: dict[str, Document] = {}
    for route in table:
        operation = _operation(route, by_kind, components)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    schemas = _used(components, paths)
    tags = {tag_of(route.path) for route in table}
    found: Document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Longshore",
            "version": version("longshore"),
            "description": "A durable job queue and scheduler.",
        },
        "tags": [{"name": one.name, "description": one.words} for one in TAGS if one in tags],
        "paths": paths,
        "components": {
            "schemas": {schema_name(name): schema for name, schema in schemas.items()},
            "securitySchemes": {_SCHEME: {"type": "http", "scheme": "bearer"}},
        },
    }
    return _plain(found)


def schema_name(name: str) -> str:
    """The name in the document of the type with this name."""
    return _NAMES.get(name, name)


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


def _used(components: Mapping[str, Any], paths: Document) -> Document:
    """The schemas that an operation refers to, at once or by another schema.

    Those of paths and queries are not: their fields are parameters.
    """
    ahead, found = _references(paths), set[str]()
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead |= _references(components[name])
    return {
        # A title would only repeat the name.
        name: {key: facts for key, facts in schema.items() if key != "title"}
        for name, schema in components.items()
        if name in found
    }


def _references(value: Any) -> set[str]:
    """The names of the schemas that a part of the document refers to."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        own = (
            {items["$ref"].removeprefix(_SCHEMAS)} if isinstance(items.get("$ref"), str) else ()
        )
        return set(own).union(*map(_references, items.values()))
    if isinstance(value, list | tuple):
        return set[str]().union(*map(_references, cast("Sequence[Any]", value)))
    return set()


def _explain(kinds: Sequence[Any], components: Mapping[str, Any]) -> None:
    """Say of each field what the docstring beneath it says, and which texts are times."""
    for kind in structs(kinds):
        # A list of fields has places instead of names.
        properties: dict[str, Document] = components[kind.__name__].get("properties", {})
        if not properties:
            continue
        texts = remarks(kind)
        for field in msgspec.structs.fields(kind):
            facts = properties[field.encode_name]
            if datetime in (field.type, *get_args(field.type)):
                # msgspec says so only of those that have to have a time zone; all have one.
                for one in facts.get("anyOf", [facts]):
                    if one.get("type") == "string":
                        one["format"] = "date-time"
            if field.name in texts and "$ref" not in facts:
                properties[field.encode_name] = {"description": texts[field.name], **facts}


def _operation(
    route: Route[Any, Any, Any],
    references: Mapping[Any, Document],
    components: Mapping[str, Any],
) -> Document:
    words = inspect.getdoc(route.handler) or ""
    summary, _, rest = words.partition("\n\n")
    operation: Document = {
        "operationId": route.name,
        "tags": [tag_of(route.path).name],
        "summary": " ".join(summary.split()),
        "responses": _responses(route, references),
    }
    if route.aliases:
        rest += f" Also served at {' and '.join(f'`{one}`' for one in route.aliases)}."
    if rest:
        operation["description"] = " ".join(rest.split())
    if parameters := _parameters(route, components):
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


def _parameters(route: Route[Any, Any, Any], components: Mapping[str, Any]) -> list[Document]:
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
    found: list[Document] = []
    for name, facts in schema["properties"].items():
        parameter: Document = {"in": place, "name": name, "required": name in required}
        if "description" in facts:
            parameter["description"] = facts["description"]
        found.append({**parameter, "schema": _without_null(facts)})
    return found


def _without_null(schema: Document) -> Document:
    """A parameter that is left out is not null; what it means is said beside its schema."""
    options = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(options) == 1:
        return options[0]
    return {name: facts for name, facts in schema.items() if name != "description"}


def _responses(
    route: Route[Any, Any, Any], references: Mapping[Any, Document]
) -> dict[str, Document]:
    found: dict[str, Document] = {}
    for status, kind in route.answers.items():
        found[str(status)] = {"description": _STATUS[status]}
        if kind is not None:
            found[str(status)]["content"] = {route.media: _content(route, references[kind])}
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


def _content(route: Route[Any, Any, Any], kind: Document) -> Document:
    """The body of an answer; of a stream, what the data of each of its events is.

    OpenAPI 3.1 has no field for that, and what reads the document differs in whether the
    schema is of the whole text or of an event, so it says nothing of either.
    """
    if route.media == STREAM.decode():
        words = "Server-sent events; `x-event-data` is the schema of each one's data."
        return {"schema": {"description": words}, "x-event-data": kind}
    return {"schema": kind}


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


_NAMES = {
    "Attempt": "SessionAttempt",
    "Death": "SessionDeath",
    "Entry": "AuditEntry",
    "Failure": "SessionFailure",
    "Flaw": "InvalidPart",
    "Held": "HeldJob",
    "Kind": "AuditKind",
    "MintedView": "NewKey",
    "Name": "EventName",
    "Opened": "OpenedSession",
    "Order": "QueueOrder",
    "Overlap": "ScheduleOverlap",
    "Phase": "BreakerPhase",
    "Quirk": "ClockChange",
    "Share": "QueueShare",
    "Spread": "Percentiles",
    "State": "JobState",
    "Verdict": "SubmitVerdict",
}
"""Of types whose own names say enough in their modules, and not in the document."""


def _plain(value: Any) -> Any:
    """The document as other languages read it: `^` and `$` for the ends of a text.

    References have the names that the schemas have there.
    """
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        if isinstance(items.get("$ref"), str):
            name = schema_name(items["$ref"].removeprefix(_SCHEMAS))
            return {**items, "$ref": f"{_SCHEMAS}{name}"}
        return {name: _plain(one) for name, one in items.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in cast("Sequence[Any]", value)]
    if isinstance(value, str):
        return value.replace(r"\A", "^").replace(r"\Z", "$")
    return value
