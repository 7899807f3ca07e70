"""Keeps an API key from being sent over plain HTTP to a public address.

Over `http://` the key can be read by everyone on the way. On this machine nobody is in between;
in a private network that may be meant, and is warned of once; to a public address it is only
sent if somebody said so.
"""

import asyncio
import logging
import socket
from collections.abc import Iterable
from enum import IntEnum
from ipaddress import IPv6Address, ip_address
from time import monotonic

import httpx

from longshore.errors import ConfigError

__all__ = ["PlainHttpGuard", "Reach", "reach_of"]

log = logging.getLogger("longshore.client")

_LOOKED_UP_S = 60.0
"""How long what a name stands for is believed."""
_warned: set[str] = set()


class Reach(IntEnum):
    """How far away an address is."""

    LOOPBACK = 0
    PRIVATE = 1
    PUBLIC = 2


def reach_of(address: str) -> Reach:
    """How far away an IP address is; ValueError if it is none."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if found.is_loopback:
        return Reach.LOOPBACK
    return Reach.PUBLIC if found.is_global else Reach.PRIVATE


class PlainHttpGuard:
    """Looks at every request of an httpx client before it is sent, as an event hook of it."""

    def __init__(self, url: str, *, has_key: bool, is_allowed: bool) -> None:
        parts = httpx.URL(url)
        self._host, self._port = parts.host, parts.port or 80
        self._is_needed = parts.scheme == "http" and has_key and not is_allowed
        self._until = 0.0

    async def check(self, request: httpx.Request) -> None:
        """ConfigError where the key would go to a public address in the clear."""
        if self._is_needed and monotonic() >= self._until:
            reach = _known(self._host)
            if reach is None:
                loop = asyncio.get_running_loop()
                try:
                    found = await loop.getaddrinfo(self._host, self._port)
                except OSError as error:
                    raise httpx.ConnectError(str(error), request=request) from error
                reach = _farthest(str(one[4][0]) for one in found)
            self._decide(reach)

    def check_blocking(self, request: httpx.Request) -> None:
        """The same for code that does not await."""
        if self._is_needed and monotonic() >= self._until:
            reach = _known(self._host)
            if reach is None:
                try:
                    found = socket.getaddrinfo(self._host, self._port)
                except OSError as error:
                    raise httpx.ConnectError(str(error), request=request) from error
                reach = _farthest(str(one[4][0]) for one in found)
            self._decide(reach)

    def _decide(self, reach: Reach) -> None:
        if reach is Reach.PUBLIC:
            raise ConfigError(
                f"the API key would go to {self._host} over plain http, for everyone on the way"
                " to read: use https, or allow it with LONGSHORE_PLAIN_HTTP=true"
                " (`plain_http=True` of a client)"
            )
        if reach is Reach.PRIVATE and self._host not in _warned:
            _warned.add(self._host)
            log.warning("api key sent over plain http", extra={"host": self._host})
        self._until = monotonic() + _LOOKED_UP_S


def _known(host: str) -> Reach | None:
    """How far away a host is, if its name alone says so."""
    if host == "localhost":
        return Reach.LOOPBACK
    try:
        return reach_of(host)
    except ValueError:
        return None


def _farthest(addresses: Iterable[str]) -> Reach:
    return max(map(reach_of, addresses))
