"""`longshore doctor`: whether everything is as it should be."""

import asyncio

import click

from longshore.cli import checks, render, storage, wiring
from longshore.cli.checks import Finding, Health
from longshore.cli.exits import Exit
from longshore.cli.shared import Command, Shared
from longshore.engine import Engine, Retention
from longshore.errors import LongshoreError

_MARKS = {
    Health.FINE: ("ok", "green"),
    Health.WARNING: ("!!", "yellow"),
    Health.PROBLEM: ("XX", "red"),
}


@click.command("doctor", cls=Command)
@click.pass_context
def command(context: click.Context) -> None:
    """Check everything that is usually wrong. Exit code 1 if there is a problem.

    Changes nothing. Warnings do not count as problems.
    """
    shared = context.ensure_object(Shared)
    findings = asyncio.run(_examine(shared))
    worst = max((one.health for one in findings), key=list(Health).index)
    if shared.as_json:
        render.document({"health": worst, "findings": findings})
    else:
        for finding in findings:
            _print(finding)
    context.exit(Exit.PROBLEM if worst is Health.PROBLEM else Exit.DONE)


async def _examine(shared: Shared) -> list[Finding]:
    settings = wiring.settings(shared)
    async with wiring.opened(shared) as engine:
        store = await _store(engine)
        findings = [Finding("engine", Health.FINE, engine.url), store]
        file = wiring.file_of(engine)
        if file is not None and file.exists():
            findings += storage.examine(file)
        if store.health is not Health.PROBLEM:
            findings += await _queue(engine, settings.scheduler.retention)
    return findings


async def _store(engine: Engine) -> Finding:
    try:
        wiring.refuse_absent(engine)
        await engine.ping()
    except LongshoreError as error:
        return Finding("store", Health.PROBLEM, str(error))
    if not engine.traits.survives_power_loss:
        advice = "jobs accepted in the last moment may be lost with the power"
        return Finding("store", Health.WARNING, "writable, but not durable at once", advice)
    return Finding("store", Health.FINE, "writable, durable, and its schema is current")


async def _queue(engine: Engine, retention: Retention) -> list[Finding]:
    facts = await checks.gather(engine, retention, local_now=wiring.CLOCK.now())
    return checks.diagnose(facts)


def _print(finding: Finding) -> None:
    mark, colour = _MARKS[finding.health]
    text = render.plain(finding.text)
    click.echo(f"{click.style(mark, fg=colour)}  {finding.check:<16} {text}")
    if finding.advice:
        click.echo(f"{'':<20} {finding.advice}")
