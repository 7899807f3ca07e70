"""Worlds in several processes at once, told in the order of their seeds."""

import gc
import multiprocessing
import shlex
import sys
import warnings
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection

import msgspec

from longshore_lab.sim.engines import ENGINES
from longshore_lab.sim.mutants import MUTANTS
from longshore_lab.sim.play import Result, play
from longshore_lab.sim.telling import about, story, told

__all__ = ["Piece", "Told", "hush", "played"]


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What is played, apart from the seed."""

    engine: str
    mutant: str | None
    tells_all: bool


class Told(msgspec.Struct, frozen=True):
    """A world, as far as it has to be told."""

    seen: Counter[str]
    broken: Sequence[str]
    """The checkers that found something."""
    history: Sequence[str]
    complaint: Sequence[str]


def played(piece: Piece, seeds: range, *, processes: int) -> Generator[Told]:
    """The worlds of these seeds, in order. Close it to end early."""
    processes = min(processes, len(seeds))
    if processes > 1:
        yield from _abreast(piece, seeds, processes)
    else:
        yield from (_tell(piece, seed) for seed in seeds)


def hush() -> None:
    """Ready this process for many worlds."""
    # What the dead leave behind is found by the collector, who complains.
    sys.unraisablehook = lambda _: None
    warnings.simplefilter("ignore")
    # What is there by now stays: the collector need not look at it after every world.
    gc.collect()
    gc.freeze()


def _abreast(piece: Piece, seeds: range, processes: int) -> Generator[Told]:
    """Every so many'th world comes from the same process, through its own pipe.

    None is dealt out: a process that is ahead waits for room in its pipe, and one whose pipe
    has no other end is over.
    """
    spawning = multiprocessing.get_context("spawn")
    pipes: list[Connection] = []
    with ExitStack() as ends:
        for first in range(processes):
            pipe, their_end = spawning.Pipe(duplex=False)
            pipes.append(ends.enter_context(pipe))
            player = spawning.Process(
                target=_send, args=(piece, seeds[first::processes], their_end), daemon=True
            )
            player.start()
            ends.callback(player.join)
            ends.callback(player.terminate)
            their_end.close()
        for number in range(len(seeds)):
            yield pipes[number % processes].recv()


def _send(piece: Piece, seeds: range, pipe: Connection) -> None:
    hush()
    with suppress(BrokenPipeError):
        for seed in seeds:
            pipe.send(_tell(piece, seed))


def _tell(piece: Piece, seed: int) -> Told:
    opener = MUTANTS[piece.mutant].opener if piece.mutant else ENGINES[piece.engine]
    result = play(seed, opener)
    return Told(
        result.seen,
        sorted(result.broken),
        list(told(result.entries)) if piece.tells_all else [],
        [] if result.holds else list(_complaint(result, piece)),
    )


def _complaint(result: Result, piece: Piece) -> Iterator[str]:
    """Name what was broken, tell the story of the first job of each, and how to see more."""
    yield f"seed {result.seed} broke a promise:"
    jobs: list[str] = []
    for name in sorted(result.broken):
        examples = result.findings[name].examples
        yield from (f"  {name}: {example}" for example in examples)
        jobs += about(" ".join(examples))[:1]
    for job in dict.fromkeys(jobs):
        yield f"the story of {job}:"
        yield from (f"  {line}" for line in told(story(result.entries, job)))
    yield f"again, with all that happened: {_replay(result.seed, piece)}"


def _replay(seed: int, piece: Piece) -> str:
    words = ["python", "-m", "longshore_lab.sim", "--seeds", str(seed)]
    if piece.mutant:
        words += ["--mutant", piece.mutant]
    else:
        words += ["--engine", piece.engine]
    return shlex.join([*words, "--history"])
