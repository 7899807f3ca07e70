"""The last look of a trial: where the store is PostgreSQL, into its tables."""

from longshore_lab.checkers import Finding
from longshore_lab.verdict import misplaced

__all__ = ["count_misplaced", "search"]


async def search(url: str) -> Finding | None:
    """What `misplaced` finds; None where the store has no such tables."""
    return await misplaced(url) if url.startswith(("postgresql:", "postgres:")) else None


async def count_misplaced(url: str) -> int | None:
    """How many jobs are not in exactly one place; None as above."""
    found = await search(url)
    return None if found is None else found.violations
