"""Where a service is, and the API key that goes with it, as one URL."""

from urllib.parse import quote, urlsplit

__all__ = ["PLAIN_HTTP", "is_service", "keyed"]

PLAIN_HTTP = "plain_http=on"
"""The one option of a service's URL."""


def is_service(url: str) -> bool:
    """The URL is that of a service, and not of a store."""
    return url.partition(":")[0].lower() in ("http", "https")


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
