"""The routes of the worker protocol: a session of the contract, served by any process.

Nothing of a session is kept here but what it was opened with: each call is carried out by the
engine on what the store knows. So a request may land on any process that serves the store, and
a process may be killed at any moment.

A session belongs to the API key that opened it. To every other key it is one that is over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from longshore.api.encoding import encode
from longshore.api.problems import ProblemError, of_error, problem
from longshore.api.routing import Answer, Call, Caller, Nothing, Route
from longshore.api.session_cache import stopped
from longshore.contract import Exchanged, Session
from longshore.core import ids
from longshore.core.account import Scope
from longshore.core.state import SETTLING
from longshore.core.submission import RESERVED_PREFIX
from longshore.core.webhook import TASK
from longshore.errors import JobNotFoundError, LeaseLostError, LongshoreError
from longshore.operations.waiting import has_waiting_jobs
from longshore.wire import errors, sessions
from longshore.wire.documents import (
    SETTLING_VERBS,
    AttemptsAnswer,
    AttemptsBody,
    BuryAnswer,
    BuryBody,
    ExchangeAnswer,
    ExchangeBody,
    HeldAnswer,
    OpenBody,
    Opened,
    RenewAnswer,
    RenewBody,
    WaitBody,
    WaitingAnswer,
)

__all__ = ["ROUTES", "telling"]

assert set(SETTLING_VERBS) == SETTLING


class SessionPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a session."""

    id: Annotated[str, Meta(max_length=100)]


async def open_session(call: Call[Nothing, Nothing, OpenBody]) -> Answer:
    """Open a session: take a lease under which jobs are claimed.

    It belongs to the API key that opens it: to every other key it is one that is over. It is
    given jobs of such types only as the key may claim.
    """
    body = call.body
    types = _claimable(call.caller, body)
    with telling():
        session = await call.service.engine.open_session(
            worker=body.worker,
            queues=body.queues,
            types=types,
            lease=body.lease_us,
            owner=call.caller.name,
        )
    token = session.token
    opened = Opened(id=sessions.session_id(token), token=token, lease_us=session.lease)
    return Answer(201, encode(opened))


async def get_session(call: Call[SessionPath, Nothing, Nothing]) -> Answer:
    """A live session, as it was opened."""
    with telling():
        token = await _token(call)
        call.service.desk.forget(token)
        session = await call.service.desk.session(token)
    return Answer(200, encode(Opened(id=call.path.id, token=token, lease_us=session.lease)))


async def exchange(call: Call[SessionPath, Nothing, ExchangeBody]) -> Answer:
    """Settle what ended, report what began, and claim jobs, in one commit.

    The last number may be sent again with the same content, when its answer was lost: it
    returns the same claims and settles nothing twice. With `wait_seconds`, an answer without
    claims, refusals and cancels is held back until there may be work: then send the next.
    """
    body = call.body
    settlements = [sessions.settlement_of(one) for one in body.settlements]
    with telling():
        token = await _token(call)
        session = await call.service.desk.session(token)
        listener = _listen(session, body)
        try:
            answer = await session.exchange(
                body.number,
                started=sessions.references_of(body.started),
                progress=[sessions.report_of(one) for one in body.progress],
                settlements=settlements,
                want=body.want,
                queues=body.queues,
            )
            if listener is not None and not _says_anything(answer):
                await call.service.desk.rest(listener, answer.look_in)
        except LeaseLostError:
            call.service.desk.forget(token)
            raise
        finally:
            if listener is not None:
                await stopped(listener)
    return Answer(200, encode(sessions.exchange_answer(answer)))


async def renew(call: Call[SessionPath, Nothing, RenewBody]) -> Answer:
    """Push the lease's end a full lease into the future, and hear what to stop.

    Send it each third of the lease, with everything the worker holds: both sides are compared.
    """
    body = call.body
    held = None if body.held is None else sessions.references_of(body.held)
    started = sessions.references_of(body.started)
    with telling():
        token = await _token(call)
        session = await call.service.desk.session(token)
        try:
            answer = await session.renew(number=body.number, held=held, started=started)
        except LeaseLostError:
            call.service.desk.forget(token)
            raise
    return Answer(200, encode(sessions.renew_answer(answer)))


async def wait(call: Call[SessionPath, Nothing, WaitBody]) -> Answer:
    """Answered when work, or a cancel, may have arrived; after `seconds` at the latest.

    For a worker that listens beside its exchanges. What came just before is not told.
    """
    with telling():
        session = await call.service.desk.session(await _token(call))
        listening = session.wait(call.body.seconds, until=call.body.until)
        await call.service.desk.rest(asyncio.create_task(listening))
    return Answer(204)


async def close(call: Call[SessionPath, Nothing, Nothing]) -> Answer:
    """End the lease. What is still held goes back to the queue, uncharged."""
    desk = call.service.desk
    with telling(), suppress(LeaseLostError):
        token = await _token(call)
        try:
            await (await desk.session(token)).close()
        finally:
            desk.forget(token)
    return Answer(204)


async def keep(call: Call[SessionPath, Nothing, Nothing]) -> Answer:
    """Push the lease's end for a worker that lives but may be too busy to.

    For the process beside it: of cancels and claims the answer tells nothing.
    """
    with telling():
        answer = await call.service.engine.renew(await _token(call))
    return Answer(200, encode(sessions.renew_answer(answer)))


async def held(call: Call[SessionPath, Nothing, Nothing]) -> Answer:
    """All that a session holds, live or lapsed."""
    with telling():
        found = await call.service.engine.held(await _token(call))
    return Answer(200, encode(HeldAnswer(found)))


async def bury(call: Call[SessionPath, Nothing, BuryBody]) -> Answer:
    """End a session whose worker is known to be dead, and settle what it held."""
    settlements = [sessions.settlement_of(one) for one in call.body.settlements]
    with telling():
        settled = await call.service.engine.end_session(await _token(call), settlements)
    return Answer(200, encode(BuryAnswer(settled)))


async def attempts(call: Call[SessionPath, Nothing, AttemptsBody]) -> Answer:
    """The history of a job that the session holds: every delivery that ended."""
    job_id = ids.parse(call.body.job_id)
    engine = call.service.engine
    with telling():
        held = await engine.held(await _token(call)) or ()
        if all(one.id != job_id for one in held):
            raise JobNotFoundError(call.body.job_id)
        found = await engine.attempts(job_id)
    return Answer(200, encode(AttemptsAnswer(found)))


async def waiting(call: Call[SessionPath, Nothing, Nothing]) -> Answer:
    """Whether jobs of the session's queues and types are ready and have not been handed out.

    For a worker that asks for jobs and gets none: if this stays true, something is stuck.
    """
    engine = call.service.engine
    with telling():
        token = await _token(call)
        found = [one for one in (await engine.sessions()).sessions if one.token == token]
        if not found:
            raise LeaseLostError(token)
        is_waiting = await has_waiting_jobs(engine, found[0].queues, found[0].types)
    return Answer(200, encode(WaitingAnswer(is_waiting)))


@contextmanager
def telling() -> Generator[None]:
    """Answer errors of the engine in a form from which a client can raise the same."""
    try:
        yield
    except LongshoreError as error:
        found = of_error(error)
        told = (errors.HEADER.encode("ascii"), errors.told(error))
        raise ProblemError(found.problem, (*found.headers, told)) from None


def _claimable(caller: Caller, body: OpenBody) -> list[str]:
    """The types that the key may claim, of those that are served; 403 where it may not."""
    _refuse_system(body)
    key = caller.key
    if key is None:
        return body.types
    if key.queues and (refused := sorted(set(body.queues) - set(key.queues))):
        detail = (
            f"The key may not claim from {refused[0]!r:.80}, only from {_named(key.queues)}."
        )
        raise ProblemError(problem("forbidden", detail))
    types = key.claimable(body.types)
    if body.types and not types:
        detail = f"The key may claim no job of these types, only of {_named(key.types)}."
        raise ProblemError(problem("forbidden", detail))
    return types


def _refuse_system(body: OpenBody) -> None:
    """403 for Longshore's own jobs: deliveries of webhooks need secrets, which stay inside.

    Whoever claimed them would read what goes to every tenant's endpoints, and could say that
    it had arrived.
    """
    if any(name.startswith(RESERVED_PREFIX) for name in body.queues) or TASK in body.types:
        detail = (
            f"Queues that begin with {RESERVED_PREFIX} and jobs of the type {TASK} are for "
            "workers beside the store."
        )
        raise ProblemError(problem("forbidden", detail))


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")


async def _token(call: Call[SessionPath, Any, Any]) -> int:
    """The token of a session that is the caller's own, live or lapsed; or LeaseLostError."""
    token = sessions.token_of(call.path.id)
    await call.service.desk.check(token, call.caller.name)
    return token


def _listen(session: Session, body: ExchangeBody) -> asyncio.Task[None] | None:
    """Listen from before the look for work, so that nothing comes in between unheard."""
    if not body.wait_seconds or not body.want:
        return None
    return asyncio.create_task(session.wait(body.wait_seconds))


def _says_anything(answer: Exchanged) -> bool:
    return bool(answer.claims or answer.stale or answer.cancel)


def _route(
    verb: str,
    name: str,
    handler: Callable[[Call[SessionPath, Nothing, Any]], Awaitable[Answer]],
    answer: Any,
    body: type[Any] = Nothing,
    *problems: str,
) -> Route[Any, Any, Any]:
    """A verb of one session."""
    return Route(
        method="POST",
        path=f"/v1/sessions/{{id}}:{verb}",
        name=name,
        handler=handler,
        answers={204: None} if answer is None else {200: answer},
        problems=("lease_lost", *problems),
        scope=Scope.WORK,
        is_fleetwide=True,
        parameters=SessionPath,
        body=body,
        is_body_required=verb in ("exchange", "attempts"),
        is_large=True,
    )


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="POST",
        path="/v1/sessions",
        name="openSession",
        handler=open_session,
        answers={201: Opened},
        scope=Scope.WORK,
        is_fleetwide=True,
        body=OpenBody,
    ),
    Route(
        method="GET",
        path="/v1/sessions/{id}",
        name="getSession",
        handler=get_session,
        answers={200: Opened},
        problems=("lease_lost",),
        scope=Scope.WORK,
        is_fleetwide=True,
        parameters=SessionPath,
    ),
    Route(
        method="DELETE",
        path="/v1/sessions/{id}",
        name="closeSession",
        handler=close,
        answers={204: None},
        problems=("lease_lost",),
        scope=Scope.WORK,
        is_fleetwide=True,
        parameters=SessionPath,
    ),
    _route(
        "exchange",
        "exchangeSession",
        exchange,
        ExchangeAnswer,
        ExchangeBody,
        "exchange_order",
        "queue_not_opened",
    ),
    _route("renew", "renewSession", renew, RenewAnswer, RenewBody),
    _route("wait", "waitForWork", wait, None, WaitBody),
    _route("keep", "keepSession", keep, RenewAnswer),
    _route("held", "listHeldJobs", held, HeldAnswer),
    _route("bury", "burySession", bury, BuryAnswer, BuryBody),
    _route(
        "attempts",
        "listAttemptsOfHeldJob",
        attempts,
        AttemptsAnswer,
        AttemptsBody,
        "job_not_found",
    ),
    _route("waiting", "hasWaitingJobs", waiting, WaitingAnswer),
)
