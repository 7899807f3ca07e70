"""Where a service is, and the API key that goes with it, as one URL."""

from urllib.parse import quote, urlsplit

__all__ = ["is_service", "keyed"]


def is_service(url: str) -> bool:
    """The URL is that of a service, and not of a store."""
    return url.partition(":")[0].lower() in ("http", "https")


def keyed(url: str, key: str | None) -> str:
    """The service's URL with the key in it, unless it has one; other URLs as they are."""
    if not key or not is_service(url):
        return url
    parts = urlsplit(url)
    if "@" in parts.netloc:
        return url
    return parts._replace(netloc=f"{quote(key, safe='')}@{parts.netloc}").geturl()
