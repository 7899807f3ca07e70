"""`longshore submit`: put a job in."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click
import msgspec

from longshore.cli import payload, render, wait_for_job, waits, wiring
from longshore.cli.global_options import Command, Shared
from longshore.cli.parameters import duration, given, time
from longshore.core import ids
from longshore.core.job import NewJob, Submitted, Verdict
from longshore.errors import ForbiddenError, IdempotencyError, IdTakenError
from longshore.operations.backend import Backend
from longshore.operations.job_documents import JobDocument


@click.command("submit", cls=Command)
@click.argument("type_name", metavar="TYPE")
@payload.payload_argument
@click.option("--queue", help="Instead of the task's own.")
@click.option("--priority", type=int, help="1 is the most urgent, 9 the least; default 5.")
@click.option("--delay", type=duration, help="Run it this long from now, such as 30s.")
@click.option("--run-at", type=time, help="Run it not before, such as 2030-01-31T09:00:00Z.")
@click.option("--max-attempts", type=int, help="1 means never retry; default 5.")
@click.option("--timeout", type=duration, help="For one attempt; default 5m.")
@click.option("--key", help="Idempotency key: the same key again is the same job.")
@click.option("--ordering-key", help="One at a time, in order, with others of this key.")
@click.option("--unique", help="Not while a live job has this unique key.")
@click.option(
    "--unique-arguments",
    "is_unique",
    is_flag=True,
    help="Not while a live job has the same type and payload.",
)
@click.option("--tag", "tags", multiple=True, help="Can be given several times.")
@click.option("--tenant", help="Whose job it is.")
@click.option("--wait", "is_waiting", is_flag=True, help="Wait until it has finished.")
@click.option("--wait-timeout", type=duration, help="Give up waiting after this long.")
@click.pass_obj
def command(
    shared: Shared,
    type_name: str,
    words: tuple[str, ...],
    is_waiting: bool,
    wait_timeout: timedelta | None,
    is_unique: bool,
    **options: Any,
) -> None:
    """Submit a job of TYPE and print its id.

    The payload is a JSON object, a file of it, standard input, or words such as user_id=7
    name=Ann tags='["a"]': a value that is JSON is taken as such, any other is a string.
    """
    if is_unique and options["unique"] is not None:
        raise click.UsageError("give a --unique key or --unique-arguments, not both")
    options["unique"] = is_unique or options["unique"]
    with wiring.app(shared) as app:
        job = app.spec(type_name, payload.read(words), **given(options)).job

    async def put(backend: Backend) -> None:
        is_served = await _is_served(backend, job)
        if is_served is False and wiring.settings(shared).app is not None:
            waits.refuse_unknown(job.type, app.tasks)
        answer = await _accepted(backend, job)
        if is_served is False:
            render.warning(
                f"no live worker serves {job.type!r} on queue {job.queue!r}: "
                "the job stays ready until one does"
            )
        if not is_waiting:
            _print_answer(shared, job, answer)
            return
        finished = await wait_for_job.finished(
            backend, [ids.text(answer.id)], within=wait_timeout
        )
        _print_finished(shared, finished)
        wait_for_job.refuse_failed(finished)

    wiring.run(shared, put, creates=True)


async def _is_served(backend: Backend, job: NewJob) -> bool | None:
    """Whether a live worker takes the job; None where the key may not ask."""
    try:
        return waits.is_served(job.type, job.queue, await backend.workers())
    except ForbiddenError:
        return None


async def _accepted(backend: Backend, job: NewJob) -> Submitted:
    (answer,) = await backend.submit_jobs([job])
    if answer.verdict is Verdict.CONFLICT:
        raise IdempotencyError(job.idempotency_key or "", ids.text(answer.id))
    if answer.verdict is Verdict.TAKEN:
        raise IdTakenError(ids.text(answer.id))
    if answer.verdict is Verdict.UNIQUE:
        render.note("a live job holds the unique key; it stands for this one")
    if answer.verdict is Verdict.REPEATED:
        render.note("this key was used before; the first job stands for this one")
    return answer


def _print_answer(shared: Shared, job: NewJob, answer: Submitted) -> None:
    if not shared.as_json:
        click.echo(ids.text(answer.id))
        return
    render.document(
        {
            "id": ids.text(answer.id),
            "verdict": answer.verdict,
            "type": job.type,
            "queue": job.queue,
        }
    )


def _print_finished(shared: Shared, finished: Sequence[JobDocument]) -> None:
    for job in finished:
        if shared.as_json:
            render.document(job)
            continue
        render.note(f"{job.id} {job.state}")
        if job.result is not None:
            click.echo(msgspec.json.encode(job.result))
