"""Warnings of stored records that lists leave out because they cannot be decoded."""

from longshore.cli import render
from longshore.errors import ForbiddenError
from longshore.operations.backend import Backend

__all__ = ["warn_of_broken"]


async def warn_of_broken(backend: Backend, kind: str, tenant: str | None = None) -> None:
    """Name the records of a kind that cannot be decoded. A tenant's own key may not ask."""
    try:
        found = await backend.broken_records()
    except ForbiddenError:
        return
    for one in found:
        if one.kind == kind and tenant in (None, one.tenant):
            render.warning(f"{one.words}; store it anew, or delete it")
