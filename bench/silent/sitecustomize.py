"""Processes that find this first on their path tell nothing of what happens: no event is made.

Only `bench/outbox_cost.py` puts it there, to learn what events cost.
"""

from typing import Any

from longshore.core import event
from longshore.engines.postgres import segments, settlement_changes


def _nothing(*_: Any) -> None:
    return None


event.encode = segments.encode = _nothing
for _name in ("tell", "tell_all", "_body"):
    setattr(settlement_changes.Changes, _name, _nothing)
