"""Which addresses a job may make this worker talk to.

A payload is written by someone else, so a URL in it may point inward: at the machine itself,
the network behind it, or a cloud's metadata service. Only addresses that are reachable from
the whole internet pass, judged by where a packet ends up and not by how the address is written.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from longshore.errors import ConfigError

__all__ = [
    "BlockedTargetError",
    "Guard",
    "Resolver",
    "is_public",
    "lookup",
    "lookup_briefly",
    "reached",
]

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Every address of a host name, best first. Raises OSError when there is none."""

_BRIEFLY = 2.0
"""Seconds that a request waits for a name server."""
_MOST_LOOKUPS = 8
_lookups = threading.BoundedSemaphore(_MOST_LOOKUPS)

_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")

# Python's own table grows with its releases; what must never pass does not depend on them.
_NEVER = (
    IPv4Network("0.0.0.0/8"),
    IPv4Network("100.64.0.0/10"),
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv4Network("198.18.0.0/15"),
    IPv4Network("224.0.0.0/3"),
    # Looks public, but is the host's own service address inside Azure.
    IPv4Network("168.63.129.16/32"),
    # Teredo, among others: IPv4 addresses wrapped in a way that cannot be checked.
    IPv6Network("2001::/23"),
    IPv6Network("2001:db8::/32"),
    IPv6Network("3fff::/20"),
)

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
# What resolvers read as an IPv4 address: 0177.1, 0x7f000001, 2130706433.
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")


class BlockedTargetError(Exception):
    """The host is not one that a job may call. No retry changes that."""


def reached(address: Address) -> Address:
    """Where packets for the address end up: IPv4 carried inside IPv6 is taken out."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


def is_public(address: Address) -> bool:
    """Whether the whole internet can reach it, and reaches one machine by it."""
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return (
        address.is_global
        and not address.is_multicast
        and not any(address in network for network in _NEVER)
    )


async def lookup(host: str, port: int) -> list[str]:
    """The addresses that the machine's own resolver gives, in its order."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def lookup_briefly(host: str, port: int) -> list[str]:
    """As `lookup`, but an OSError when the name server takes longer than two seconds.

    A lookup that hangs holds no thread that others wait for, and no process that ends: it has
    a thread of its own, and there are few of these at once.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()
    if not _lookups.acquire(blocking=False):
        raise OSError("too many names are being looked up")

    def tell(answer: list[str] | OSError) -> None:
        if found.done():
            return
        if isinstance(answer, OSError):
            found.set_exception(answer)
        else:
            found.set_result(answer)

    def resolve() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answer: list[str] | OSError = [str(row[4][0]) for row in rows]
        except OSError as exc:
            answer = exc
        except UnicodeError:
            answer = OSError(f"{host} cannot be looked up")
        finally:
            _lookups.release()
        # Whoever asked may be gone, with the loop.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, answer)

    threading.Thread(target=resolve, name="longshore-lookup", daemon=True).start()
    async with asyncio.timeout(_BRIEFLY):
        return await found


class Guard:
    """Turns a host into the addresses that may be connected to, or refuses it whole."""

    def __init__(
        self, allowed_networks: Iterable[str] = (), resolve: Resolver = lookup
    ) -> None:
        try:
            self._allowed = tuple(ip_network(network) for network in allowed_networks)
        except ValueError as exc:
            raise ConfigError(f"not a network: {exc}; write it like 10.1.0.0/16") from exc
        self._resolve = resolve

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Every address of the host, best first; BlockedTargetError if even one is not allowed.

        Connect to one of these and do not ask again: the next answer may be another.
        """
        literal = _literal(host)
        found = [literal] if literal else await self._named(host, port)
        for address in found:
            if not self.allows(address):
                # Which address it was would tell the job's author how our network looks.
                raise BlockedTargetError(f"{host} leads to an address that is not public")
        return found

    async def refuse_known(self, host: str, port: int) -> None:
        """BlockedTargetError if it is known now already that the host may not be called.

        A name that cannot be looked up now passes: what counts is where it leads when it is
        called, and `addresses` is asked then.
        """
        with suppress(OSError):
            await self.addresses(host, port)

    def allows(self, address: Address) -> bool:
        """Whether it is public, or in one of the allowed networks."""
        end = reached(address)
        return is_public(end) or any(end in network for network in self._allowed)

    async def _named(self, host: str, port: int) -> list[Address]:
        if not _NAME.fullmatch(host) or len(host) > 253 or _NUMBER.fullmatch(host):
            raise BlockedTargetError(f"{host!r:.80} is neither a host name nor an address")
        answers = await self._resolve(host, port)
        found = [ip_address(answer) for answer in dict.fromkeys(answers)]
        if not found:
            raise OSError(f"{host} has no address")
        return found


def _literal(host: str) -> Address | None:
    """The address that the host is, in its one canonical notation for IPv4."""
    if "%" in host:
        raise BlockedTargetError(f"{host!r:.80} names a network interface")
    try:
        return ip_address(host)
    except ValueError:
        return None
