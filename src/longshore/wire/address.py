"""Where a service is, and the API key that goes with it, as one URL."""

from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from longshore.errors import ConfigError, NotOverHttpError

__all__ = [
    "PLAIN_HTTP",
    "ServiceAddress",
    "is_service",
    "keyed",
    "read_address",
    "refuse_service",
]

PLAIN_HTTP = "plain_http=on"
"""The one option of a service's URL."""


def is_service(url: str) -> bool:
    """The URL is that of a service, and not of a store."""
    return url.partition(":")[0].lower() in ("http", "https")


def refuse_service(url: str, what: str) -> None:
    """NotOverHttpError for the URL of a service, where the store itself is needed."""
    if is_service(url):
        raise NotOverHttpError(
            f"{what} needs the store itself, and {read_address(url).base} is a service in front"
            f" of one; run it where the store can be reached, with its URL"
        )


def keyed(url: str, key: str | None, *, plain_http: bool = False) -> str:
    """The service's URL with the key in it, unless it has one; other URLs as they are.

    `plain_http` lets the key go to a public address in the clear.
    """
    if not is_service(url):
        return url
    parts = urlsplit(url)
    if key and "@" not in parts.netloc:
        parts = parts._replace(netloc=f"{quote(key, safe='')}@{parts.netloc}")
    if plain_http and not parts.query:
        parts = parts._replace(query=PLAIN_HTTP)
    return parts.geturl()


class ServiceAddress(NamedTuple):
    """What the URL of a service says."""

    base: str
    """The URL without the key and without options."""
    key: str
    """The API key; empty: none."""
    plain_http: bool
    """The key may go to a public address over `http://`."""


def read_address(url: str) -> ServiceAddress:
    """What `https://key@host[:port][/prefix]` says, or ConfigError. Nothing is touched.

    With `?plain_http=on` the key may go to a public address over `http://`.
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
    return ServiceAddress(base, key, parts.query == PLAIN_HTTP)
