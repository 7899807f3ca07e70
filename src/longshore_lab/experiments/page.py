"""The parts of the experiments' pages, and of the README, that come from the data."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from longshore_lab.experiments.catalogue import EXPERIMENTS
from longshore_lab.experiments.experiment import Experiment
from longshore_lab.experiments.findings import Record, Table
from longshore_lab.experiments.runner import DATA, read
from longshore_lab.reading import table

__all__ = ["PARTS", "kept", "listed", "told"]

_COMMAND = "python -m longshore_lab.experiments"


def told(experiment: Experiment, folder: Path = DATA) -> str:
    """What the run that is kept has found."""
    record = read(experiment.name, folder)
    if record is None:
        return f"No run is kept yet; `{_COMMAND} {experiment.name}` makes one."
    return "\n\n".join(_parts(experiment, record))


def kept(folder: Path = DATA) -> str:
    """Each promise with its figure and the command that reproduces it."""
    rows = [
        [
            one.promise,
            _found(record),
            f"`{_given(one, record)}`",
            f"[{one.page[:3].upper()}](docs/experiments/{one.page}.md)",
        ]
        for one in EXPERIMENTS
        if (record := read(one.name, folder)) is not None
    ]
    if not rows:
        return "No run is kept yet."
    return table(["promise", "found", "command", "page"], rows)


def listed() -> str:
    """Every experiment: its name, what it tries to break, and how long it takes."""
    rows = [
        [f"[`{one.name}`](../experiments/{one.page}.md)", one.promise, one.takes]
        for one in EXPERIMENTS
    ]
    return table(["name", "what has to hold", "full run"], rows)


PARTS: Mapping[str, Callable[[], str]] = {
    **{f"experiment-{one.name}": lambda one=one: told(one) for one in EXPERIMENTS},
    "experiments": listed,
    "kept": kept,
}


def _parts(experiment: Experiment, record: Record) -> Iterator[str]:
    machine, findings = record.machine, record.findings
    kind = "A short run, which says little of speed" if record.is_quick else "A full run"
    yield (
        f"{kind}: {findings.headline}.\n"
        f"Commit {record.commit}, seed {record.seed}, {record.seconds:,.0f} s,"
        f" {record.began[:10]}; {machine.cores} × {machine.processor},"
        f" {machine.memory_gib} GiB, {machine.system}, Python {machine.python},"
        f" {machine.store}; load {machine.load_before:g} before it began."
    )
    yield f"```console\n$ {_given(experiment, record)}\n```"
    rows = [
        [one.words, one.figure, "yes" if one.holds else "**no**"] for one in findings.promises
    ]
    yield table(["what has to hold", "found", "holds"], rows)
    yield from map(_shown, findings.tables)
    name = f"{record.experiment}-quick" if record.is_quick else record.experiment
    if findings.drawings:
        yield f"![{findings.drawings[0].title}](data/{name}.svg)"
    if findings.bounds:
        yield "### What bounded it"
        yield from map(_shown, findings.bounds)
    config = msgspec.json.encode(record.config).decode()
    yield f"All figures are in [{name}.json](data/{name}.json). Config: `{config}`."


def _found(record: Record) -> str:
    words = record.findings.headline + (" (short run)" if record.is_quick else "")
    return words if record.findings.holds else f"**not kept**: {words}"


def _given(experiment: Experiment, record: Record) -> str:
    """The command that made it."""
    words = [_COMMAND, experiment.name]
    if record.is_quick:
        words.append("--quick")
    if record.seed != experiment.full.seed:
        words.append(f"--seed {record.seed}")
    return " ".join(words)


def _shown(one: Table) -> str:
    return f"{one.title}:\n\n{table(list(one.head), [list(row) for row in one.rows])}"
