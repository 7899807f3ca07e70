"""The generated parts of the docs, each as Markdown."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from longshore import errors, settings
from longshore.api.problems import CATALOGUE
from longshore.cli import exit_status
from longshore.cli.main import main as command_line
from longshore.contract import Traits
from longshore.core.event import Name
from longshore.core.state import mermaid
from longshore.engines import open_engine
from longshore.observe.exposition import PREFIX
from longshore.observe.metrics import Metrics
from longshore.observe.overview import View, gauges
from longshore.tasks.builtin import BUILTIN
from longshore_lab.experiments import page, pledges
from longshore_lab.reading import line, remarks, table
from longshore_lab.reference import python
from longshore_lab.routes import routes

__all__ = ["PARTS", "ROOT"]

ROOT = Path(__file__).parents[2]

ENGINES = {
    "SQLite file": "sqlite:///jobs.db",
    "SQLite file, `synchronous=normal`": "sqlite:///jobs.db?synchronous=normal",
    "SQLite in memory": "sqlite://:memory:",
    "PostgreSQL": "postgresql://localhost/jobs",
}


def state_machine() -> str:
    """The diagram of states and verbs."""
    return f"```mermaid\n{mermaid()}\n```"


def promises() -> str:
    """One row per trait, one column per engine."""
    traits = {title: open_engine(url).traits for title, url in ENGINES.items()}
    texts = remarks(Traits)
    rows = [
        [
            texts[name].rstrip("."),
            *("yes" if getattr(one, name) else "no" for one in traits.values()),
        ]
        for name in Traits.__struct_fields__
    ]
    return table(["promise", *traits], rows)


def error_tree() -> str:
    """The drawing at the top of errors.py, and what each class means."""
    drawing = (errors.__doc__ or "").partition("\n\n")[2].strip()
    kinds = [getattr(errors, name) for name in errors.__all__]
    rows = [
        [f"`{kind.__name__}`", f"`{kind.code}`", str(int(_exit(kind))), _first(kind)]
        for kind in sorted(kinds, key=lambda kind: (len(kind.__mro__), kind.__name__))
    ]
    meanings = table(["error", "code", "exit code", "meaning"], rows)
    return f"```text\n{drawing}\n```\n\n{meanings}"


def events() -> str:
    """Every event's name and when it is written."""
    texts = remarks(Name)
    rows = [[f"`{one.value}`", texts.get(one.name, "")] for one in Name]
    return table(["event", "written when"], rows)


def setting_tables() -> str:
    """Every setting, by section."""
    sections: dict[str, list[list[str]]] = {}
    for one in settings.describe():
        section = one.key.rpartition(".")[0]
        default = f"`{one.default}`" if one.default else "none"
        row = [f"`{one.key}`", f"`{one.variable}`", default, line(one.text)]
        sections.setdefault(section, []).append(row)
    head = ["setting", "variable", "default", "what it does"]
    parts = [
        f"## {section or 'top level'}\n\n{table(head, rows)}"
        for section, rows in sections.items()
    ]
    return "\n\n".join(parts)


def commands() -> str:
    """The help of every command, and the exit codes."""
    parts = [
        f"### `{path}`\n\n```text\n{text}\n```"
        for path, text in _helps(command_line, "longshore")
    ]
    return "\n\n".join(parts)


def exit_codes() -> str:
    """What the command line says by its exit code."""
    rows = [[str(int(code)), meaning] for code, meaning in exit_status.MEANINGS.items()]
    return table(["code", "meaning"], rows)


def builtin_tasks() -> str:
    """The built-in tasks and the fields of their payloads."""
    return "\n\n".join(
        f"### `{name}`\n\n{inspect.getdoc(one.function)}\n\n{_parameters(one.function)}"
        for name, one in BUILTIN.items()
    )


def problems() -> str:
    """What the HTTP service answers instead of what was asked for."""
    rows = [
        [f"`{one.code}`", str(one.status), f"{one.title}. {one.detail}"]
        for one in sorted(CATALOGUE.values(), key=lambda one: (one.status, one.code))
    ]
    return table(["code", "status", "meaning"], rows)


def metrics() -> str:
    """Every metric, with its labels."""
    counted = [
        (one.name, one.kind, one.labels, one.words) for one in Metrics().families.values()
    ]
    ratio = ("worker_utilization_ratio", "gauge", (), "The share of slots that are busy.")
    up = ("engine_up", "gauge", (), "Whether the engine could be asked.")
    read = [
        (one.name, one.kind, one.labels, one.words) for one in gauges(View(0, 0, (), (), ()))
    ]
    rows = [
        [f"`{PREFIX}{name}`", kind, ", ".join(f"`{one}`" for one in labels), words]
        for name, kind, labels, words in [*counted, ratio, up, *read]
    ]
    return table(["metric", "kind", "labels", "what it says"], rows)


def decisions() -> str:
    """A link to every decision, by its title."""
    folder = ROOT / "docs" / "decisions"
    return "\n".join(
        f"- [{page.read_text().splitlines()[0].removeprefix('# ')}](decisions/{page.name})"
        for page in sorted(folder.glob("*.md"))
    )


PARTS: Mapping[str, Callable[[], str]] = {
    "state-machine": state_machine,
    "promises": promises,
    "errors": error_tree,
    "events": events,
    "settings": setting_tables,
    "commands": commands,
    "decisions": decisions,
    "exit-codes": exit_codes,
    "problems": problems,
    "metrics": metrics,
    "python": python,
    "routes": routes,
    "builtin-tasks": builtin_tasks,
    **page.PARTS,
    "pledges": pledges.promised,
}


def _exit(kind: type[errors.LongshoreError]) -> exit_status.Exit:
    # The code depends on the class alone; not every error can be made without arguments.
    return exit_status.exit_code(kind.__new__(kind))


def _helps(
    command: click.Command, path: str, parent: click.Context | None = None
) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command,
        info_name=path.split()[-1],
        parent=parent,
        terminal_width=96,
        help_option_names=["-h", "--help"],
    )
    text = command.get_help(context)
    # What every command takes is said once, at the top.
    yield path, text.partition("\n\nOptions everywhere:")[0]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from _helps(child, f"{path} {name}", context)


def _parameters(function: Callable[..., Any]) -> str:
    rows = [
        [
            f"`{one.name}`",
            f"`{inspect.formatannotation(one.annotation).replace('typing.', '')}`",
            "required" if one.default is one.empty else f"`{one.default!r}`",
        ]
        for one in inspect.signature(function).parameters.values()
    ]
    return table(["field", "type", "default"], rows)


def _first(thing: Any) -> str:
    return line((inspect.getdoc(thing) or "").partition("\n\n")[0])
