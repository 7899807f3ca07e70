"""A verdict in words: what was counted, what was promised, and whether it held."""

from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from longshore_lab.checkers import CHECKERS
from longshore_lab.trial import Trial
from longshore_lab.verdict import Verdict

__all__ = ["show"]

_WIDTH = 108


def show(console: Console, trial: Trial, verdict: Verdict) -> None:
    """Print the verdict for someone who has never heard of the queue before."""
    console.print()
    console.print(
        Padding(Group(_figures(trial, verdict), _promises(verdict)), (0, 0, 0, 2)),
        width=min(console.width, _WIDTH),
    )
    _examples(console, verdict)
    console.print(_conclusion(verdict))


def _figures(trial: Trial, verdict: Verdict) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    table.add_column("what was counted", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("what it means", style="dim")
    for label, value, meaning in _rows(trial, verdict):
        table.add_row(label, value, meaning)
    return table


def _rows(trial: Trial, verdict: Verdict) -> list[tuple[str, str, str]]:
    counted = verdict.figures
    lost = verdict.findings["lost"].violations
    once = counted.effects_applied if verdict.findings["effects"].holds else "not once"
    return [
        (
            "accepted",
            f"{counted.accepted:,}",
            "jobs the queue said yes to, noted by the producer",
        ),
        (
            "succeeded",
            f"{counted.succeeded:,}",
            "their handler returned, and the queue knows it",
        ),
        (
            "dead",
            f"{counted.dead:,}",
            f"made to always fail, and set aside after exactly {trial.max_attempts} failures",
        ),
        ("lost", f"{lost:,}", "accepted, and nowhere to be found"),
        (
            "effects applied once",
            f"{once:,}" if isinstance(once, int) else once,
            "changes to the world outside: one for every job that succeeded",
        ),
        (
            "re-deliveries",
            f"{counted.redelivered:,}",
            f"jobs run again because their worker was hit; it held {counted.in_flight:,}",
        ),
        (
            "repeated effects refused",
            f"{counted.effects_asked - counted.effects_applied:,}",
            "asked for again by a re-delivery; the world knew the order's number",
        ),
        (
            "late results refused",
            f"{counted.stale_refused:,}",
            "of the frozen worker, whose jobs had gone to others meanwhile",
        ),
        ("retries", f"{counted.retries:,}", "runs after a failure, each later than the last"),
        (
            "jobs/s",
            f"{counted.jobs_per_s:,.0f}",
            f"over all {counted.seconds:.1f} s, faults included; "
            f"{counted.best_second:,} in the best second",
        ),
    ]


def _promises(verdict: Verdict) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    table.add_column("what was promised", no_wrap=False)
    table.add_column("checked", justify="right", no_wrap=True, style="dim")
    table.add_column("broken", justify="right", no_wrap=True)
    for checker in CHECKERS:
        finding = verdict.findings[checker.__name__]
        mark = Text("✓ ", "green") if finding.holds else Text("✗ ", "bold red")
        broken = Text("0", "green") if finding.holds else Text(f"{finding.violations:,}", "red")
        promise = (checker.__doc__ or checker.__name__).strip()
        table.add_row(mark + Text(promise), f"{finding.checked:,}", broken)
    return table


def _examples(console: Console, verdict: Verdict) -> None:
    for name, finding in verdict.findings.items():
        if not finding.holds:
            console.print(f"  [bold red]{name}[/]: {finding.violations:,} found, such as")
            for example in finding.examples:
                console.print(f"    {example}", style="dim", highlight=False)
    console.print()


def _conclusion(verdict: Verdict) -> Text:
    if verdict.holds:
        return Text("  Every promise held.", "bold green")
    broken = [name for name, finding in verdict.findings.items() if not finding.holds]
    if not broken:
        return Text("  Nothing was accepted, so nothing was shown.", "bold red")
    return Text(f"  Broken: {', '.join(broken)}.", "bold red")
