"""`longshore audit`: who did what, and whether the log of it is whole."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from longshore import audit_query
from longshore.cli import render, tables, wiring
from longshore.cli.exit_status import Exit
from longshore.cli.global_options import Group, Shared
from longshore.cli.parameters import duration, time
from longshore.cli.render import Document, Table
from longshore.core.audit import Entry, Fault, Kind, Mark, Standing, Verifier, read_mark
from longshore.core.units import microseconds
from longshore.errors import ConfigError
from longshore.operations.audit import AuditItem, AuditWhich, audit_head
from longshore.operations.backend import Backend
from longshore.operations.fields import MOST_LISTED

_line = msgspec.json.Decoder(Entry)
_standing = msgspec.json.Decoder(Standing)
_encode = msgspec.json.Encoder().encode


@click.group("audit", cls=Group)
def command() -> None:
    """Show who did what, and verify and export the log of it.

    What somebody orders is always in it; with `audit.transitions`, every transition of every
    job is, too.
    """


@command.command("list")
@click.option("--actor", help="Only by this one, such as `key 4fK2...`.")
@click.option("--action", help="Only such as `queue.pause`, or `key.*`.")
@click.option("--subject", help="Only what was done to this queue, key, job...")
@click.option("--tenant", help="Only of this tenant.")
@click.option("--since", type=time, help="Not before this time, 2030-01-31T09:00:00Z.")
@click.option("--until", type=time, help="Before this time.")
@click.option("--transitions", is_flag=True, help="What happened to jobs, too.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
@click.pass_obj
def list_items(
    shared: Shared,
    since: datetime | None,
    until: datetime | None,
    transitions: bool,
    limit: int,
    **wanted: str | None,
) -> None:
    """Who did what, newest first."""
    asked = {**wanted, "since": since, "until": until}
    which: Any = {name: value for name, value in asked.items() if value is not None}
    if not transitions:
        which["kind"] = Kind.ACTION

    async def look(backend: Backend) -> None:
        found, is_all = await _found(backend, which, limit)
        if shared.as_json:
            render.lines(found)
        else:
            render.table(_table(found, await backend.now()))
        if not is_all:
            render.note(f"only the newest {limit}; --limit shows more")

    wiring.run(shared, look)


@command.command()
@click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="HEAD",
    help="A head that was noted earlier, as `audit head` prints it; may be given again.",
)
@click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What `audit export` wrote, instead of the store.",
)
@click.option(
    "--keep",
    type=duration,
    help="How long entries are kept; of a store, what `audit.keep` says.",
)
@click.pass_obj
def verify(
    shared: Shared, heads: tuple[str, ...], file: Path | None, keep: timedelta | None
) -> None:
    """Tell whether anything in the log was changed, removed, inserted or moved, and where.

    The log cannot tell by itself that somebody wrote all of it anew: against that, keep heads
    elsewhere, and name them here. A head that is older than what is left of the log cannot be
    compared: exit code 9.
    """
    known = [read_mark(one) for one in heads]
    if file is not None:
        _tell(shared, *_verify_file(file, known, None if keep is None else microseconds(keep)))
        return
    kept = microseconds(wiring.settings(shared).audit.keep if keep is None else keep)

    async def look(backend: Backend) -> tuple[Verifier, Fault | None]:
        return await audit_query.verify(backend, known=known, keep=kept)

    _tell(shared, *wiring.run(shared, look))


@command.command()
@click.pass_obj
def head(shared: Shared) -> None:
    """Print how far the log goes and its hash, to be kept where nobody can change it."""
    told = audit_head(wiring.run(shared, lambda backend: backend.audit_standing()))
    if shared.as_json:
        render.document(told)
    else:
        click.echo(told.head)


@command.command()
@click.pass_obj
def export(shared: Shared) -> None:
    """Print the whole log, oldest first, as lines that `audit verify --file` reads.

    The first line says where it begins and ends; each of the others is an entry as it is
    stored, its body in base64.
    """

    async def write(backend: Backend) -> None:
        standing = await backend.audit_standing()
        click.echo(_encode(standing))
        async for page in audit_query.entries(backend, standing):
            for entry in page:
                click.echo(_encode(entry))

    wiring.run(shared, write)


async def _found(
    backend: Backend, which: AuditWhich, limit: int
) -> tuple[list[AuditItem], bool]:
    """The newest rows, and whether these are all."""
    found: list[AuditItem] = []
    cursor: str | None = None
    while len(found) < limit:
        want = min(limit - len(found), MOST_LISTED)
        page = await backend.audit(limit=want, cursor=cursor, **which)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            return found, True
    return found, False


def _verify_file(
    file: Path, known: Iterable[Mark], keep: int | None
) -> tuple[Verifier, Fault | None]:
    with file.open("rb") as lines:
        try:
            verifier = Verifier(_standing.decode(next(lines)), known, keep=keep)
            return verifier, verifier.read(_read(lines)) or verifier.end()
        except (msgspec.MsgspecError, UnicodeDecodeError, StopIteration) as error:
            raise ConfigError(f"{file} is not what `audit export` wrote: {error}") from None


def _read(lines: Iterable[bytes]) -> Iterator[Entry]:
    return (_line.decode(line) for line in lines)


def _tell(shared: Shared, verifier: Verifier, fault: Fault | None) -> None:
    older = [] if fault else verifier.not_compared
    if shared.as_json:
        render.document(_verdict(verifier, fault, older))
    else:
        _say(verifier, fault, older)
    if fault is not None or older:
        code = Exit.PROBLEM if fault else Exit.NOT_COMPARED
        click.get_current_context().exit(code)


def _verdict(verifier: Verifier, fault: Fault | None, older: list[Mark]) -> Document:
    told: Document = {
        "is_whole": fault is None and not older,
        "entries": verifier.count,
        "verified_to": verifier.last.text,
    }
    if fault is not None:
        told |= {"entry": fault.number, "problem": fault.words}
    if older:
        told |= {"not_compared": [one.text for one in older]}
    return told


def _say(verifier: Verifier, fault: Fault | None, older: list[Mark]) -> None:
    if fault is not None:
        click.echo(f"entry {fault.number}: {fault.words}")
        click.echo(f"the {verifier.count} entries before are whole")
    elif older:
        for one in older:
            click.echo(f"head {one.text}: cannot be compared, the log begins later")
        click.echo(f"nothing is wrong with the {verifier.count} entries that are left")
    else:
        click.echo(f"{verifier.count} entries are whole, up to {verifier.last.text}")


def _table(found: list[AuditItem], now: datetime) -> Table:
    return Table(
        columns=("when", "who", "did", "to", "tenant"),
        rows=[
            (tables.ago(it.at, now), it.actor or "-", it.action, it.subject, it.tenant or "-")
            for it in found
        ],
        empty="nothing matches",
    )
