"""From a URL to a remote engine."""

from urllib.parse import unquote, urlsplit

from longshore.engines.remote.engine import RemoteEngine
from longshore.engines.remote.line import Line
from longshore.errors import ConfigError
from longshore.runtime.clock import Clock
from longshore.wire.address import PLAIN_HTTP

__all__ = ["from_url"]


def from_url(url: str, *, clock: Clock | None = None) -> RemoteEngine:
    """The engine behind `https://key@host[:port][/prefix]`; nothing is touched yet.

    With `?plain_http=on` the key may go to a public address over `http://`.

    The clock is that of the store, over there: one that is given here is not used.
    """
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        raise ConfigError("the port of the URL is not a number") from None
    if not parts.hostname or parts.query not in ("", PLAIN_HTTP) or parts.fragment:
        raise ConfigError(
            "a service is named by https://key@host[:port][/prefix], and behind it stands"
            f" nothing, or ?{PLAIN_HTTP}"
        )
    key = unquote(parts.password or parts.username or "")
    if not key.isascii() or not key.isprintable():
        raise ConfigError("the API key in the URL cannot be one: it is not printable ASCII")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = host if port is None else f"{host}:{port}"
    base = f"{parts.scheme}://{place}{parts.path.rstrip('/')}"
    return RemoteEngine(Line(base, key=key, plain_http=parts.query == PLAIN_HTTP))
