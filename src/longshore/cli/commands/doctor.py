"""`longshore doctor`: whether everything is as it should be."""

import asyncio

import click

from longshore.cli import render, wiring
from longshore.cli.exit_status import Exit
from longshore.cli.global_options import Command, Shared
from longshore.core.instant import micros
from longshore.errors import ConfigError, LongshoreError
from longshore.operations import doctor
from longshore.operations.findings import Diagnosis, Finding, Severity, fine, problem
from longshore.wire.address import is_service, read_address

_MARKS = {
    Severity.FINE: ("ok", "green"),
    Severity.WARNING: ("!!", "yellow"),
    Severity.PROBLEM: ("XX", "red"),
}
_FOR_OPERATORS = (
    "what a service finds of its store it tells those with an operator's key and the scope read"
)
PATIENCE_S = 15.0
"""How long a service may take to answer, its store included."""


@click.command("doctor", cls=Command)
@click.pass_context
def command(context: click.Context) -> None:
    """Check everything that is usually wrong. Exit code 1 if there is a problem.

    Changes nothing. Warnings do not count as problems. With the URL of a service it checks the
    service, and prints what the service finds of its store, which needs a key of an operator.
    """
    shared = context.ensure_object(Shared)
    url = wiring.address_of(shared)
    if is_service(url):
        diagnosis = asyncio.run(_examine_service(url))
    else:
        diagnosis = asyncio.run(_examine_store(shared))
    if shared.as_json:
        render.document(diagnosis)
    else:
        for finding in diagnosis.findings:
            _print(finding)
    context.exit(Exit.PROBLEM if diagnosis.health is Severity.PROBLEM else Exit.DONE)


async def _examine_store(shared: Shared) -> Diagnosis:
    retention = wiring.settings(shared).scheduler.retention
    async with wiring.opened(shared, "this look at the store") as engine:
        return await doctor.examine(engine, retention, local_now=wiring.CLOCK.now())


async def _examine_service(url: str) -> Diagnosis:
    """What can be seen of the service from here, and what it finds of its store."""
    place = read_address(url).base
    findings: list[Finding] = []
    async with wiring.client(url, timeout=PATIENCE_S) as client:
        try:
            now = micros(await client.now())
            findings.append(fine("service", f"{place} is ready"))
            findings.append(doctor.clock(now, wiring.CLOCK.now(), "this machine"))
            findings += (await client.doctor()).findings
        except LongshoreError as error:
            advice = _FOR_OPERATORS if isinstance(error, ConfigError) else ""
            findings.append(problem("service", str(error), advice))
    return Diagnosis.of(findings)


def _print(finding: Finding) -> None:
    mark, colour = _MARKS[finding.health]
    text = render.plain(finding.text)
    click.echo(f"{click.style(mark, fg=colour)}  {finding.check:<16} {text}")
    if finding.advice:
        click.echo(f"{'':<20} {finding.advice}")
