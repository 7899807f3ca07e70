"""The examples of the guide on transactions run on a real server."""

import ast
import asyncio
from typing import Any

import asyncpg
from markdown import ROOT, blocks

from longshore import Longshore
from longshore.core.state import State

PAGE = ROOT / "docs" / "guides" / "transactions.md"
URL = "postgresql://localhost/shop"


async def test_the_guide_on_transactions_is_true(empty_postgres_url: str) -> None:
    db = await asyncpg.connect(empty_postgres_url)
    await db.execute("drop table if exists public.shipments, public.orders")
    for block in blocks(PAGE, "sql"):
        await db.execute(block.code)
    scope: dict[str, Any] = {"__name__": "example"}
    examples = [one for one in blocks(PAGE, "python") if "postgres" in one.words]

    for block in examples:
        code = block.code.replace(URL, empty_postgres_url)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        compiled = compile(code, f"{PAGE.name}:{block.line}", "exec", flags=flags)
        if (waiting := eval(compiled, scope)) is not None:
            await waiting
    app: Longshore = scope["app"]
    await asyncio.to_thread(_take_order, app, scope["take_order"])
    async with app:
        handle = await scope["book_shipment"].submit(1)
        await app.work(until_idle=True)
        job = await handle.get()
        shipped = [one.succeeded for one in await app.engine.counts()]

    assert len(examples) == 5
    assert await db.fetch("select id, is_shipped from orders order by id") == [
        (1, True),
        (2, False),
        (3, False),
    ]
    assert (job.state, shipped) == (State.SUCCEEDED, [4])
    await scope["connection"].close()
    await scope["database"].dispose()
    await db.close()


def _take_order(app: Longshore, take_order: Any) -> None:
    app.sync.open()
    try:
        take_order(2)
    finally:
        app.sync.close()
