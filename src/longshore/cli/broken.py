"""Warnings of stored records that lists leave out because they cannot be decoded."""

from longshore.cli import render
from longshore.engine import BrokenRecord, Engine
from longshore.errors import ConfigError

__all__ = ["text_of", "warn_of_broken"]


async def warn_of_broken(engine: Engine, kind: str, tenant: str | None = None) -> None:
    """Name the records of a kind that cannot be decoded. A tenant's own key may not ask."""
    try:
        found = await engine.broken_records()
    except ConfigError:
        return
    for one in found:
        if one.kind == kind and tenant in (None, one.tenant):
            render.warning(f"{text_of(one)}; store it anew, or delete it")


def text_of(one: BrokenRecord) -> str:
    """What is broken, and how."""
    whose = "" if one.tenant in (None, one.name) else f" of tenant {one.tenant!r}"
    return f"{one.kind} {one.name!r}{whose} cannot be decoded: {one.problem}"
