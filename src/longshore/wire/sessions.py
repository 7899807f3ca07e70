"""Between the documents of the worker protocol and the contract's own words."""

import re
from collections.abc import Sequence
from typing import cast

import msgspec
from msgspec import UNSET, UnsetType

from longshore.core import ids, settle
from longshore.core.job import Claim, Failure, Report, Settlement
from longshore.core.responses import Exchanged, Reference, Renewed
from longshore.core.state import Verb
from longshore.wire.documents import (
    ClaimView,
    ExchangeAnswer,
    FailureBody,
    RenewAnswer,
    ReportBody,
    SettlementBody,
    SettlingVerb,
)

__all__ = [
    "claim_of",
    "claim_view",
    "exchange_answer",
    "exchanged",
    "names_of",
    "reference_of",
    "references_of",
    "renew_answer",
    "renewed",
    "report_body",
    "report_of",
    "session_id",
    "settlement_body",
    "settlement_of",
    "token_of",
]

_SESSION_ID = re.compile(r"0|[1-9][0-9]{0,18}")


def session_id(token: int) -> str:
    """The session's name in paths. No secret: a session is served to its own key only."""
    return str(token)


def token_of(name: str) -> int:
    """What `session_id` was given; a name that no session has is that of none."""
    token = int(name) if _SESSION_ID.fullmatch(name) else -1
    return token if token < 2**63 else -1


def names_of(references: Sequence[Reference]) -> list[str]:
    """The names of claims in documents."""
    return [f"{handle}.{delivery}" for handle, delivery in references]


def reference_of(name: str) -> Reference:
    """The claim that is named; a name that nothing can have is that of nothing."""
    handle, _, delivery = name.partition(".")
    found = int(handle), int(delivery)
    fits = -(2**63) <= found[0] < 2**63 and found[1] < 2**31
    return found if fits else (-1, 0)


def references_of(names: Sequence[str]) -> list[Reference]:
    """The claims that are named."""
    return [reference_of(name) for name in names]


def report_body(one: Report) -> ReportBody:
    """A report as it is sent."""
    return ReportBody(f"{one.handle}.{one.delivery}", one.fraction, one.message)


def report_of(body: ReportBody) -> Report:
    """A report as it is applied."""
    return Report(*reference_of(body.claim), body.fraction, body.message)


def settlement_body(one: Settlement) -> SettlementBody:
    """A settlement as it is sent."""
    is_json = one.result is None or _is_json(one.result)
    why = one.failure
    return SettlementBody(
        claim=f"{one.handle}.{one.delivery}",
        verb=cast("SettlingVerb", one.verb.value),
        delay_us=one.delay,
        charge=one.charge,
        crash=one.crash,
        lapse=one.lapse,
        started_at_us=one.started_at,
        finished_at_us=one.finished_at,
        result=msgspec.Raw(one.result) if one.result and is_json else UNSET,
        result_base64=None if is_json else one.result,
        failure=None if why is None else _failure_body(why),
        reason=one.reason,
    )


def settlement_of(body: SettlementBody) -> Settlement:
    """A settlement as it is applied."""
    handle, delivery = reference_of(body.claim)
    why = body.failure
    return Settlement(
        handle=handle,
        delivery=delivery,
        verb=Verb(body.verb),
        delay=body.delay_us,
        charge=body.charge,
        crash=body.crash,
        lapse=body.lapse,
        started_at=body.started_at_us,
        finished_at=body.finished_at_us,
        result=body.result_base64 if body.result_base64 is not None else _json(body.result),
        failure=None if why is None else _failure(why),
        reason=None if body.reason is None else body.reason[: settle.MESSAGE_CHARACTERS],
    )


def claim_view(one: Claim) -> ClaimView:
    """A claim as it is sent."""
    is_json = _is_json(one.payload)
    return ClaimView(
        claim=f"{one.handle}.{one.delivery}",
        id=ids.text(one.id),
        type=one.type,
        queue=one.queue,
        tenant=one.tenant,
        payload=msgspec.Raw(one.payload if is_json else b"null"),
        payload_base64=None if is_json else one.payload,
        priority=one.priority,
        attempt=one.attempt,
        failures=one.failures,
        crashes=one.crashes,
        lapses=one.lapses,
        max_attempts=one.max_attempts,
        timeout_us=one.timeout,
        created_at_us=one.created_at,
        run_at_us=one.run_at,
        trace=one.trace,
        tags=one.tags,
    )


def claim_of(view: ClaimView) -> Claim:
    """A claim as it was handed out."""
    handle, delivery = reference_of(view.claim)
    raw = bytes(view.payload) if view.payload_base64 is None else view.payload_base64
    return Claim(
        handle,
        delivery,
        ids.parse(view.id),
        view.type,
        view.queue,
        view.tenant,
        raw,
        view.priority,
        view.attempt,
        view.failures,
        view.crashes,
        view.lapses,
        view.max_attempts,
        view.timeout_us,
        view.created_at_us,
        view.run_at_us,
        view.trace,
        view.tags,
    )


def exchange_answer(answer: Exchanged) -> ExchangeAnswer:
    """An exchange's answer as it is sent."""
    return ExchangeAnswer(
        now_us=answer.now,
        claims=[claim_view(one) for one in answer.claims],
        stale=names_of(answer.stale),
        cancel=names_of(answer.cancel),
        is_paused=answer.is_paused,
        look_in_us=answer.look_in,
        fair=answer.fair,
    )


def exchanged(answer: ExchangeAnswer) -> Exchanged:
    """The same as the contract has it."""
    return Exchanged(
        answer.now_us,
        [claim_of(one) for one in answer.claims],
        references_of(answer.stale),
        references_of(answer.cancel),
        answer.is_paused,
        answer.look_in_us,
        answer.fair,
    )


def renew_answer(answer: Renewed) -> RenewAnswer:
    """A renewal's answer as it is sent."""
    return RenewAnswer(
        now_us=answer.now,
        expires_at_us=answer.expires_at,
        cancel=names_of(answer.cancel),
        lost=names_of(answer.lost),
        released=answer.released,
        is_quiet=answer.is_quiet,
        shares=answer.shares,
    )


def renewed(answer: RenewAnswer) -> Renewed:
    """The same as the contract has it."""
    return Renewed(
        answer.now_us,
        answer.expires_at_us,
        references_of(answer.cancel),
        references_of(answer.lost),
        answer.released,
        answer.is_quiet,
        answer.shares,
    )


_any = msgspec.json.Decoder(msgspec.Raw)


def _is_json(raw: bytes) -> bool:
    """Whether the bytes come back the same when they are a part of a document."""
    try:
        raw.decode()
        return bytes(_any.decode(raw)) == raw
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _json(raw: msgspec.Raw | UnsetType) -> bytes | None:
    return None if isinstance(raw, UnsetType) else bytes(raw)


def _failure_body(why: Failure) -> FailureBody:
    return FailureBody(why.kind, why.message, why.traceback, why.put_off)


def _failure(body: FailureBody) -> Failure:
    why = settle.failure(body.kind, body.message, body.traceback)
    return msgspec.structs.replace(why, put_off=body.put_off_us)
