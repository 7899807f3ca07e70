"""Caps of a tenant: how many queues, schedules, webhooks and keys it may have, over HTTP.

They are settings of the tenant (`core.account.Tenant`), asked for where such a thing is made.
An operator's key has none. Two requests at the same moment may each make the last one.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic

from longshore.api.problems import invalid
from longshore.api.slices import in_slices
from longshore.contract import Engine
from longshore.core.account import Tenant
from longshore.core.job import NewJob
from longshore.core.schedule import Schedule, firing_rate
from longshore.core.submission import RESERVED_PREFIX
from longshore.errors import CapReachedError
from longshore.records import api_keys, schedules, tenants, webhooks

__all__ = ["QueueNames", "check_job", "check_key", "check_schedule", "check_webhook"]

_MOST_TENANTS = 10_000
_SCHEDULES_MIB = 16
"""Of payloads of a tenant's schedules, all together: they are read whole to be listed."""
_AGE = 1.0
"""Seconds that the names of a tenant's queues are good for, to refuse another."""
_REST = 10
"""How many times as long as it took to ask for them: a million jobs take a while."""


def check_job(account: Tenant | None, job: NewJob) -> None:
    """Return if the tenant may submit a job into this queue and with so many tags."""
    check_queue_name(account, job.queue)
    if account is not None and len(job.tags) > account.max_tags:
        raise CapReachedError("max_tags", account.max_tags, "tags on a job")


def check_queue_name(account: Tenant | None, queue: str) -> None:
    """Return unless the queue is one that Longshore itself uses and a tenant asks for it."""
    if account is not None and queue.startswith(RESERVED_PREFIX):
        raise invalid("/queue", f"begins with {RESERVED_PREFIX}, as only Longshore's own do")


async def check_schedule(engine: Engine, account: Tenant | None, wanted: Schedule) -> None:
    """Return if the tenant may have this schedule beside its others, else CapReachedError."""
    if account is None:
        return
    check_queue_name(account, wanted.queue)
    known = await schedules.every(engine, tenant=account.name)
    others = [one for one in known if one.name != wanted.name]
    if len(others) == len(known) and len(others) >= account.max_schedules:
        raise CapReachedError("max_schedules", account.max_schedules, "schedules")
    taken = sum(len(one.payload) for one in others)
    before = max((len(one.payload) for one in known if one.name == wanted.name), default=0)
    is_larger = len(wanted.payload) > before
    if is_larger and taken + len(wanted.payload) > _SCHEDULES_MIB << 20:
        words = f"would have more than {_SCHEDULES_MIB} MiB with those of the other schedules"
        raise invalid("/payload", words)
    most = account.most_fired
    if most is None or wanted.is_paused:
        return
    now = await engine.now()
    live = [wanted, *(one for one in others if not one.is_paused)]
    # A thousand cron expressions take seconds, and others are served meanwhile.
    rate = 0.0
    async for one in in_slices(live):
        rate += firing_rate(one, now)
    if rate > most:
        raise CapReachedError("max_schedule_rate", most, "jobs a second from its schedules")


async def check_webhook(engine: Engine, account: Tenant | None) -> None:
    """Return if the tenant may have one more webhook, else CapReachedError."""
    if account is None:
        return
    if len(await webhooks.every(engine, tenant=account.name)) >= account.max_webhooks:
        raise CapReachedError("max_webhooks", account.max_webhooks, "webhooks")


async def check_key(engine: Engine, tenant: str | None) -> None:
    """Return if the tenant may have one more key that is good, else CapReachedError."""
    if tenant is None:
        return
    most, now = (await tenants.get(engine, tenant)).max_keys, await engine.now()
    if sum(one.is_live(now) for one in await api_keys.every(engine, tenant=tenant)) >= most:
        raise CapReachedError("max_keys", most, "keys that are good")


@dataclass(slots=True)
class _Known:
    names: set[str]
    until: float


class QueueNames:
    """The queues in which tenants have jobs or schedules, as far as this process knows."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = monotonic) -> None:
        self._engine = engine
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def check(self, account: Tenant | None, queue: str) -> None:
        """Return if the tenant may have jobs in the queue, else CapReachedError."""
        if account is not None and await self.refused(account, (queue,)):
            raise queues_reached(account)

    async def refused(self, account: Tenant | None, queues: Iterable[str]) -> set[str]:
        """Those of the queues that are more than the tenant may have."""
        if account is None:
            return set()
        known = self._known.get(account.name)
        new = [name for name in queues if known is None or name not in known.names]
        if not new:
            return set()
        if known is None or self._clock() >= known.until:
            known = await self._ask(account.name)
        refused: set[str] = set()
        for name in new:
            if name not in known.names and len(known.names) >= account.max_queues:
                refused.add(name)
            else:
                known.names.add(name)
        return refused

    async def _ask(self, tenant: str) -> _Known:
        began = self._clock()
        counts = await self._engine.counts(tenant=tenant)
        names = {one.queue for one in counts if one.has_jobs}
        # Those of schedules will have jobs.
        names |= {one.queue for one in await schedules.every(self._engine, tenant=tenant)}
        now = self._clock()
        known = _Known(names, now + max(_AGE, _REST * (now - began)))
        self._known[tenant] = known
        if len(self._known) > _MOST_TENANTS:
            self._known.popitem(last=False)
        return known


def queues_reached(account: Tenant) -> CapReachedError:
    """What is said of a queue that is one too many."""
    return CapReachedError("max_queues", account.max_queues, "queues with jobs in them")
