"""Decide how a claim ends.

An engine enforces a settlement; this module is the only place that chooses one. Every
decision is a function of the claim, what the handler did, and the task's policy.
"""

from msgspec.structs import replace

from longshore.core.backoff import LONGEST_US
from longshore.core.job import Claim, Death, Failure, Held, Settlement
from longshore.core.state import TERMINAL, State, Verb, after
from longshore.core.text import storable

__all__ = [
    "MESSAGE_CHARACTERS",
    "TRACEBACK_BYTES",
    "cancelled",
    "condemned",
    "crashed",
    "failed",
    "failure",
    "heeding",
    "killed",
    "lost",
    "outcome",
    "put_off",
    "released",
    "snoozed",
    "succeeded",
    "yields",
]

MESSAGE_CHARACTERS = 4_096
TRACEBACK_BYTES = 16_384

_OUTCOMES = {
    Verb.SUCCEED: "succeeded",
    Verb.RETRY: "failed",
    Verb.SNOOZE: "snoozed",
    Verb.RELEASE: "released",
    Verb.RECLAIM: "released",
    Verb.KILL: "condemned",
    Verb.CANCEL: "cancelled",
}


def failure(kind: str, message: str, traceback: str = "") -> Failure:
    """A failure that any store can keep: bounded, valid UTF-8, no NUL."""
    tail = storable(traceback).encode()[-TRACEBACK_BYTES:].decode(errors="ignore")
    return Failure(storable(kind[:200]), storable(message[:MESSAGE_CHARACTERS]), tail)


def succeeded(
    claim: Claim | Held, *, started_at: int, finished_at: int, result: bytes | None = None
) -> Settlement:
    """The handler returned."""
    return Settlement(
        handle=claim.handle,
        delivery=claim.delivery,
        verb=Verb.SUCCEED,
        started_at=started_at,
        finished_at=finished_at,
        result=result,
    )


def failed(
    claim: Claim | Held,
    why: Failure,
    *,
    delay: int,
    started_at: int,
    finished_at: int,
) -> Settlement:
    """The handler raised or ran out of time: try again after `delay`, or dead at the last.

    The delay is the handler's own wish or `Backoff.delay(claim.failures + 1, chance)`.
    """
    if claim.failures + 1 >= claim.max_attempts:
        return killed(claim, why, "exhausted", started_at=started_at, finished_at=finished_at)
    return Settlement(
        handle=claim.handle,
        delivery=claim.delivery,
        verb=Verb.RETRY,
        delay=_bounded(delay),
        charge=True,
        started_at=started_at,
        finished_at=finished_at,
        failure=why,
    )


def killed(
    claim: Claim | Held, why: Failure, reason: str, *, started_at: int, finished_at: int
) -> Settlement:
    """No retry can help, or none is left: the job is dead, for the given reason."""
    return Settlement(
        handle=claim.handle,
        delivery=claim.delivery,
        verb=Verb.KILL,
        charge=True,
        started_at=started_at,
        finished_at=finished_at,
        failure=why,
        reason=storable(reason[:MESSAGE_CHARACTERS]),
    )


def crashed(
    claim: Claim,
    why: Failure,
    *,
    max_crashes: int,
    delay: int,
    started_at: int,
    finished_at: int,
) -> Settlement:
    """The process that ran the job, and nothing else, died of it: a crash, and no failure.

    It runs again after `delay`, unless it has crashed too often to be let near a process.
    """
    is_poison = claim.crashes + 1 >= max_crashes
    return Settlement(
        handle=claim.handle,
        delivery=claim.delivery,
        verb=Verb.KILL if is_poison else Verb.RETRY,
        delay=0 if is_poison else _bounded(delay),
        crash=True,
        started_at=started_at,
        finished_at=finished_at,
        failure=why,
        reason="poison" if is_poison else None,
    )


def condemned(claim: Claim) -> Settlement:
    """Worker after worker died of the job: it is dead, and does not run again."""
    words = "two workers in a row died while they ran this job and nothing else"
    return Settlement(
        handle=claim.handle,
        delivery=claim.delivery,
        verb=Verb.KILL,
        failure=Failure("crash", words),
        reason="poison",
    )


def snoozed(claim: Claim, after: int, *, started_at: int, finished_at: int) -> Settlement:
    """The handler asked to run later; nothing is charged."""
    return Settlement(
        handle=claim.handle,
        delivery=claim.delivery,
        verb=Verb.SNOOZE,
        delay=_bounded(after),
        started_at=started_at,
        finished_at=finished_at,
    )


def put_off(claim: Claim, delay: int) -> Settlement:
    """There is no room yet for a job that must not run beside others: later, uncharged."""
    return Settlement(
        handle=claim.handle, delivery=claim.delivery, verb=Verb.SNOOZE, delay=_bounded(delay)
    )


def released(claim: Claim | Held, *, started_at: int | None = None) -> Settlement:
    """Give the job back unharmed. `started_at` is set when a drain stopped its handler."""
    return Settlement(
        handle=claim.handle, delivery=claim.delivery, verb=Verb.RELEASE, started_at=started_at
    )


def cancelled(
    claim: Claim, reason: str, *, started_at: int | None = None, finished_at: int | None = None
) -> Settlement:
    """The job was asked to stop, and did."""
    return Settlement(
        handle=claim.handle,
        delivery=claim.delivery,
        verb=Verb.CANCEL,
        started_at=started_at,
        finished_at=finished_at,
        reason=storable(reason[:MESSAGE_CHARACTERS]),
    )


def lost(held: Held, death: Death | None = None) -> Settlement:
    """The session that held the job is gone. It runs again, uncharged, unless cancelled.

    A start that the engine knew of counts as a crash; otherwise nobody knows whether the
    handler ran, and the delivery counts as a lapse.
    """
    if held.cancel_requested:
        return Settlement(
            handle=held.handle,
            delivery=held.delivery,
            verb=Verb.CANCEL,
            started_at=held.started_at,
            reason="cancel was requested; its worker vanished",
        )
    started = held.started_at is not None
    return Settlement(
        handle=held.handle,
        delivery=held.delivery,
        verb=Verb.RECLAIM,
        crash=started,
        lapse=not started,
        started_at=held.started_at,
        failure=_vanished(death) if started else None,
    )


def heeding(settlement: Settlement, reason: str | None) -> Settlement:
    """The settlement of a claim whose job was asked to stop, for that reason, while it ran.

    It does not wait for another run: whoever asked was told so, and a holder that had not
    heard of the request cannot undo it. Success and death stand.
    """
    if yields(settlement):
        return replace(settlement, verb=Verb.CANCEL, reason=reason)
    return settlement


def yields(settlement: Settlement) -> bool:
    """Whether a request to stop the job would settle it otherwise."""
    return settlement.verb is Verb.CANCEL or (
        after(State.RUNNING, settlement.verb) not in TERMINAL
    )


def outcome(settlement: Settlement) -> str:
    """How the delivery ended, as its history calls it."""
    if settlement.crash:
        return "crashed"
    if settlement.lapse:
        return "lapsed"
    if settlement.charge:
        return "failed"
    return _OUTCOMES[settlement.verb]


def _vanished(death: Death | None) -> Failure:
    words = "the worker that ran it vanished"
    if death is None:
        return Failure("crash", words)
    if death.in_child:
        words = "the worker whose child process ran it vanished"
    if death.beside:
        words += f", and {death.beside} other {'job' if death.beside == 1 else 'jobs'} with it"
    elif not death.in_child:
        words += "; it ran nothing else"
    return Failure("crash", words, death=death)


def _bounded(delay: int) -> int:
    return min(max(delay, 0), LONGEST_US)
