"""The parts of the experiments' pages, and of the README, that come from the data."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from longshore_lab.experiments.bounds import named
from longshore_lab.experiments.catalogue import EXPERIMENTS
from longshore_lab.experiments.experiment import Experiment
from longshore_lab.experiments.findings import Catch, Promise, Record, Table
from longshore_lab.experiments.runner import DATA, read, read_catch
from longshore_lab.experiments.speed import speed
from longshore_lab.reading import table

__all__ = ["PARTS", "is_kept", "judged", "kept", "listed", "told"]

_COMMAND = "python -m longshore_lab.experiments"
_MOST_SHOWN = 2


def told(experiment: Experiment, folder: Path = DATA) -> str:
    """What the run that is kept has found."""
    record = read(experiment.name, folder)
    if record is None:
        return f"No run is kept yet; `{_COMMAND} {experiment.name}` makes one."
    return "\n\n".join(_parts(experiment, record))


def kept(folder: Path = DATA) -> str:
    """Each promise: whether it is kept, its figure, its planted fault, and the command."""
    records = {one: read(one.name, folder) for one in EXPERIMENTS}
    rows = [
        [
            f"[{one.promise}](../experiments/{one.page}.md)",
            is_kept(record, catch := read_catch(one.name, folder)),
            record.findings.headline if record else "no run yet",
            catch.fault if catch and catch.shown else "none yet",
            f"`{_given(one, record)}`",
            _origin(record) if record else "",
        ]
        for one, record in records.items()
    ]
    head = ["promise", "kept", "found", "planted fault that it found", "command", "run"]
    machines = dict.fromkeys(_place(record) for record in records.values() if record)
    return "\n\n".join([table(head, rows), *(f"Measured on {one}." for one in machines)])


def judged(experiment: Experiment, folder: Path = DATA) -> str:
    """The verdict that follows from the data."""
    record = read(experiment.name, folder)
    if record is None:
        return "Not judged yet: no run is kept."
    return "\n".join(_judged(experiment, record, read_catch(experiment.name, folder)))


def is_kept(record: Record | None, catch: Catch | None) -> str:
    """Kept is only what a full run held, and what has found the fault planted in it."""
    if record is None:
        return "not tried"
    if any(not one.holds for one in _counting(record)):
        return "**no**"
    if record.is_quick:
        return "quick run only"
    return "yes" if catch and catch.shown else "no fault planted yet"


def listed() -> str:
    """Every experiment: its name, what it tries to break, and how long it takes."""
    rows = [
        [f"[`{one.name}`](../experiments/{one.page}.md)", one.promise, one.takes]
        for one in EXPERIMENTS
    ]
    return table(["name", "what has to hold", "full run"], rows)


PARTS: Mapping[str, Callable[[], str]] = {
    **{f"experiment-{one.name}": lambda one=one: told(one) for one in EXPERIMENTS},
    **{f"verdict-{one.name}": lambda one=one: judged(one) for one in EXPERIMENTS},
    "experiments": listed,
    "kept": kept,
    "speed": speed,
}


def _parts(experiment: Experiment, record: Record) -> Iterator[str]:
    findings = record.findings
    kind = "A short run, which says little of speed" if record.is_quick else "A full run"
    yield (
        f"{kind}: {findings.headline}.\n"
        f"Commit {record.commit}, seed {record.seed}, {record.seconds:,.0f} s,"
        f" {record.began[:10]}; {_place(record)}, {record.machine.store};"
        f" load {record.machine.load_before:g} before it began."
    )
    yield f"```console\n$ {_given(experiment, record)}\n```"
    rows = [
        [one.words, one.figure, "yes" if one.holds else "**no**"] for one in findings.promises
    ]
    yield table(["what has to hold", "found", "holds"], rows)
    yield from map(_shown, findings.tables)
    name = record.name
    if findings.drawings:
        yield f"![{findings.drawings[0].title}](data/{name}.svg)"
    if findings.screen:
        yield f"![longshore top at the end of the run](data/{name}-top.svg)"
    if findings.bounds:
        yield "### What bounded it"
        yield from map(_shown, findings.bounds)
    config = msgspec.json.encode(record.config).decode()
    yield f"All figures are in [{name}.json](data/{name}.json). Config: `{config}`."


def _counting(record: Record) -> list[Promise]:
    """What a run is judged by: a short one not by its speed."""
    return [one for one in record.findings.promises if not (record.is_quick and one.is_speed)]


def _judged(experiment: Experiment, record: Record, catch: Catch | None) -> Iterator[str]:
    broken = [one for one in _counting(record) if not one.holds]
    slow = [one for one in record.findings.promises if not one.holds and one not in broken]
    if broken:
        yield "**Not kept**: " + "; ".join(f"{one.words}: {one.figure}" for one in broken) + "."
    elif record.is_quick:
        yield "Everything that has to hold did, but in a short run only: that is no proof yet."
    else:
        yield "Everything that has to hold did, in a full run."
    if slow:
        told = "; ".join(f"{one.words}: {one.figure}" for one in slow)
        yield f"Slower than it should be, which a short run does not judge by: {told}."
    if not record.findings.bounds and record.machine.load_before > 2 * record.machine.cores:
        yield (
            f"The machine was busy before it began (load {record.machine.load_before:g} on"
            f" {record.machine.cores} cores), so the figures say little of speed."
        )
    if catch is None:
        yield "No fault has been planted in it yet."
    elif catch.shown:
        shown = "; ".join(catch.shown[:_MOST_SHOWN])
        yield f"With a fault planted ({catch.fault}) it fails, as it should: {shown}."
    else:
        yield f"**It did not find the fault planted in it**: {catch.fault}."
    yield from named(record.findings.bounds)


def _origin(record: Record) -> str:
    minutes = max(round(record.seconds / 60), 1)
    return (
        f"{record.commit}, seed {record.seed}, {minutes} min, {record.began[:10]},"
        f" {record.machine.store}"
    )


def _place(record: Record) -> str:
    machine = record.machine
    return (
        f"{machine.cores} × {machine.processor}, {machine.memory_gib} GiB, {machine.system},"
        f" Python {machine.python}"
    )


def _given(experiment: Experiment, record: Record | None) -> str:
    """The command that made it, or would."""
    words = [_COMMAND, experiment.name]
    if record and record.is_quick:
        words.append("--quick")
    if record and record.seed != experiment.full.seed:
        words.append(f"--seed {record.seed}")
    return " ".join(words)


def _shown(one: Table) -> str:
    return f"{one.title}:\n\n{table(list(one.head), [list(row) for row in one.rows])}"
