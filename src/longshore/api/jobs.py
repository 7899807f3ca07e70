"""The routes of jobs."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from longshore import paging
from longshore.api import caps, job_document
from longshore.api.bulk import Chosen
from longshore.api.context import Service
from longshore.api.encoding import encode
from longshore.api.job_document import JobBody
from longshore.api.json_gate import Decoder, refuse_second
from longshore.api.listing import PageQuery, page
from longshore.api.problems import Problem, ProblemError, of_error, problem, too_many
from longshore.api.routing import Answer, Call, Caller, Header, Nothing, Route
from longshore.api.slices import in_slices
from longshore.contract import JobFilter
from longshore.core import ids, poison
from longshore.core.account import Scope
from longshore.core.job import Job, NewJob, Submitted, Verdict
from longshore.core.state import TERMINAL, State
from longshore.errors import (
    CapReachedError,
    ConfigError,
    EngineBusyError,
    InFlightError,
    JobNotFoundError,
)
from longshore.operations import job_documents as documents
from longshore.operations.fields import JobIdText, Limit, Text
from longshore.operations.job_documents import (
    AttemptList,
    BatchItem,
    BatchResult,
    JobDocument,
    JobList,
    SubmittedJob,
)
from longshore.operations.jobs import Explanation, explanation

__all__ = ["ROUTES", "BatchBody", "CancelJobBody", "JobPath", "JobQuery", "Listed"]

_item = Decoder(JobBody)
_REFUSED = {
    Verdict.CONFLICT: "idempotency",
    Verdict.TAKEN: "id_taken",
    Verdict.FULL: "queue_full",
    Verdict.HELD: "idempotency_in_flight",
}
_LATER_S = 1
"""After what a job that was turned away is worth another try: depths are counted as often."""


class _Outline(msgspec.Struct):
    """The list of a batch as it was sent."""

    jobs: msgspec.Raw


_outline = msgspec.json.Decoder(_Outline)


class JobPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a job."""

    id: JobIdText


class Listed(Chosen, frozen=True, kw_only=True):
    """Which jobs to list, of any state."""

    limit: Limit = 50
    cursor: Annotated[str, Meta(max_length=2_000)] | None = None
    """What the last page ended with."""


class JobQuery(Listed, frozen=True, kw_only=True):
    """Which jobs to list; what is left out means any."""

    state: State | None = None


class CancelJobBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a job is cancelled."""

    reason: Text = "cancelled over HTTP"


class BatchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the jobs of a batch depend on each other."""

    independent: bool = True
    """False: all or none. One that cannot be accepted refuses the whole request."""


class BatchBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs to submit together."""

    jobs: Annotated[list[msgspec.Raw], Meta(min_length=1)]
    """Each is what the body of `POST /v1/jobs` is."""


async def submit(call: Call[Nothing, Nothing, JobBody]) -> Answer:
    """Submit a job. It is durable when the answer comes.

    With an Idempotency-Key the request can be sent again without harm: it is answered 200 with
    the first answer, byte for byte, and `Idempotency-Replayed: true`. The key is remembered
    for 24 hours unless the service is set otherwise. A 200 with `Longshore-Duplicate: unique`
    tells of the live job that holds the unique key.
    """
    key = job_document.idempotency_key(call.headers)
    refuse_keyless(call.caller, key or call.body.idempotency_key)
    job = job_document.new_job(
        call.service,
        call.caller.home,
        call.body,
        key=key,
        trace=job_document.trace_of(call.headers),
    )
    caps.check_job(call.caller.account, job)
    await call.service.queue_names.check(call.caller.account, job.queue)
    try:
        patience = _patience(call.service, (job,))
        (answer,) = await call.service.submit((job,), max_wait=patience)
    except EngineBusyError as error:
        raise _busy(job, error) from None
    if answer.verdict is Verdict.ACCEPTED:
        location = b"/v1/jobs/" + ids.text(job.id).encode("ascii")
        return Answer(201, encode(documents.submitted(job, answer)), ((b"location", location),))
    return await _stands(call, job, answer)


async def submit_batch(call: Call[Nothing, BatchQuery, BatchBody]) -> Answer:
    """Submit many jobs in one commit. Each has its own result; good ones go in beside bad ones.

    A job may carry an `idempotency_key`, which does what the header does for one job. A
    queue that is full (429), or a key that is under way (409), refuses its own jobs only.
    With `independent=false` it refuses the whole request, as does a job that is wrong.
    """
    most = call.service.settings.max_batch_jobs
    if len(call.body.jobs) > most:
        raise too_many(len(call.body.jobs), most, "as the setting api.max_batch_jobs says")
    refuse_second(call.raw, _outline.decode(call.raw).jobs)
    each = [_read(call, raw) async for raw in in_slices(call.body.jobs)]
    read = await _within_queues(call, each)
    if not call.query.independent:
        _refuse_wrong(read)
    jobs = [one for one in read if isinstance(one, NewJob)]
    answers: list[Submitted] = []
    if jobs:
        patience = _patience(call.service, jobs)
        apart = call.query.independent
        answers = await call.service.submit(jobs, independent=apart, max_wait=patience)
    ahead = iter(answers)
    results = [_item_of(one, ahead) async for one in in_slices(read)]
    accepted = sum(one.status == 201 for one in results)
    return Answer(200, encode(BatchResult(accepted, results)))


async def get(call: Call[JobPath, Nothing, Nothing]) -> Answer:
    """One job: its state, its payload, its result and its last error."""
    job = await call.service.engine.get(ids.parse(call.path.id), tenant=call.caller.tenant)
    return await tell(call.service, job)


async def find(call: Call[Nothing, JobQuery, Nothing]) -> Answer:
    """Jobs that match, newest first, a page at a time.

    A page of large jobs ends before `limit`, at about 4 MiB; `cursor` tells where to go on.
    """
    return await list_jobs(call, call.query, call.query.state)


async def attempts(call: Call[JobPath, PageQuery, Nothing]) -> Answer:
    """A job's history: the deliveries that ended, oldest first."""
    job_id = ids.parse(call.path.id)
    found, cursor = page(
        await call.service.engine.attempts(job_id, tenant=call.caller.tenant),
        call.query,
        lambda one: (one.delivery,),
        of=("attempts", ids.text(job_id)),
    )
    return Answer(200, encode(documents.attempt_list(found, cursor)))


async def explain(call: Call[JobPath, Nothing, Nothing]) -> Answer:
    """Why a job does not run: what somebody has to change first, then what passes by itself."""
    job_id = ids.parse(call.path.id)
    told = await explanation(call.service.engine, job_id, tenant=call.caller.tenant)
    return Answer(200, encode(told))


async def cancel(call: Call[JobPath, Nothing, CancelJobBody]) -> Answer:
    """Cancel a job: at once while it waits; if it runs, its worker is asked to stop it."""
    (job,) = await call.service.engine.change(
        "cancel",
        [ids.parse(call.path.id)],
        reason=call.body.reason,
        tenant=call.caller.tenant,
    )
    return Answer(200, encode(documents.job_document(job)))


async def retry(call: Call[JobPath, Nothing, Nothing]) -> Answer:
    """Run a job now: a scheduled one at once, a dead or cancelled one as if it were new."""
    engine, tenant = call.service.engine, call.caller.tenant
    job_id = ids.parse(call.path.id)
    is_over = (await engine.get(job_id, tenant=tenant)).state in TERMINAL
    (job,) = await engine.change("replay" if is_over else "retry", [job_id], tenant=tenant)
    return Answer(200, encode(documents.job_document(job)))


async def tell(service: Service, job: Job) -> Answer:
    """All that is known of one job."""
    history = await service.engine.attempts(job.id, tenant=job.tenant) if job.crashes else ()
    return Answer(200, encode(documents.job_document(job, poison.victims(history))))


async def list_jobs(call: Call[Any, Any, Any], asked: Listed, state: State | None) -> Answer:
    """A page of jobs, or 400 for a cursor that does not fit."""
    service = call.service
    which = JobFilter(
        tenant=call.caller.tenant,
        queue=asked.queue,
        type=asked.type,
        state=state,
        tag=asked.tag,
    )
    async with service.pages.turn(call.caller.owner):
        try:
            found = await paging.find(
                service.engine, which, limit=asked.limit, cursor=asked.cursor
            )
        except ConfigError:
            raise ProblemError(problem("cursor")) from None
        return Answer(200, encode(documents.job_list(found)))


def refuse_keyless(caller: Caller, key: str | None) -> None:
    """400 where the tenant asks for a key and there is none."""
    tenant = caller.account
    if key is None and tenant is not None and tenant.requires_idempotency_key:
        raise ProblemError(problem("key_required"))


def _read(call: Call[Nothing, BatchQuery, BatchBody], raw: msgspec.Raw) -> NewJob | Problem:
    most = call.service.settings.max_nodes
    try:
        body = _item.read(bytes(raw), most_nodes=most)
        refuse_keyless(call.caller, body.idempotency_key)
        trace = job_document.trace_of(call.headers)
        job = job_document.new_job(call.service, call.caller.home, body, trace=trace)
        caps.check_job(call.caller.account, job)
    except ProblemError as error:
        return error.problem
    except CapReachedError as error:
        return of_error(error).problem
    return job


def _refuse_wrong(read: Sequence[NewJob | Problem]) -> None:
    """Raise the first problem, with the place of its job, where all or none are wanted."""
    for place, one in enumerate(read):
        if isinstance(one, Problem):
            flaws = tuple(
                msgspec.structs.replace(flaw, pointer=f"/jobs/{place}{flaw.pointer}")
                for flaw in one.errors
            )
            raise ProblemError(msgspec.structs.replace(one, errors=flaws))


async def _within_queues(
    call: Call[Any, Any, Any], read: list[NewJob | Problem]
) -> list[NewJob | Problem]:
    """The jobs, and problems in place of those whose queue is one too many for the tenant."""
    account = call.caller.account
    names = {one.queue for one in read if isinstance(one, NewJob)}
    refused = await call.service.queue_names.refused(account, names)
    if account is None or not refused:
        return read
    found = of_error(caps.queues_reached(account)).problem
    return [found if isinstance(one, NewJob) and one.queue in refused else one for one in read]


def _patience(service: Service, jobs: Sequence[NewJob]) -> float | None:
    """Whoever comes with a key can come again with it: better hear soon that it is held."""
    for job in jobs:
        if job.idempotency_key is not None:
            return service.settings.key_timeout.total_seconds()
    return None


def _item_of(read: NewJob | Problem, answers: Iterator[Submitted]) -> BatchItem:
    if isinstance(read, Problem):
        return BatchItem(status=read.status, problem=read)
    answer = next(answers)
    verdict = answer.verdict
    if verdict in _REFUSED:
        is_waiting = verdict is Verdict.HELD and read.idempotency_key is None
        found = problem("engine_busy" if is_waiting else _REFUSED[verdict])
        is_final = verdict in (Verdict.CONFLICT, Verdict.TAKEN)
        return BatchItem(
            status=found.status,
            id=ids.text(answer.id) if is_final else None,
            verdict=verdict,
            problem=found,
            retry_after_seconds=None if is_final else _LATER_S,
        )
    status = 201 if verdict is Verdict.ACCEPTED else 200
    return BatchItem(status=status, id=ids.text(answer.id), verdict=verdict)


async def _stands(
    call: Call[Nothing, Nothing, JobBody], job: NewJob, answer: Submitted
) -> Answer:
    """What is said of a job that was not stored, because another stands for it."""
    if answer.verdict in (Verdict.CONFLICT, Verdict.TAKEN):
        raise ProblemError(problem(_REFUSED[answer.verdict]))
    location = (b"location", b"/v1/jobs/" + ids.text(answer.id).encode("ascii"))
    if answer.verdict is Verdict.REPEATED:
        replayed = (b"idempotency-replayed", b"true")
        first = await _first_of_id(call, job, answer)
        return Answer(
            200, encode(first or documents.submitted(job, answer)), (location, replayed)
        )
    holder = await call.service.engine.get(answer.id, tenant=job.tenant)
    duplicate = (b"longshore-duplicate", b"unique")
    return Answer(200, encode(documents.standing(holder)), (location, duplicate))


async def _first_of_id(
    call: Call[Nothing, Nothing, JobBody], job: NewJob, answer: Submitted
) -> SubmittedJob | None:
    """The job that has this id; None where a key vouches that it is the same as this one.

    Of an id sent again the content is not compared, so what was stored is told.
    """
    if job.idempotency_key is not None:
        return None
    try:
        return documents.standing(await call.service.engine.get(answer.id, tenant=job.tenant))
    except JobNotFoundError:
        return None  # it was pruned meanwhile


def _busy(job: NewJob, error: EngineBusyError) -> ProblemError:
    """Whoever holds a key in an open transaction holds up those who come with the same key."""
    if job.idempotency_key is None or not isinstance(error, InFlightError):
        return of_error(error)
    later = (b"retry-after", b"%d" % _LATER_S)
    return ProblemError(problem("idempotency_in_flight"), (later,))


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="POST",
        path="/v1/jobs",
        name="submitJob",
        handler=submit,
        scope=Scope.SUBMIT,
        body=JobBody,
        answers={201: SubmittedJob, 200: SubmittedJob},
        problems=(
            "cap_reached",
            "key_required",
            "key_malformed",
            "idempotency",
            "idempotency_in_flight",
            "id_taken",
        ),
        headers={
            "Idempotency-Key": Header(
                "Makes sending the request again harmless.", job_document.KEY_PATTERN
            ),
            "traceparent": Header("W3C trace context; stored with the job."),
        },
        jobs=lambda _: 1,
    ),
    Route(
        method="POST",
        path="/v1/jobs:batch",
        name="submitJobs",
        handler=submit_batch,
        scope=Scope.SUBMIT,
        query=BatchQuery,
        body=BatchBody,
        answers={200: BatchResult},
        headers={"traceparent": Header("W3C trace context; stored with each job.")},
        is_large=True,
        is_outline=True,
        jobs=lambda body: len(body.jobs),
    ),
    Route(
        method="GET",
        path="/v1/jobs",
        name="listJobs",
        handler=find,
        scope=Scope.READ,
        query=JobQuery,
        answers={200: JobList},
        problems=("cursor",),
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}",
        name="getJob",
        handler=get,
        scope=Scope.READ,
        parameters=JobPath,
        answers={200: JobDocument},
        problems=("job_not_found",),
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}/attempts",
        name="listAttempts",
        handler=attempts,
        scope=Scope.READ,
        parameters=JobPath,
        query=PageQuery,
        answers={200: AttemptList},
        problems=("job_not_found", "cursor"),
    ),
    Route(
        method="GET",
        path="/v1/jobs/{id}/explain",
        name="explainJob",
        handler=explain,
        scope=Scope.READ,
        parameters=JobPath,
        answers={200: Explanation},
        problems=("job_not_found",),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{id}:cancel",
        name="cancelJob",
        handler=cancel,
        scope=Scope.OPERATE,
        parameters=JobPath,
        body=CancelJobBody,
        is_body_required=False,
        answers={200: JobDocument},
        problems=("job_not_found", "illegal_transition"),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{id}:retry",
        name="retryJob",
        handler=retry,
        scope=Scope.OPERATE,
        parameters=JobPath,
        answers={200: JobDocument},
        problems=("job_not_found", "illegal_transition"),
    ),
)
