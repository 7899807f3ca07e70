"""What every experiment is made of: a question, a size, a way, and a stage to do it on."""

import asyncio
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from longshore.engines import open_engine
from longshore_lab.checkers import Finding
from longshore_lab.experiments.findings import Findings, Promise
from longshore_lab.experiments.sampler import Sampler
from longshore_lab.places import search
from longshore_lab.proof.scratch import scratch
from longshore_lab.servers import PostgresServer

__all__ = ["Config", "Experiment", "ExperimentError", "Stage", "placed"]

_CONNECTIONS = "700"
"""For 512 sessions with a connection each, and more."""


class ExperimentError(Exception):
    """An experiment could not be done. That says nothing about its promises."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """How much of an experiment is done. What can be drawn by lot follows from the seed."""

    seed: int = 1


class Stage:
    """Stores to experiment on, each empty at first and removed in the end.

    Without a URL they are databases on a PostgreSQL of its own, with durable commits, which is
    started when it is first needed; `sqlite` stands for files in a folder of their own.
    """

    def __init__(self, url: str | None = None, say: Callable[[str], None] = lambda _: None):
        self._url = url
        self._stack = ExitStack()
        self._own: str | None = None
        self._searched: list[Finding] = []
        self.say = say

    def __enter__(self) -> Self:
        name = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="longshore-exp-"))
        self.folder = Path(name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def is_postgres(self) -> bool:
        """Whether the stores are in a PostgreSQL."""
        return self._url is None or self._url.startswith("postgres")

    @property
    def url(self) -> str:
        """Where stores are made, unless somebody asks for another kind."""
        if self._url is None:
            return self.postgres
        return self.sqlite() if self._url == "sqlite" else self._url

    @property
    def postgres(self) -> str:
        """The PostgreSQL that was given, or one of its own."""
        if self._url is not None and self._url.startswith("postgres"):
            return self._url
        if self._own is None:
            server = self._stack.enter_context(_server())
            server.wear_in()
            self._own = server.url()
        return self._own

    @contextmanager
    def new_postgres(self) -> Generator[str]:
        """A PostgreSQL that has not worked yet, whichever was given."""
        with _server() as server:
            yield server.url()

    def sqlite(self, options: str = "") -> str:
        """A file in the stage's own folder."""
        return f"sqlite:///{self.folder}/jobs.db{options}"

    @contextmanager
    def store(self, url: str | None = None, *, is_searched: bool = False) -> Generator[str]:
        """The URL of a migrated store that nobody has used.

        What is searched for jobs that are not in their place, before it is removed, `placed`
        tells of. That reads every job.
        """
        with asyncio.Runner() as runner:
            place = scratch(url or self.url, self.folder, is_kept=False)
            found = runner.run(place.__aenter__())
            try:
                runner.run(_migrate(found.url))
                yield found.url
                if is_searched and (finding := runner.run(search(found.url))):
                    self._searched.append(finding)
            finally:
                runner.run(place.__aexit__(None, None, None))

    def placed(self) -> list[Promise]:
        """What was found in the stores that were searched."""
        return placed(self._searched)

    def sampled(self, url: str | None) -> Sampler:
        """Looks at machine and store once a second, while its block runs."""
        return Sampler(url)


def _server() -> PostgresServer:
    return PostgresServer(durable=True, settings={"max_connections": _CONNECTIONS})


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """One of the ten, or the sustained run."""

    name: str
    page: str
    """Its page under docs/experiments, without the suffix."""
    promise: str
    """What it tries to break, in one line."""
    full: Config
    quick: Config
    takes: str
    """How long the full one takes, about, in words."""
    store: str = ""
    """What it is done on, if not on the one store of its stage."""
    plant: str = ""
    """The fault of `plants` that it has to find; empty if each run has one in itself."""
    run: Callable[[Stage, Any], Findings]


def placed(found: Sequence[Finding]) -> list[Promise]:
    """The promise of which `misplaced` found this; none where no store has tables."""
    if not found:
        return []
    jobs, wrong = sum(one.checked for one in found), sum(one.violations for one in found)
    return [
        Promise(
            "every job is in exactly one place of PostgreSQL's tables",
            f"{wrong:,} of {jobs:,} are not",
            jobs > 0 and not wrong,
        )
    ]


async def _migrate(url: str) -> None:
    engine = open_engine(url)
    try:
        await engine.migrate()
    finally:
        await engine.close()
