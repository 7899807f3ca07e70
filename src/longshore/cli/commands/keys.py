"""`longshore keys`: what HTTP clients prove themselves with."""

from datetime import timedelta

import click

from longshore.cli import accounts, render, wiring
from longshore.cli.global_options import Group, Shared
from longshore.cli.parameters import duration
from longshore.core import account
from longshore.core.account import DEFAULT_TENANT, Grant, Scope
from longshore.operations.backend import Backend
from longshore.operations.keys import MintedView

_DAY = "1d"


def _read_id(_: click.Context, __: click.Parameter, value: str) -> str:
    """The id, also from the text of a whole key, which is what someone has who found one."""
    credential = account.parse(value)
    return value if credential is None else credential.id


key_argument = click.argument("key_id", metavar="ID", callback=_read_id)


@click.group("keys", cls=Group)
def command() -> None:
    """Create, list, rotate and revoke API keys."""


@command.command()
@click.option("--tenant", help=f"Whose key it is.  [default: {DEFAULT_TENANT}]")
@click.option("--all-tenants", is_flag=True, help="An operator's key, for every tenant.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    help="What it may be used for; may be given again.  [default: submit, read]",
)
@click.option("--queue", "queues", multiple=True, help="With work: claim from this one only.")
@click.option(
    "--type", "types", multiple=True, help="With work: claim such jobs only, as in 'email.*'."
)
@click.option("--label", default="", help="For people, to know it by.")
@click.option("--expires", type=duration, help="It ends after so long, such as 90d.")
@click.pass_obj
def create(
    shared: Shared,
    tenant: str | None,
    all_tenants: bool,
    label: str,
    expires: timedelta | None,
    **asked: tuple[str, ...],
) -> None:
    """Make a key and print it.

    It is shown this once: only a digest of it is stored.
    """
    if all_tenants and tenant is not None:
        raise click.UsageError("a key is for one --tenant or for --all-tenants")
    scopes = tuple(map(Scope, asked["scopes"])) or (Scope.SUBMIT, Scope.READ)
    grant = Grant(scopes, asked["queues"], asked["types"])
    # Whoever works is given jobs of every tenant: there is nothing to choose.
    is_operators = all_tenants or (tenant is None and set(scopes) == {Scope.WORK})

    async def store(backend: Backend) -> MintedView:
        return await backend.create_key(
            grant,
            tenant=None if is_operators else tenant or DEFAULT_TENANT,
            label=label,
            lifetime=expires,
        )

    _tell(shared, wiring.run(shared, store, creates=True))


@command.command("list")
@click.option("--tenant", help="Only of this tenant.")
@click.pass_obj
def list_keys(shared: Shared, tenant: str | None) -> None:
    """Every key, whose it is, what it may be used for and when it was."""

    async def look(backend: Backend) -> None:
        found = await backend.keys(tenant=tenant)
        if shared.as_json:
            render.lines(found)
        else:
            render.table(accounts.key_table(found, await backend.now()))

    wiring.run(shared, look)


@command.command()
@key_argument
@click.option(
    "--grace",
    type=duration,
    default=_DAY,
    show_default=True,
    help="How long the secret before stays good; 0 ends it now.",
)
@click.pass_obj
def rotate(shared: Shared, key_id: str, grace: timedelta) -> None:
    """Give a key a new secret and print it.

    The secret before the last is refused at once, whatever grace it had left.
    """
    _tell(shared, wiring.run(shared, lambda backend: backend.rotate_key(key_id, grace=grace)))


@command.command()
@key_argument
@click.pass_obj
def revoke(shared: Shared, key_id: str) -> None:
    """End a key for good. API processes refuse it within seconds."""
    key = wiring.run(shared, lambda backend: backend.revoke_key(key_id))
    if shared.as_json:
        render.document(key)
    else:
        click.echo(f"revoked {key.id}")


def _tell(shared: Shared, made: MintedView) -> None:
    """The secret goes to standard output alone, so that it can be piped to where it belongs."""
    if shared.as_json:
        render.document(made)
        return
    click.echo(made.key)
    key = made.about
    whose = "every tenant" if key.tenant is None else f"tenant {key.tenant}"
    use = accounts.grant_words(key)
    render.note(f"key {key.id} of {whose}, for {use}; it is not shown again")
