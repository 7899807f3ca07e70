"""The OpenAPI document: valid, in parts with names, and without what only engines know."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from longshore.api.encoding import encode
from longshore.api.openapi import document
from longshore.api.routes import ROUTES, routes_of
from longshore.api.tags import TAGS, tag_of
from longshore.wire import documents as wire

TOLD: dict[str, Any] = json.loads(encode(document(ROUTES)))
INTERNAL = re.compile(
    r"\bcore\.|\bNone\b|\bengines?\b|`_|\blongshore\.[a-z]+\.|[a-z]Error\b|\b[A-Z]\w+Filter\b"
)
"""Words of the code that say nothing to a reader of the document."""


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in TOLD["paths"].items():
        for operation in methods.values():
            yield path, operation


def references(value: Any) -> set[str]:
    """The schemas that this part of the document refers to, also by other schemas."""
    ahead, found = [value], set[str]()
    while ahead:
        new = (
            set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(ahead.pop()))) - found
        )
        found |= new
        ahead += [TOLD["components"]["schemas"][name] for name in new]
    return found


def texts(value: Any) -> Iterator[str]:
    """Every description and summary."""
    if isinstance(value, dict):
        for name, one in value.items():
            if name in ("description", "summary") and isinstance(one, str):
                yield one
            else:
                yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)


def of_sessions(operation: dict[str, Any]) -> bool:
    return operation["tags"] == ["sessions"]


def test_the_document_is_valid_openapi_3_1():
    definitions = pytest.importorskip("schemathesis.specs.openapi.definitions")

    found = [str(one) for one in definitions.OPENAPI_31_VALIDATOR.iter_errors(TOLD)]

    assert TOLD["openapi"] == "3.1.0"
    assert found == []


def test_every_operation_has_one_tag_and_every_tag_a_description_and_operations():
    names = [one["name"] for one in TOLD["tags"]]
    used = [operation["tags"] for _, operation in operations()]

    assert names == [one.name for one in TAGS]
    assert all(one["description"] for one in TOLD["tags"])
    assert {len(one) for one in used} == {1}
    assert {one for (one,) in used} == set(names)


def test_a_service_of_sessions_alone_has_no_tags_of_other_parts():
    told = document(routes_of("sessions"))

    tags = {tag_of(path).name for path in told["paths"]}
    assert "sessions" in tags
    assert {one["name"] for one in told["tags"]} == tags
    assert "JobDocument" not in told["components"]["schemas"]


def test_an_alias_is_named_by_its_operation_and_is_none_of_its_own():
    aliased = [one for one in ROUTES if one.aliases]
    ids = [operation["operationId"] for _, operation in operations()]

    assert aliased
    for route in aliased:
        operation = TOLD["paths"][route.path][route.method.lower()]
        assert all(f"`{one}`" in operation["description"] for one in route.aliases)
        assert not TOLD["paths"].keys() & set(route.aliases)
    assert sorted(ids) == sorted(one.name for one in ROUTES)
    assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", one) for one in ids)


def test_nothing_that_only_engines_and_workers_know_is_outside_of_the_sessions():
    public = [one for one in operations() if not of_sessions(one[1])]
    names = references(public)
    schemas = {name: TOLD["components"]["schemas"][name] for name in names}
    fields = {field for one in schemas.values() for field in one.get("properties", {})}

    assert [path for path in TOLD["paths"] if "engine" in path] == []
    assert [field for field in fields if field.startswith("_") or field.endswith("_us")] == []
    assert not names & set(wire.__all__)
    assert not {name for name in names if name.startswith(("_", "Session"))}


def test_no_text_speaks_of_the_code():
    assert [one for one in texts(TOLD) if INTERNAL.search(one)] == []


def test_every_schema_is_used_and_none_is_of_parameters():
    schemas = TOLD["components"]["schemas"]

    assert references(TOLD["paths"]) == schemas.keys()
    assert {"JobDocument", "JobList", "SubmittedJob", "JobState", "Problem"} <= schemas.keys()
    assert [name for name in schemas if name.endswith(("Query", "Path"))] == []


def test_times_are_told_to_be_times():
    job = TOLD["components"]["schemas"]["JobDocument"]["properties"]

    assert job["created_at"]["format"] == "date-time"
    assert {"type": "string", "format": "date-time"} in job["finished_at"]["anyOf"]
