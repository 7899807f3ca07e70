"""The driver's connection, with fewer round trips and a clear line between set-up and calls.

The driver asks the server about array types when it first meets them, in four round trips for
each connection. The types that our statements use are PostgreSQL's own and have fixed numbers,
so they are answered here. Preparing a statement for the first time is a part of setting the
connection up, which no caller's deadline counts.

Both hooks are private to the driver. One that does not have them any more works as well, in
more round trips, and test_postgres_round_trips tells.
"""

from collections.abc import Collection
from time import monotonic
from typing import Any

import asyncpg

from longshore.runtime.deadline import uncounted
from longshore.runtime.link import Link

__all__ = ["LinkedConnection"]

_ELEMENTS = {
    1000: (16, "bool", "boolean"),
    1001: (17, "bytea", "bytea"),
    1005: (21, "int2", "smallint"),
    1007: (23, "int4", "integer"),
    1016: (20, "int8", "bigint"),
    1022: (701, "float8", "double precision"),
    1185: (1184, "timestamptz", "timestamp with time zone"),
    2951: (2950, "uuid", "uuid"),
    3807: (3802, "jsonb", "jsonb"),
}
"""By the number of an array type, its element's number, short name and name in SQL."""


class LinkedConnection(asyncpg.Connection):
    """A connection that tells its link what setting it up took."""

    link: Link | None = None
    connect_seconds: float | None = None
    """What connecting took, until it is told."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._met: set[str] = set()
        """The statements that were prepared here at least once."""

    async def remember(self, query: str) -> None:
        """Prepare a statement and keep it, as its first use would do."""
        if query in self._met:
            return
        await self._get_statement(query, None)

    async def _get_statement(self, query: str, *args: Any, **options: Any) -> Any:
        driver: Any = super()
        if query in self._met:
            return await driver._get_statement(query, *args, **options)
        began = monotonic()
        with uncounted():
            statement = await driver._get_statement(query, *args, **options)
        self._met.add(query)
        self._tell(monotonic() - began)
        return statement

    async def _introspect_types(self, typeoids: Collection[int], *args: Any) -> Any:
        if all(one in _ELEMENTS for one in typeoids):
            return [_array_type(one) for one in typeoids], _NamedStatement()
        driver: Any = super()
        return await driver._introspect_types(typeoids, *args)

    def _tell(self, seconds: float) -> None:
        if self.link is not None:
            self.link.answered(seconds)
            if self.connect_seconds is not None:
                self.link.connected(self.connect_seconds + seconds)
                self.connect_seconds = None


class _NamedStatement:
    """Stands for the statement that would have asked the server, and replaced none."""

    name = "none was sent"


def _array_type(number: int) -> dict[str, object]:
    """What the server would answer about an array type, as the driver reads it."""
    element, short, name = _ELEMENTS[number]
    return {
        "oid": number,
        "ns": "pg_catalog",
        "name": f"_{short}",
        "kind": b"b",
        "basetype": None,
        "elemtype": element,
        "elemdelim": b",",
        "range_subtype": None,
        "attrtypoids": None,
        "attrnames": None,
        "depth": 0,
        "basetype_name": None,
        "elemtype_name": name,
        "range_subtype_name": None,
    }
