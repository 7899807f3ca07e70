"""Which web pages may ask: none, unless the settings name their origins."""

from collections.abc import Iterable, Mapping

from longshore.api.problems import RawHeaders
from longshore.api.routing import Answer

__all__ = ["Cors"]

_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
_ASKED = b"authorization, content-type, idempotency-key, longshore-tenant, traceparent"
_TOLD = (
    b"location, retry-after, ratelimit, ratelimit-policy, idempotency-replayed, x-request-id"
)


class Cors:
    """What browsers are told of the origins that may ask."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.encode("latin-1") for origin in origins)

    def allows(self, headers: Mapping[bytes, bytes]) -> bool:
        """The request comes from a page that may ask."""
        return headers.get(b"origin") in self._origins

    def preflight(self, method: str, headers: Mapping[bytes, bytes]) -> Answer | None:
        """The answer to a browser that asks beforehand; None if this is no such question."""
        is_asked = method == "OPTIONS" and b"access-control-request-method" in headers
        if not is_asked or not self.allows(headers):
            return None
        return Answer(
            204,
            headers=(
                (b"access-control-allow-methods", _METHODS),
                (b"access-control-allow-headers", _ASKED),
                (b"access-control-max-age", b"600"),
            ),
        )

    def told(self, headers: Mapping[bytes, bytes]) -> RawHeaders:
        """What every answer says to a browser."""
        if not self._origins:
            return ()
        if not self.allows(headers):
            return ((b"vary", b"origin"),)
        return (
            (b"vary", b"origin"),
            (b"access-control-allow-origin", headers[b"origin"]),
            (b"access-control-expose-headers", _TOLD),
        )
