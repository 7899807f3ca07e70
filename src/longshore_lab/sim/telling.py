"""What happened, told so that a person can follow it."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from longshore_lab.records import (
    CancelAnswered,
    CancelCalled,
    Claimed,
    EffectApplied,
    Entry,
    Fault,
    Reclaimed,
    Record,
    Renewal,
    RunBegan,
    RunEnded,
    Settled,
    SubmitAcknowledged,
    SubmitCalled,
)

__all__ = ["about", "story", "told"]

_JOB = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def told(entries: Iterable[Entry]) -> Iterator[str]:
    """A line for each entry, in order of time."""
    for entry in sorted(entries, key=lambda one: one.record.at):
        yield f"{entry.record.at / 1e6:11.6f}  {entry.actor:14} {_words(entry.record)}"


def about(text: str) -> list[str]:
    """The jobs that a text names."""
    return list(dict.fromkeys(_JOB.findall(text)))


def story(entries: Iterable[Entry], job: str) -> list[Entry]:
    """All that concerns the job, and what was done to those who had to do with it."""
    entries = list(entries)
    ours = [one for one in entries if _concerns(one.record, job)]
    actors = {one.actor for one in ours} | {"engine"}
    first = min((one.record.at for one in ours), default=0)
    last = max((one.record.at for one in ours), default=0)
    for one in entries:
        record = one.record
        is_theirs = (isinstance(record, Fault) and record.target in actors) or (
            isinstance(record, Reclaimed) and record.worker in actors and record.jobs > 0
        )
        if is_theirs and first <= record.at <= last:
            ours.append(one)
    return ours


def _concerns(record: Record, job: str) -> bool:
    if isinstance(record, Renewal):
        return any(job == one for one, _ in (*record.kept, *record.lost))
    return job in (getattr(record, "job", None), getattr(record, "accepted_as", None))


def _words(record: Record) -> str:
    match record:
        case SubmitCalled():
            return f"submits {record.job} (order {record.seq}, must end {record.fate})"
        case SubmitAcknowledged():
            stands = "" if record.accepted_as == record.job else f" as {record.accepted_as}"
            return f"hears that {record.job} is {record.verdict}{stands}"
        case Claimed() | Settled() | RunBegan() | RunEnded() | EffectApplied():
            return _of_a_run(record)
        case CancelCalled():
            return f"cancels {record.job}"
        case CancelAnswered():
            return f"hears of {record.job}: {record.answer}"
        case Reclaimed():
            return f"buries the session of {record.worker}, which held {record.jobs}"
        case Fault():
            by = f" by {record.seconds:+g} s" if record.seconds else ""
            return f"{record.kind} {record.target}{by}"
        case _:
            return _plainly(record)


def _of_a_run(record: Claimed | Settled | RunBegan | RunEnded | EffectApplied) -> str:
    what = f"delivery {record.delivery} of {record.job}"
    match record:
        case Claimed():
            return f"claims {what}, asked for at {record.called_at / 1e6:.6f}"
        case RunBegan():
            return f"begins {what}, attempt {record.attempt}"
        case RunEnded():
            return f"ends {what}: {record.outcome}"
        case EffectApplied():
            return f"changes the world for {what}{'' if record.is_first else ', again'}"
        case Settled():
            said = "accepted" if record.is_accepted else "refused"
            sent = f"sent at {record.called_at / 1e6:.6f}"
            return f"hears that {record.verb} of {what} is {said}, {sent}"


def _plainly(record: Record) -> str:
    facts = msgspec.structs.asdict(record)
    del facts["at"]
    facts.pop("pid", None)
    words = " ".join(f"{name}={value}" for name, value in facts.items())
    return f"{type(record).__name__.lower()} {words}"
