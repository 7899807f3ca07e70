"""`longshore keys`: what HTTP clients prove themselves with."""

from datetime import timedelta

import click

from longshore import tenancy
from longshore.cli import accounts, render, wiring
from longshore.cli.parameters import duration
from longshore.cli.shared import Group, Shared
from longshore.core import account
from longshore.core.account import DEFAULT_TENANT, ApiKey, Grant, Scope
from longshore.core.quantity import microseconds
from longshore.engine import Engine
from longshore.runtime.keys import MintedKey

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

    async def store(engine: Engine) -> None:
        minted, key = await tenancy.make_key(
            engine,
            tenant=None if is_operators else tenant or DEFAULT_TENANT,
            grant=grant,
            label=label,
            lifetime=None if expires is None else microseconds(expires),
        )
        await _tell(shared, engine, minted, key)

    wiring.ask(shared, store, creates=True)


@command.command("list")
@click.option("--tenant", help="Only of this tenant.")
@click.pass_obj
def list_keys(shared: Shared, tenant: str | None) -> None:
    """Every key, whose it is, what it may be used for and when it was."""

    async def look(engine: Engine) -> None:
        found, now = await engine.keys(tenant=tenant), await engine.now()
        if shared.as_json:
            render.lines(accounts.key_document(one, now) for one in found)
        else:
            render.table(accounts.key_table(found, now))

    wiring.ask(shared, look)


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

    async def store(engine: Engine) -> None:
        minted, key = await tenancy.rotate_key(engine, key_id, grace=microseconds(grace))
        await _tell(shared, engine, minted, key)

    wiring.ask(shared, store)


@command.command()
@key_argument
@click.pass_obj
def revoke(shared: Shared, key_id: str) -> None:
    """End a key for good. API processes refuse it within seconds."""

    async def store(engine: Engine) -> None:
        key = await engine.revoke_key(key_id)
        if shared.as_json:
            render.document(accounts.key_document(key, await engine.now()))
        else:
            click.echo(f"revoked {key.id}")

    wiring.ask(shared, store)


async def _tell(shared: Shared, engine: Engine, minted: MintedKey, key: ApiKey) -> None:
    """The secret goes to standard output alone, so that it can be piped to where it belongs."""
    if shared.as_json:
        known = accounts.key_document(key, await engine.now())
        render.document({"key": minted.text, **known})
        return
    click.echo(minted.text)
    whose = "every tenant" if key.tenant is None else f"tenant {key.tenant}"
    use = accounts.grant_words(key)
    render.note(f"key {key.id} of {whose}, for {use}; it is not shown again")
