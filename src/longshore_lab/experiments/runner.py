"""Runs an experiment, and keeps what it found: data as JSON, a plot, the page written again."""

import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from longshore.runtime.process import available_cores
from longshore_lab.experiments.chart import draw
from longshore_lab.experiments.experiment import Config, Experiment, ExperimentError, Stage
from longshore_lab.experiments.findings import Catch, Findings, Machine, Record
from longshore_lab.experiments.plants import fault_of
from longshore_lab.experiments.screen import picture

__all__ = ["DATA", "ROOT", "keep", "perform", "read", "read_catch"]

ROOT = Path(__file__).parents[3]
DATA = ROOT / "docs" / "experiments" / "data"
"""Where the runs are that the pages tell of."""
_GIB_KIB = 2**20


def perform(
    experiment: Experiment,
    *,
    is_quick: bool,
    url: str | None = None,
    changes: Mapping[str, object] | None = None,
    planted: str = "",
    say: Callable[[str], None] = lambda _: None,
) -> Record:
    """Do it, with changes to its configuration, and write nothing."""
    config: Config = experiment.quick if is_quick else experiment.full
    if unknown := sorted((changes or {}).keys() - set(config.__struct_fields__)):
        raise ExperimentError(f"{experiment.name} has no {unknown[0]}")
    config = replace(config, **changes or {})
    load, when, began = os.getloadavg()[0], datetime.now(UTC), time.perf_counter()
    with Stage(url, say) as stage:
        findings = experiment.run(stage, config)
        store = experiment.store or _store(stage)
    return Record(
        experiment=experiment.name,
        is_quick=is_quick,
        commit=_commit(),
        seed=config.seed,
        began=when.isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - began, 1),
        machine=_machine(store, load),
        config=msgspec.to_builtins(config),
        findings=findings,
        planted=planted,
    )


def keep(record: Record, folder: Path) -> Path:
    """Write data and pictures; the file of the data. Of a broken run only that is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    findings = record.findings
    if record.planted:
        bare = replace(findings, tables=(), drawings=(), bounds=(), series={}, screen=())
        record = replace(record, findings=bare)
    elif findings.drawings:
        (folder / f"{record.name}.svg").write_text(draw(findings.drawings))
    if record.findings.screen:
        (folder / f"{record.name}-top.svg").write_text(picture(record.findings.screen))
    path = folder / f"{record.name}.json"
    path.write_bytes(_pretty(msgspec.json.encode(record)))
    return path


def read(name: str, folder: Path = DATA) -> Record | None:
    """The full run that is kept of an experiment, else the quick one, else None."""
    for path in (folder / f"{name}.json", folder / f"{name}-quick.json"):
        if path.exists():
            return msgspec.json.decode(path.read_bytes(), type=Record)
    return None


def read_catch(name: str, folder: Path = DATA) -> Catch | None:
    """What became of the fault that was planted in an experiment; None if none was."""
    path = folder / f"{name}-broken.json"
    if path.exists():
        record = msgspec.json.decode(path.read_bytes(), type=Record)
        return Catch(fault_of(record.planted), _shown(record.findings))
    record = read(name, folder)
    return None if record is None else record.findings.catch


def _shown(findings: Findings) -> list[str]:
    return [f"{one.words}: {one.figure}" for one in findings.promises if not one.holds]


def _pretty(encoded: bytes) -> bytes:
    """Readable in a diff, with each series on a line of its own."""
    document = msgspec.json.decode(encoded)
    series = document["findings"].pop("series")
    lines = [f"   {_json(name)}: {_json(values)}" for name, values in series.items()]
    text = msgspec.json.format(_json(document), indent=1).rstrip()
    if not lines:
        return f"{text}\n".encode()
    joined = ",\n".join(lines)
    body = text.removesuffix("}").rstrip().removesuffix("}").rstrip()
    return f'{body},\n  "series": {{\n{joined}\n  }}\n }}\n}}\n'.encode()


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _commit() -> str:
    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    is_changed = bool(git("status", "--porcelain", "--untracked-files=no", "--", "src"))
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + "+" * is_changed


def _machine(store: str, load: float) -> Machine:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cores=available_cores(),
        processor=_processor(),
        memory_gib=round(memory / 1024 / _GIB_KIB),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        store=store,
        load_before=round(load, 2),
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2] for line in text.splitlines() if "model name" in line]
    return names[0].strip() if names else platform.machine()


def _store(stage: Stage) -> str:
    return "PostgreSQL, durable" if stage.is_postgres else "SQLite"
