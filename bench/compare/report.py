"""The figures as a table for people."""

import os
import statistics
from collections.abc import Callable

from bench.compare.catalogue import PEERS, Peer
from bench.compare.stores import DURABILITY
from bench.compare.trial import Figures

__all__ = ["table"]

_QUIET = 0.1
"""Above this share of the machine for others, a figure says more about them."""
_HEAD = """\
| system | durable | submit one by one, /s | submit bulk, /s | drain, jobs/s \
| drain of real jobs, jobs/s | idle p50 / p99, ms | CPU per 1,000 jobs, ms | others had \
| job of a killed worker |
|---|---|--:|--:|--:|--:|--:|--:|--:|---|
"""


def table(found: list[Figures]) -> str:
    """Markdown; where a peer ran several times, the median of each figure."""
    peers = {peer.name: peer for peer in PEERS}
    names = list(dict.fromkeys(one.peer for one in found))
    groups = {name: [one for one in found if one.peer == name] for name in names}
    names.sort(key=lambda name: -(_median(groups[name], lambda one: one.drain_per_s) or 0))
    rows = "".join(_row(peers[name], groups[name]) for name in names)
    return _HEAD + rows + "\n" + _notes([peers[name] for name in names], groups)


def _row(peer: Peer, runs: list[Figures]) -> str:
    p50 = _median(runs, lambda one: one.p50_ms)
    p99 = _median(runs, lambda one: one.p99_ms)
    cells = [
        peer.name,
        DURABILITY[peer.store].partition(":")[0],
        _rate(_median(runs, lambda one: one.submit_one_per_s)),
        _rate(_median(runs, lambda one: one.submit_bulk_per_s)),
        _rate(_median(runs, lambda one: one.drain_per_s)),
        _rate(_median(runs, lambda one: one.real_per_s)),
        "–" if p50 is None or p99 is None else f"{p50:,.1f} / {p99:,.1f}",
        _rate(_median(runs, lambda one: sum(one.cpu_ms_per_1000.values()) or None)),
        f"{max(0, _median(runs, lambda one: one.others_share) or 0):.0%}",
        _rerun(peer, runs),
    ]
    return "| " + " | ".join(cells) + " |\n"


def _rerun(peer: Peer, runs: list[Figures]) -> str:
    again = _median(runs, lambda one: one.rerun_after_s)
    if again is not None:
        shown = f"{again:.1f} s" if again >= 1 else f"{again * 1e3:.0f} ms"
        return f"runs again after {shown}"
    waited = max(one.waited_s for one in runs)
    if not waited:
        return "not tried"
    return f"not within {waited:.0f} s; by its documents: {peer.redelivery}"


def _notes(peers: list[Peer], groups: dict[str, list[Figures]]) -> str:
    lines = [f"- {store}: durable {text}." for store, text in DURABILITY.items()]
    lines.append("- Real jobs: `longshore bench --mode drain --profile real --processes 2`.")
    for peer in peers:
        drain = _median(groups[peer.name], lambda one: one.drain_per_s)
        lines.append(f"- {peer.name}: bulk is {peer.bulk}.{_sentence(peer.note)}")
        if peer.named and (drain or 0) < peer.named / 2:
            lines.append(f"- {peer.name}: under half of the {peer.named:,.0f} it has reached.")
            lines += _ceiling(peer, groups[peer.name])
        others = _median(groups[peer.name], lambda one: one.others_share) or 0
        if others > _QUIET:
            lines.append(f"- {peer.name}: others took {others:.0%} of the machine meanwhile.")
        problems = dict.fromkeys(text for one in groups[peer.name] for text in one.problems)
        lines += [f"- {peer.name}: {text}" for text in problems]
    return "\n".join(lines) + "\n"


def _ceiling(peer: Peer, runs: list[Figures]) -> list[str]:
    """What its own processor time allows: where that is little more, no setting was missed."""
    used = _median(runs, lambda one: one.drain_cpu_ms_per_1000 or None)
    if used is None:
        return []
    cores = os.cpu_count() or 1
    return [
        f"- {peer.name}: workers and server used {used / 1e3:.2f} ms of processor time per job "
        f"in the drain, so {cores} cores allow {cores * 1e6 / used:,.0f} jobs/s."
    ]


def _sentence(text: str) -> str:
    return f" {text[0].upper()}{text[1:]}." if text else ""


def _median(runs: list[Figures], figure: Callable[[Figures], float | None]) -> float | None:
    values = [value for value in map(figure, runs) if value is not None]
    return statistics.median(values) if values else None


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
