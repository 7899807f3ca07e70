"""Quotas: what a tenant may submit, how often an address may guess a key, and turns.

A tenant's bucket is in the engine, where all processes share it. A process borrows tokens a
tenth of a second ahead and spends them by itself, so a request rarely waits for the bucket,
and all processes together never exceed it.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from random import Random

from longshore.api.problems import ProblemError, RawHeaders, problem, too_many
from longshore.contract import Counters
from longshore.core.account import Tenant
from longshore.core.token_bucket import Borrowed, Limit
from longshore.runtime.clock import Clock

__all__ = ["Guesses", "Quotas", "Turns"]

_AHEAD_S = 0.1
_MOST_PURSES = 10_000
_MOST_ADDRESSES = 10_000
_GUESSES = 10
_GUESS_US = 6_000_000
"""A wrong key costs one of ten guesses; each comes back after six seconds."""


@dataclass(slots=True)
class _Purse:
    """Tokens that this process has borrowed and not spent."""

    limit: Limit
    tokens: int = 0
    left: int = 0
    """What the bucket had left when it was last asked."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Quotas:
    """What tenants may submit, as far as this process sees it."""

    def __init__(self, engine: Counters, rng: Random | None = None) -> None:
        self._engine = engine
        self._rng = rng or Random()
        self._purses: OrderedDict[str, _Purse] = OrderedDict()

    async def spend(self, tenant: Tenant | None, jobs: int) -> RawHeaders:
        """Pay for the jobs, and tell what is left; or 429."""
        limit = tenant.limit if tenant is not None else None
        if tenant is None or limit is None:
            return ()
        if jobs > limit.burst:
            reason = "which is all that the tenant's quota ever holds (its burst)"
            raise too_many(jobs, limit.burst, reason)
        purse = self._purse(tenant.name, limit)
        borrowed: Borrowed | None = None
        # Others spend of the purse meanwhile: what the bucket still has is asked for again.
        while purse.tokens < jobs and (borrowed is None or borrowed.granted):
            async with purse.lock:
                borrowed = await self._borrow(tenant.name, purse, jobs)
        if purse.tokens < jobs:
            raise self._refused(purse, jobs, borrowed.retry_after if borrowed else 0)
        purse.tokens -= jobs
        return _told(purse, 0)

    def _purse(self, name: str, limit: Limit) -> _Purse:
        purse = self._purses.get(name)
        if purse is None or purse.limit != limit:
            purse = self._purses[name] = _Purse(limit)
            if len(self._purses) > _MOST_PURSES:
                self._purses.popitem(last=False)
        return purse

    async def _borrow(self, name: str, purse: _Purse, jobs: int) -> Borrowed:
        """Fill the purse, if nobody has meanwhile."""
        lacking = jobs - purse.tokens
        if lacking <= 0:
            return Borrowed(0)
        limit = purse.limit
        ahead = min(int(limit.rate * _AHEAD_S), limit.burst // 4)
        borrowed = await self._engine.borrow(
            f"submit:{name}", rate=limit.rate, burst=limit.burst, want=lacking + ahead
        )
        purse.tokens += borrowed.granted
        purse.left = borrowed.left
        return borrowed

    def _refused(self, purse: _Purse, jobs: int, wait: int) -> ProblemError:
        lacking = max(jobs - purse.tokens - 1, 0) / purse.limit.rate
        seconds = math.ceil(wait / 1e6 + lacking)
        # Whoever was refused at the same moment should not come back at the same moment.
        seconds = max(seconds + self._rng.randint(0, 1 + seconds // 4), 1)
        headers = (*_told(purse, seconds), (b"retry-after", b"%d" % seconds))
        return ProblemError(problem("quota_exceeded", policies=["tenant"]), headers)


class Turns:
    """Lets a few requests do at once what takes much memory, and fewer of one owner.

    The others wait, first come, first served.
    """

    def __init__(self, *, most: int, most_each: int) -> None:
        self._all = asyncio.Semaphore(most)
        self._most_each = most_each
        self._own: dict[str, tuple[asyncio.Semaphore, set[object]]] = {}
        """By owner, its turns, and the requests that have or want one."""

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncGenerator[None]:
        """Wait for a turn, and have it until the block ends."""
        fresh = asyncio.Semaphore(self._most_each), set[object]()
        own, asking = self._own.setdefault(owner, fresh)
        asking.add(me := object())
        try:
            # Its own first: whoever waits for that keeps nobody else from a turn.
            async with own, self._all:
                yield
        finally:
            asking.discard(me)
            if not asking:
                del self._own[owner]


class Guesses:
    """Wrong keys, by the address they came from."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent_until: OrderedDict[str, int] = OrderedDict()
        """By address, when it will have all its guesses again."""

    def is_spent(self, address: str) -> bool:
        """Whether the address has no guess left."""
        return self._wait(address) > 0

    def refuse_spent(self, address: str) -> None:
        """429 when the address has no guess left."""
        wait = self._wait(address)
        if wait > 0:
            seconds = math.ceil(wait / 1e6)
            found = problem("quota_exceeded", policies=["wrong-keys"])
            raise ProblemError(found, ((b"retry-after", b"%d" % seconds),))

    def _wait(self, address: str) -> int:
        """Microseconds until the address has a guess again; zero or less when it has one."""
        until = self._spent_until.get(_network(address), 0)
        return until - self._clock.now() - (_GUESSES - 1) * _GUESS_US

    def note_wrong(self, address: str) -> None:
        """The address has guessed, and wrongly."""
        now, network = self._clock.now(), _network(address)
        self._spent_until[network] = max(self._spent_until.get(network, 0), now) + _GUESS_US
        self._spent_until.move_to_end(network)
        if len(self._spent_until) > _MOST_ADDRESSES:
            self._spent_until.popitem(last=False)


def _told(purse: _Purse, wait: int) -> RawHeaders:
    limit = purse.limit
    window = max(math.ceil(limit.burst / limit.rate), 1)
    left = max(purse.tokens + purse.left, 0)
    until = wait or max(math.ceil(1 / limit.rate), 1)
    return (
        (b"ratelimit-policy", b'"tenant";q=%d;w=%d' % (limit.burst, window)),
        (b"ratelimit", b'"tenant";r=%d;t=%d' % (left, until)),
    )


def _network(address: str) -> str:
    """An IPv6 host has a whole network of addresses to guess from."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(IPv6Address(int(found) >> 64 << 64))
    return address
