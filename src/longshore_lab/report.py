"""A verdict in words: what was counted, what was promised, and whether it held."""

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from longshore_lab.checkers import CHECKERS
from longshore_lab.trial import Trial
from longshore_lab.verdict import Verdict

__all__ = ["examples", "promises", "show"]

_WORDS = {
    **{one.__name__: (one.__doc__ or one.__name__).rstrip(".") for one in CHECKERS},
    "misplaced": "Every job is in exactly one place of the tables",
}


def show(console: Console, trial: Trial, verdict: Verdict, *, next_step: str = "") -> None:
    """Print the verdict for someone who has never heard of the queue before.

    `next_step` is what to try when every promise held.
    """
    console.print()
    console.print(_figures(trial, verdict))
    console.print(promises(verdict))
    examples(console, verdict)
    console.print(_conclusion(trial, verdict, next_step))
    console.print()


def _figures(trial: Trial, verdict: Verdict) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True)
    table.add_column("what was counted", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("what it means", style="dim")
    for label, value, meaning in _rows(trial, verdict):
        table.add_row(label, value, meaning)
    return table


def _rows(trial: Trial, verdict: Verdict) -> list[tuple[str, str, str]]:
    counted = verdict.figures
    lost = verdict.findings["lost"].violations
    refused = counted.effects_asked - counted.effects_applied
    return [
        ("accepted", f"{counted.accepted:,}", "jobs the queue said yes to"),
        ("succeeded", f"{counted.succeeded:,}", "their handler returned, and the queue knows"),
        (
            "dead",
            f"{counted.dead:,}",
            f"failed {trial.max_attempts} times, as they were made to",
        ),
        ("lost", f"{lost:,}", "accepted, and nowhere to be found"),
        (
            "effects applied once",
            f"{counted.effects_once:,}",
            "changes to the world, one per success",
        ),
        (
            "re-deliveries",
            f"{counted.redelivered:,}",
            f"run again: the workers hit held {counted.in_flight:,} jobs",
        ),
        ("effects refused", f"{refused:,}", "asked for again, known by order number"),
        (
            "late results refused",
            f"{counted.stale_refused:,}",
            "of the frozen worker: others had its jobs",
        ),
        (
            "runs past the lease",
            f"{counted.past_lease:,}",
            f"longer than {trial.lease_seconds:g} s: renewed, not taken away",
        ),
        ("retries", f"{counted.retries:,}", "runs after a failure, each after a pause"),
        (
            "jobs/s",
            f"{counted.jobs_per_s:,.0f}",
            f"over {counted.seconds:.0f} s, faults included; best {counted.best_second:,}",
        ),
    ]


def promises(verdict: Verdict) -> Table:
    """What was promised, how much was looked at, and how often it was broken."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True)
    table.add_column("what was promised")
    table.add_column("checked", justify="right", no_wrap=True, style="dim")
    table.add_column("broken", justify="right", no_wrap=True)
    for name, words in _WORDS.items():
        # Only a store in tables has a finding of them.
        if finding := verdict.findings.get(name):
            mark = ("✓ ", "green") if finding.holds else ("✗ ", "bold red")
            broken = Text(f"{finding.violations:,}", mark[1])
            table.add_row(Text.assemble(mark, words), f"{finding.checked:,}", broken)
    return table


def examples(console: Console, verdict: Verdict) -> None:
    """Print one counterexample of each promise that was broken."""
    for finding in verdict.findings.values():
        if not finding.holds:
            console.print(Padding(f"{finding.name}, for example:", (0, 2)), style="red")
            console.print(Padding(Text(finding.examples[0], "dim"), (0, 4)))
    if not verdict.holds:
        console.print()


def _conclusion(trial: Trial, verdict: Verdict, next_step: str) -> Text:
    broken = [name for name, finding in verdict.findings.items() if not finding.holds]
    if verdict.holds and trial.sabotage is None:
        return Text.assemble(("  Every promise held. ", "bold green"), (next_step, "dim"))
    if verdict.holds:
        return Text(
            "  The planted fault was not found. That is a fault in the lab.", "bold red"
        )
    if not broken:
        return Text("  Nothing was accepted, so nothing was shown.", "bold red")
    found = "  The planted fault was found" if trial.sabotage else "  A promise was broken"
    return Text(f"{found}, by {len(broken)} of {len(verdict.findings)} checks.", "bold red")
