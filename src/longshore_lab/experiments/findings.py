"""What an experiment leaves: figures, tables, drawings, and whether its promises held."""

from collections.abc import Sequence
from typing import Any

import msgspec

__all__ = ["Catch", "Drawing", "Findings", "Line", "Machine", "Promise", "Record", "Table"]


class Promise(msgspec.Struct, frozen=True):
    """Something that has to be so, and what was found."""

    words: str
    figure: str
    holds: bool
    is_speed: bool = False
    """It depends on the machine and on what else it does: a short run does not judge by it."""


class Catch(msgspec.Struct, frozen=True):
    """A fault that was planted, and what showed it."""

    fault: str
    shown: Sequence[str]
    """What no longer held, with its figure; nothing if the fault was missed."""


class Table(msgspec.Struct, frozen=True):
    """Figures for people."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One row of points in a drawing."""

    name: str
    points: Sequence[tuple[float, float]]
    is_bars: bool = False
    """Bars, each upon those of the lines before it, instead of a line."""


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """One panel of a plot."""

    title: str
    x: str
    lines: Sequence[Line]
    is_log: bool = False
    """Steps to the right double."""
    band: tuple[float, float] | None = None
    """From where to where on x something else was the case."""
    level: float | None = None
    """A height to compare with."""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What one experiment found."""

    headline: str
    """The one figure worth telling, in a few words."""
    promises: Sequence[Promise]
    results: dict[str, Any]
    """Everything that was measured."""
    tables: Sequence[Table] = ()
    drawings: Sequence[Drawing] = ()
    bounds: Sequence[Table] = ()
    """What the server waited for and who used the processor: the evidence for the bound."""
    series: dict[str, Any] = {}
    """What was seen second by second."""
    catch: Catch | None = None
    """Of a fault that every run has in one of its parts."""
    screen: Sequence[str] = ()
    """Lines of a terminal, as `longshore top` drew them at the end."""

    @property
    def holds(self) -> bool:
        """Every promise held."""
        return all(one.holds for one in self.promises)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured."""

    cores: int
    processor: str
    memory_gib: int
    system: str
    python: str
    store: str
    load_before: float
    """How many processes wanted to run here before it began."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One run, complete enough to be repeated and doubted. Stored as JSON."""

    experiment: str
    is_quick: bool
    commit: str
    """A `+` at its end: with changes that no commit has."""
    seed: int
    began: str
    seconds: float
    machine: Machine
    config: dict[str, Any]
    planted: str = ""
    """The fault that was planted in it; empty in a run that counts."""
    findings: Findings

    @property
    def name(self) -> str:
        """Of its files. Neither a short run nor a broken one replaces a full one."""
        kind = "-broken" if self.planted else "-quick" if self.is_quick else ""
        return f"{self.experiment}{kind}"
