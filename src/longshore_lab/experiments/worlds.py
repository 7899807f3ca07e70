"""Whole fleets in simulated time: thousands of worlds, and engines that are wrong in them."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from longshore_lab.experiments.experiment import Config, Experiment, ExperimentError, Stage
from longshore_lab.experiments.findings import Catch, Findings, Promise, Table
from longshore_lab.sim.mutants import MUTANTS
from longshore_lab.sim.sometimes import COMMON, RARE

__all__ = ["EXPERIMENT"]

_PATIENCE = 30.0
"""Seconds in which a world is over, however busy the machine."""
_ENGINES = {"model": "the model", "sqlite": "SQLite in memory"}


class Worlds(Config, frozen=True, kw_only=True):
    """How many, and how long each wrong engine may stay hidden."""

    seed: int = 0
    worlds: int = 5_000
    """On each engine, from the seed on."""
    part: int = 500
    """Worlds after which it is told how far it has got, unless `seconds` are few."""
    seconds: float = 0.0
    """Of each engine at the most; 0 for as long as it takes."""
    mutants: Sequence[str] = tuple(MUTANTS)
    mutant_worlds: int = 1_000
    """Within which each has to be found."""
    has_all: bool = True
    """Whether every trouble has to be met, the rare ones too."""


def run(stage: Stage, config: Worlds) -> Findings:
    """Play them, and then each wrong engine until it is found."""
    played: dict[str, Any] = {}
    for name, title in _ENGINES.items():
        stage.say(f"{config.worlds:,} worlds on {title}")
        played[name] = one = _played(stage, config, name)
        stage.say(f"{one['worlds']:,} were played, {one['per_second']:g} a second")
    stage.say(f"{len(config.mutants)} wrong engines, in {config.mutant_worlds:,} worlds each")
    caught: dict[str, Any] = {}
    for name in config.mutants:
        caught[name] = one = _caught(config, name)
        fate = "found" if _is_found(name, one) else "not found"
        stage.say(f"{name}: {fate}, {one['worlds']:,} worlds")
    found = {name: one for name, one in caught.items() if _is_found(name, one)}
    stage.say(f"{len(found)} of {len(caught)} wrong engines found")
    worlds = sum(one["worlds"] for one in played.values())
    broken = sum(len(one["broken"]) for one in played.values())
    slowest = max((one["worlds"] for one in found.values()), default=0)
    return Findings(
        headline=(
            f"{broken} of {worlds:,} worlds broke a promise; {len(found)} of {len(caught)}"
            f" wrong engines found, each within {slowest:,}"
        ),
        promises=_promises(config, played, caught, found),
        results={"worlds": played, "mutants": caught},
        tables=[_table(played), _mutants(caught)],
        catch=Catch(
            f"{len(caught)} engines, each wrong in one way",
            [f"{name}: in {one['worlds']} worlds" for name, one in found.items()],
        ),
    )


def _promises(
    config: Worlds, played: dict[str, Any], caught: dict[str, Any], found: dict[str, Any]
) -> list[Promise]:
    points = (*COMMON, *RARE) if config.has_all else COMMON
    unseen = {
        point for point in points if all(point in one["unseen"] for one in played.values())
    }
    least = min(one["worlds"] for one in played.values())
    return [
        Promise(
            f"no world on {_ENGINES[name]} breaks a promise",
            f"{len(one['broken'])} of {one['worlds']:,}"
            + (f", seeds {one['broken'][:5]}" if one["broken"] else ""),
            not one["broken"] and one["worlds"] > 0,
        )
        for name, one in played.items()
    ] + [
        Promise(
            f"{config.worlds:,} worlds were played on each engine",
            f"{least:,} at the least",
            least >= config.worlds,
            is_speed=True,
        ),
        Promise(
            "every trouble was met in some world",
            f"{len(points) - len(unseen)} of {len(points)}"
            + (f", not {', '.join(sorted(unseen))}" if unseen else ""),
            not unseen,
            is_speed=True,
        ),
        Promise(
            f"every wrong engine is found within {config.mutant_worlds:,} worlds, by the"
            " checker for that",
            f"{len(found)} of {len(caught)}",
            len(found) == len(caught),
        ),
    ]


def _played(stage: Stage, config: Worlds, engine: str) -> dict[str, Any]:
    """The figures of all worlds on one engine, told as they come."""
    seeds = range(config.seed, config.seed + config.worlds)
    limit = ["--seconds", str(config.seconds)] if config.seconds else []
    size = len(seeds) if config.seconds else config.part
    parts: list[dict[str, Any]] = []
    for begin in range(0, len(seeds), size):
        part = seeds[begin : begin + size]
        words = ["--seeds", f"{part.start}:{part.stop}", "--engine", engine, *limit]
        parts.append(_simulated(*words))
        if len(seeds) > size:
            stage.say(f"{begin + len(part):,} of {len(seeds):,}")
    return _summed(parts)


def _summed(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of one run of the simulator, from those of its parts."""
    worlds, seconds = (sum(one[key] for one in parts) for key in ("worlds", "seconds"))
    found, seen = Counter[str](), Counter[str]()
    for one in parts:
        found.update(one["found"])
        seen.update(one["seen"])
    return {
        "worlds": worlds,
        "broken": [seed for one in parts for seed in one["broken"]],
        "found": dict(found),
        "seconds": round(seconds, 1),
        "per_second": round(worlds / seconds, 2),
        "unseen": [point for point in (*COMMON, *RARE) if not seen[point]],
        "seen": dict(seen),
    }


def _caught(config: Worlds, mutant: str) -> dict[str, Any]:
    seeds = f"{config.seed}:{config.seed + config.mutant_worlds}"
    return _simulated("--seeds", seeds, "--mutant", mutant)


def _is_found(mutant: str, one: dict[str, Any]) -> bool:
    return bool(MUTANTS[mutant].finders & one["found"].keys()) and "faults" not in one["found"]


def _simulated(*words: str) -> dict[str, Any]:
    """The figures of one run of the simulator, which has a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "longshore_lab.sim", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ,
        text=True,
    ) as simulator:
        try:
            told, _ = simulator.communicate()
        except BaseException:
            simulator.terminate()  # it sends its own processes home
            simulator.wait(_PATIENCE)
            raise
    lines = told.splitlines()
    if not lines:
        raise ExperimentError(f"the simulator ended with {simulator.returncode}")
    figures: dict[str, Any] = json.loads(lines[-1])
    return figures


def _table(played: dict[str, Any]) -> Table:
    rows = [
        [
            _ENGINES[name],
            f"{one['worlds']:,}",
            str(len(one["broken"])),
            f"{one['per_second']:g}",
            ", ".join(one["unseen"]) or "nothing",
        ]
        for name, one in played.items()
    ]
    head = ["on", "worlds", "broke a promise", "worlds a second", "never met"]
    return Table("Worlds", head, rows)


def _mutants(caught: dict[str, Any]) -> Table:
    rows = [
        [
            name,
            ", ".join(sorted(MUTANTS[name].finders & one["found"].keys())),
            str(one["worlds"]),
        ]
        for name, one in caught.items()
    ]
    return Table("Engines that are wrong", ["fault", "found by", "within worlds"], rows)


EXPERIMENT = Experiment(
    name="worlds",
    page="e23-simulator",
    promise="No order of events that a seed decides breaks a promise",
    full=Worlds(),
    quick=Worlds(
        worlds=200,
        seconds=8.0,
        mutants=("one too many", "answered early", "fired again"),
        mutant_worlds=30,
        has_all=False,
    ),
    takes="50 min",
    run=run,
    store="the model, and SQLite in memory",
)
