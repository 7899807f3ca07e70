"""Names what bounded a run, from the evidence that was kept of it, and says which that is."""

from collections.abc import Iterator, Sequence

from longshore_lab.experiments.findings import Table
from longshore_lab.experiments.probe import FREE, HELD

__all__ = ["named"]

_PROCESSORS, _WAITS = "Processors", "What "
_EVERYONE, _TAKEN, _THERE = "everyone on this machine", "taken away by the host", "there"
_FULL = 0.9
"""Of the processors: then nothing else could have been faster."""
_OURS = 0.6
"""Of the processors: with less, others had the machine."""
_SOME = 0.02
_MOST = 0.4
"""Of the looks at the server: what so many of them saw held it up."""
_HELD = 0.75
"""Of the looks at a file's write lock: who wants it then finds it taken as a rule."""
_KINDS = {
    "log": "its log, as every commit does",
    "locks": "locks that its sessions hold",
    "reads and writes": "the disk under its tables",
}


def named(tables: Sequence[Table]) -> Iterator[str]:
    """One sentence for each part of a run that was sampled."""
    for one in tables:
        if not one.title.startswith(_PROCESSORS):
            continue
        part = one.title.removeprefix(_PROCESSORS)
        waits = next(
            (it for it in tables if it.title.startswith(_WAITS) and it.title.endswith(part)),
            None,
        )
        where = part.removeprefix(", ")
        words = _sentence(_cores(one), _shares(waits) if waits else {})
        words = f"{where}: {words}" if where else words
        yield words[:1].upper() + words[1:]


def _sentence(cores: dict[str, float], shares: dict[str, float]) -> str:
    everyone, there, taken = (cores.pop(name) for name in (_EVERYONE, _THERE, _TAKEN))
    ours = sum(cores.values())
    who = ", ".join(f"{role} {mean:.2f}" for role, mean in _largest(cores))
    evidence = f"{everyone:.2f} of {there:g} cores busy, {ours:.2f} of them ours ({who})"
    if taken >= _SOME * there:
        evidence += f", {taken:.2f} taken away by the host"
    held = shares.get(HELD, 0.0)
    if HELD in shares or FREE in shares:
        evidence += f"; the file's write lock held in {held:.0%} of the looks"
    elif shares:
        seen = ", ".join(f"{share:.0%} {kind}" for kind, share in _largest(shares))
        evidence += f"; busy sessions of the server: {seen}"
    is_full = everyone + taken >= _FULL * there
    if is_full and ours < _OURS * there:
        return f"others had the machine, so this says nothing of a bound: {evidence}."
    if is_full:
        return f"the processors were the bound: {evidence}."
    if held >= _HELD:
        return (
            f"not the processors; the file's write lock, which one has at a time: {evidence}."
        )
    kind, share = max(shares.items(), key=lambda one: one[1], default=("", 0.0))
    if kind in _KINDS and share >= _MOST:
        return f"not the processors; the server waited most for {_KINDS[kind]}: {evidence}."
    return f"nothing of the machine was used up: {evidence}."


def _cores(table: Table) -> dict[str, float]:
    found = {row[0]: row[1] for row in table.rows}
    everyone, _, there = found[_EVERYONE].partition(" of ")
    figures = {role: float(mean) for role, mean in found.items() if role != _EVERYONE}
    return {**figures, _EVERYONE: float(everyone), _THERE: float(there)}


def _shares(table: Table) -> dict[str, float]:
    shares: dict[str, float] = {}
    for event, share in table.rows:
        kind = _kind(event)
        shares[kind] = shares.get(kind, 0.0) + float(share.rstrip("%")) / 100
    return shares


def _kind(event: str) -> str:
    """Of a wait event of PostgreSQL, or of SQLite's lock."""
    if event in (HELD, FREE):
        return event
    family, _, name = event.partition(":")
    if "wal" in name.lower():
        return "log"
    if family in ("Lock", "LWLock", "BufferPin"):
        return "locks"
    return {"Client": "waiting for a client", "IO": "reads and writes"}.get(family, family)


def _largest(figures: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(figures.items(), key=lambda one: -one[1])
