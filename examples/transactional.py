"""Store an order and its job in one transaction: both exist, or neither.

Plain functions throughout: `app.sync` is all that a program without `async` needs.
"""

import asyncio
import sqlite3

from longshore import Longshore

app = Longshore("sqlite:///shop.db")


@app.task
def ship(order_id: int) -> str:
    return f"order {order_id} is on its way"


def place_order(shop: sqlite3.Connection, item: str, *, stock: int) -> None:
    with shop:
        order_id = shop.execute("insert into orders (item) values (?)", (item,)).lastrowid
        app.sync.submit(ship.using(connection=shop).spec(order_id or 0))
        if stock == 0:
            raise LookupError(f"{item} is sold out")


app.sync.open()
shop = sqlite3.connect("shop.db")
shop.execute("create table if not exists orders (id integer primary key, item text)")

place_order(shop, "lamp", stock=3)
try:
    place_order(shop, "chair", stock=0)
except LookupError as error:
    print(f"{error}: no order, and no job")

(counts,) = app.sync.run(lambda: app.engine.counts())
print(
    f"{counts.ready} job for {shop.execute('select count(*) from orders').fetchone()[0]} order"
)
assert counts.ready == 1
shop.close()

# In production a worker is a process of its own; here the program runs the job itself.
app.sync.close()
asyncio.run(app.work(until_idle=True))
