"""`longshore explain`: why a job does not run."""

import click

from longshore import explaining
from longshore.cli import documents, render, wiring
from longshore.cli.parameters import one_job_id
from longshore.cli.shared import Command, Shared
from longshore.core.explain import explain
from longshore.core.job import JobId
from longshore.engine import Engine


@click.command("explain", cls=Command)
@one_job_id
@click.pass_obj
def command(shared: Shared, job_id: JobId) -> None:
    """Say why a job does not run, and when it will.

    What somebody has to change comes first: a pause, a worker that is missing. Then what
    passes by itself: a retry, a limit, the jobs before it.
    """

    async def look(engine: Engine) -> None:
        facts = await explaining.gather(engine, job_id)
        reasons = explain(facts)
        if shared.as_json:
            render.document(documents.reasons(facts.job, reasons))
            return
        for reason in reasons:
            click.echo(render.plain(reason.text))

    wiring.ask(shared, look)
