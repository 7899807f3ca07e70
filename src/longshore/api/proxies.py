"""The client's address, where proxies stand in between."""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from longshore.errors import ConfigError

__all__ = ["Proxies"]


class Proxies:
    """Knows which peers speak for others. A header is believed only as far as they wrote it."""

    def __init__(self, trusted: Iterable[str]) -> None:
        try:
            self._networks: list[IPv4Network | IPv6Network] = [
                ip_network(one, strict=False) for one in trusted
            ]
        except ValueError as error:
            raise ConfigError(f"api.trusted_proxies: {error}") from None

    def client(self, peer: str, forwarded: bytes | None) -> str:
        """Who sent the request, given the peer and its X-Forwarded-For."""
        if forwarded is None or not self._networks or not self._is_trusted(peer):
            return peer
        found = peer
        # Each proxy adds on the right whom it heard from; whatever stands left of the first
        # one that we do not know, the client may have made up.
        for hop in reversed(forwarded.decode("latin-1").split(",")):
            found = hop.strip()
            if not self._is_trusted(found):
                break
        return found if _is_address(found) else peer

    def _is_trusted(self, address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
