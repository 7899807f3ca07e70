"""`longshore explain`: why a job does not run."""

import click

from longshore.cli import render, wiring
from longshore.cli.global_options import Command, Shared
from longshore.cli.parameters import one_job_id
from longshore.core import ids
from longshore.core.job import JobId


@click.command("explain", cls=Command)
@one_job_id
@click.pass_obj
def command(shared: Shared, job_id: JobId) -> None:
    """Say why a job does not run, and when it will.

    What somebody has to change comes first: a pause, a worker that is missing. Then what
    passes by itself: a retry, a limit, the jobs before it.
    """
    told = wiring.run(shared, lambda backend: backend.explain(ids.text(job_id)))
    if shared.as_json:
        render.document(told)
        return
    for reason in told.reasons:
        click.echo(render.plain(reason.text))
