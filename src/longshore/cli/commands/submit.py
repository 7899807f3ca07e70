"""`longshore submit`: put a job in."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click

from longshore.cli import documents, payload, render, waiting, waits, wiring
from longshore.cli.parameters import duration, given, time
from longshore.cli.shared import Command, Shared
from longshore.core import ids
from longshore.core.job import Job, NewJob, Submitted, Verdict
from longshore.engine import Engine
from longshore.errors import IdempotencyError


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

    async def put(engine: Engine) -> None:
        is_served = waits.is_served(job.type, job.queue, await engine.sessions())
        if not is_served and wiring.settings(shared).app is not None:
            waits.refuse_unknown(job.type, app.tasks)
        answer = await _accepted(engine, job)
        if not is_served:
            render.warning(
                f"no live worker serves {job.type!r} on queue {job.queue!r}: "
                "the job stays ready until one does"
            )
        if not is_waiting:
            _print_answer(shared, job, answer)
            return
        finished = await waiting.finished(engine, [answer.id], within=wait_timeout)
        _print_finished(shared, finished)
        waiting.refuse_failed(finished)

    wiring.ask(shared, put, creates=True)


async def _accepted(engine: Engine, job: NewJob) -> Submitted:
    (answer,) = await engine.submit([job])
    if answer.verdict is Verdict.CONFLICT:
        raise IdempotencyError(job.idempotency_key or "", ids.text(answer.id))
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


def _print_finished(shared: Shared, finished: Sequence[Job]) -> None:
    for job in finished:
        if shared.as_json:
            render.document(documents.job(job))
            continue
        render.note(f"{ids.text(job.id)} {job.state}")
        if job.result is not None:
            click.echo(job.result)
