"""A proof in words, for somebody who chooses a queue."""

import shlex

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from longshore_lab.proof.evidence import QUESTIONS
from longshore_lab.proof.plan import Plan
from longshore_lab.proof.times import Spread
from longshore_lab.proof.verdict import Proof
from longshore_lab.report import examples, promises
from longshore_lab.sabotage import PLANTS

__all__ = ["introduce", "show"]


def introduce(console: Console, plan: Plan) -> None:
    """Say what is about to happen."""
    load = (
        f"{plan.rate:g} jobs arrive per second"
        if plan.in_flight is None
        else f"{plan.in_flight:,} jobs are always under way"
    )
    console.print()
    console.print(
        f"[bold]longshore prove[/]: {load}, {plan.minutes:g} min,"
        f" {plan.workers} workers, seed {plan.seed}.",
        highlight=False,
    )
    console.print(
        "70 % take 1–5 ms, 20 % 0.2–2 s, 5 % fail and recover, 5 % always fail. Every"
        f"\n{plan.every:g} s or so a process is killed with -9, stopped past its lease of"
        f" {plan.lease:g} s,\nor asked to leave. Producer and handlers keep ledgers outside of"
        " the queue,\nand the verdict comes from those. Ctrl-C leaves nothing behind.",
        style="dim",
        highlight=False,
    )
    if plan.sabotage:
        console.print(f"[bold yellow]Planted:[/] {PLANTS[plan.sabotage]}.", highlight=False)
    console.print()


def show(console: Console, proof: Proof) -> None:
    """Print the verdict."""
    console.print()
    console.print(_counts(proof))
    console.print(_times(proof))
    console.print(promises(proof.verdict))
    examples(console, proof.verdict)
    _queries(console, proof)
    for name, (counted, told) in proof.disagreements.items():
        line = f"  SQL counts {counted:,} for {name}, the checkers {told:,}."
        console.print(Text(line, "bold red"))
    console.print(_conclusion(proof))
    if proof.folder is not None:
        _tell_kept(console, proof)
    console.print()


def _counts(proof: Proof) -> Table:
    table = _table("what was counted", "", "what it means")
    for one in QUESTIONS:
        found = proof.counts[one.name]
        style = ("bold red" if found else "green") if one.is_forbidden else ""
        table.add_row(one.name, Text(f"{found:,}", style), one.means)
    figures = proof.verdict.figures
    faults = f"{figures.kills} · {figures.stops} · {figures.terminations}"
    table.add_row("faults", faults, "kill -9 · SIGSTOP · SIGTERM")
    table.add_row(
        "jobs/s", f"{figures.jobs_per_s:,.0f}", f"ended, over {figures.seconds:.0f} s"
    )
    return table


def _times(proof: Proof) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, caption_justify="left")
    if proof.plan.in_flight is None:
        table.caption = (
            "  due: when the job was meant to arrive, whoever was killed before that"
        )
    table.add_column("how long it took", no_wrap=True)
    for heading in ("count", "p50", "p99", "longest"):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = {
        "kill -9 → its job runs elsewhere": proof.times.after_kill,
        "SIGSTOP → its job runs elsewhere": proof.times.after_stop,
        "job due → submit answered": proof.times.submit,
        "job due → handler begins": proof.times.wait,
    }
    for words, found in rows.items():
        if found.count:
            table.add_row(words, f"{found.count:,}", *_spread(found))
    return table


def _spread(found: Spread) -> list[str]:
    return [
        f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"
        for value in (found.p50_ms, found.p99_ms, found.max_ms)
    ]


def _queries(console: Console, proof: Proof) -> None:
    where = "in evidence.db" if proof.folder else "in evidence.db, which --keep FOLDER keeps"
    console.print(f"  The query behind each count, {where}:", style="bold", highlight=False)
    # Beside its name, not below it: what is marked with the mouse is SQL and nothing else.
    queries = Table.grid(padding=(0, 2))
    queries.add_column(no_wrap=True)
    queries.add_column(style="dim")
    for one in QUESTIONS:
        queries.add_row(one.name, one.sql)
    console.print(Padding(queries, (0, 0, 0, 4), expand=False))
    console.print()


def _conclusion(proof: Proof) -> Text:
    broken = [name for name, one in proof.verdict.findings.items() if not one.holds]
    planted = proof.plan.sabotage
    if proof.holds and planted is None:
        return Text.assemble(
            ("  Every promise held", "bold green"), (f" on {proof.store.words}.", "green")
        )
    if proof.holds:
        return Text(
            "  The planted fault was not found. That is a fault in the lab.", "bold red"
        )
    if not proof.verdict.figures.accepted:
        return Text("  Nothing was accepted, so nothing was shown.", "bold red")
    if not broken:
        return Text("  The two counts do not agree, so this proves nothing.", "bold red")
    found = "  The planted fault was found" if planted else "  A promise was broken"
    return Text(
        f"{found}, by {len(broken)} of {len(proof.verdict.findings)} checks.", "bold red"
    )


def _tell_kept(console: Console, proof: Proof) -> None:
    console.print(
        f"  Kept in {proof.folder}: evidence.db, ledgers, logs."
        f"\n  Count again: sqlite3 {shlex.quote(f'{proof.folder}/evidence.db')}",
        highlight=False,
        soft_wrap=True,
    )
    if proof.store.how_to_remove:
        console.print(
            f"  The store is removed with: {proof.store.how_to_remove}",
            highlight=False,
            soft_wrap=True,
        )


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True)
    label, value, meaning = headings
    table.add_column(label, no_wrap=True)
    table.add_column(value, justify="right", no_wrap=True)
    table.add_column(meaning, style="dim")
    return table
