"""The README's table of promises: how each is kept, and which run shows it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from longshore_lab.experiments.catalogue import EXPERIMENTS
from longshore_lab.experiments.experiment import Experiment
from longshore_lab.experiments.findings import Record
from longshore_lab.experiments.page import is_kept
from longshore_lab.experiments.runner import DATA, read, read_catch
from longshore_lab.reading import table

__all__ = ["PLEDGES", "Pledge", "Witness", "promised"]


class Witness(msgspec.Struct, frozen=True):
    """An experiment that tries the promise."""

    experiment: str
    words: str = ""
    """How the one of its promises begins that is meant; empty for its headline."""
    counts: str = ""
    """What the figure of that one counts, for those who read it alone."""


class Pledge(msgspec.Struct, frozen=True, kw_only=True):
    """What users are promised."""

    words: str
    how: str
    witnesses: Sequence[Witness]
    besides: str = ""
    """What of it no experiment tries."""


PLEDGES = (
    Pledge(
        words="An accepted job is never lost",
        how="it is on disk before `submit` returns; it succeeds, ends dead with its history, or"
        " is cancelled",
        witnesses=[Witness("loss"), Witness("chaos")],
    ),
    Pledge(
        words="One live lease per job, and only it settles",
        how="every outcome is fenced by the session's token and the job's delivery number; a"
        " stale worker is refused",
        witnesses=[
            Witness(
                "chaos",
                "Only the latest claim of a job can settle it",
                "settled by another than the latest claim",
            ),
            Witness(
                "leases",
                "what the first worker says after its lease is refused",
                "results that came after the lease",
            ),
        ],
    ),
    Pledge(
        words="A crash is not a failure",
        how="a keeper process misses a dead worker at once, and its jobs run elsewhere;"
        " `failures` stay what they were",
        witnesses=[
            Witness(
                "crashing",
                "no healthy job is charged a failure",
                "failures charged to neighbours of jobs that kill their worker",
            ),
            Witness(
                "loss",
                "jobs of a killed worker run elsewhere",
                "from `kill -9` to the run elsewhere, under load",
            ),
        ],
    ),
    Pledge(
        words="A job that always fails ends dead after exactly `max_attempts` failures",
        how="the decision is one pure function, applied atomically",
        witnesses=[Witness("poison")],
    ),
    Pledge(
        words="A due time fires once",
        how="with any number of schedulers: the due time is stored in the transaction of its"
        " job",
        witnesses=[Witness("firing")],
    ),
    Pledge(
        words="What a handler writes in its job's transaction is written once",
        how="[one commit](docs/guides/transactions.md#complete-in-your-transaction) stores it"
        " and the job's success",
        witnesses=[Witness("transfers")],
    ),
    Pledge(
        words="Sending again is harmless",
        how="jobs carry their id from the producer, exchanges carry a number",
        witnesses=[
            Witness("chaos", "One idempotency key stands for one job", "keys with two jobs"),
            Witness(
                "chaos",
                "Nothing exists, ran or changed that nobody submitted",
                "jobs that nobody sent",
            ),
        ],
    ),
    Pledge(
        words="A job that kills its worker ends, and alone",
        how="it is dead as [`poison`](docs/guides/workers.md#jobs-that-kill-their-worker) when"
        " its own process died of it with nothing beside it; no neighbour, and no `kill -9` of"
        " a `longshore worker` or of its keeper, makes an innocent job dead, a built-in task's"
        " included. [Not covered](docs/guides/workers.md#what-a-kill-can-still-do): both killed"
        " at once again and again, your tasks under `app.work`, `job.transaction()`",
        witnesses=[Witness("crashing")],
    ),
    Pledge(
        words="A job that computes, hangs or crashes harms nobody else",
        how='with `execution="process"` it runs in a [process of its'
        " own](docs/guides/workers.md#jobs-in-processes-of-their-own), with a timeout and a"
        " memory limit that end in a kill",
        witnesses=[
            Witness(
                "crashing", "beside jobs with a process of their own", "beside jobs that crash"
            )
        ],
        besides="jobs that compute and hang have tests only",
    ),
    Pledge(
        words="A graceful stop loses nothing",
        how="running jobs finish until the deadline, the rest is released uncharged",
        witnesses=[Witness("leaving")],
    ),
)
"""In the order in which a newcomer wants to know them."""


def promised(folder: Path = DATA) -> str:
    """Each promise: how, whether it is kept, what runs found, and the experiments' names."""
    known = {one.name: one for one in EXPERIMENTS}
    rows = [
        [
            one.words,
            one.how,
            _kept(one, folder),
            _found(one, folder),
            ", ".join(_named(known, one)),
        ]
        for one in PLEDGES
    ]
    return table(["promise", "how", "kept", "found", "experiment"], rows)


def _kept(one: Pledge, folder: Path) -> str:
    """As its weakest witness has it."""
    names = dict.fromkeys(witness.experiment for witness in one.witnesses)
    said = [is_kept(read(name, folder), read_catch(name, folder)) for name in names]
    return next((words for words in said if words != "yes"), "yes")


def _found(one: Pledge, folder: Path) -> str:
    told = [_told(witness, read(witness.experiment, folder)) for witness in one.witnesses]
    return "; ".join([*told, *([one.besides] if one.besides else [])])


def _told(witness: Witness, record: Record | None) -> str:
    if record is None:
        return f"no run of `{witness.experiment}` yet"
    if not witness.words:
        return record.findings.headline
    return next(
        f"{witness.counts}: {one.figure}"
        for one in record.findings.promises
        if one.words.startswith(witness.words)
    )


def _named(known: Mapping[str, Experiment], one: Pledge) -> list[str]:
    names = dict.fromkeys(witness.experiment for witness in one.witnesses)
    return [f"[`{name}`](docs/experiments/{known[name].page}.md)" for name in names]
