"""Requests to places that a payload named. The only module that needs httpx.

The host is resolved once and checked, and the connection goes to that very address; the name
goes along for the Host header, for SNI, and for the check of the certificate. A name server
that changes its mind between the check and the connection changes nothing.
"""

import asyncio
import ssl
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address

import httpx

from longshore.directives import Dead, Retry
from longshore.errors import ConfigError
from longshore.tasks.http import HttpAnswer, Request
from longshore.tasks.redaction import without_query, without_secrets
from longshore.tasks.settings import HttpTaskSettings
from longshore.tasks.ssrf import BlockedTargetError, Guard

__all__ = ["Outbound"]

REDIRECTS = frozenset({301, 302, 303, 307, 308})
KEPT_HEADERS = (
    "content-length",
    "content-type",
    "date",
    "etag",
    "last-modified",
    "location",
    "retry-after",
    "x-request-id",
)

_HEADER_CHARACTERS = 8_192
_CONNECT_SECONDS = 10.0
_MOST_ADDRESSES = 4
# Some of Python's codecs are slow on input made for it, so an answer cannot choose freely.
_CHARSETS = frozenset({"utf-8", "us-ascii", "iso-8859-1", "windows-1252", "utf-16"})
# All that another origin gets to see: the rest may be a secret meant for the first one.
_NOT_SECRET = frozenset(
    {"accept", "accept-encoding", "content-type", "idempotency-key", "user-agent"}
)


class Outbound:
    """Sends requests to public addresses, and to the networks that the settings allow."""

    def __init__(self, guard: Guard, settings: HttpTaskSettings) -> None:
        self._guard = guard
        self._settings = settings
        self._tls = _tls_context(settings.ca_file)

    async def send(
        self, request: Request, *, seconds: float, max_redirects: int = 0
    ) -> HttpAnswer:
        """The answer, or Dead for what may not be sent, or Retry for what did not arrive.

        Everything together, name lookup and redirects included, takes at most `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(request, max_redirects)
        except TimeoutError:
            place = without_query(request.url)
            raise Retry(reason=f"no complete answer from {place} in {seconds:g} s") from None
        except (BlockedTargetError, httpx.InvalidURL) as exc:
            raise Dead(f"may not be called: {exc}") from exc
        except httpx.LocalProtocolError:
            # Its words repeat the header that it refuses, which may be a secret.
            raise Dead("may not be called: HTTP has no such request") from None
        except (httpx.TransportError, OSError) as exc:
            words = without_secrets(str(exc), request.url) or type(exc).__name__
            raise Retry(reason=f"{without_query(request.url)}: {words}") from exc

    async def _follow(self, request: Request, max_redirects: int) -> HttpAnswer:
        answer = await self._send_once(request)
        while answer.status in REDIRECTS and "location" in answer.headers and max_redirects:
            request = _redirected(request, answer)
            max_redirects -= 1
            answer = await self._send_once(request)
        return answer

    async def _send_once(self, request: Request) -> HttpAnswer:
        url = _checked(request.url)
        host = url.raw_host.decode("ascii")
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await self._guard.addresses(host, port)
        refusal: httpx.TransportError | None = None
        for address in addresses[:_MOST_ADDRESSES]:
            try:
                return await self._send_to(address, url, request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
                # Nothing was sent, so the next address cannot see the request twice.
                refusal = exc
        raise refusal or OSError(f"{host} has no address")

    async def _send_to(
        self, address: IPv4Address | IPv6Address, url: httpx.URL, request: Request
    ) -> HttpAnswer:
        # Deadlines are the caller's; only giving up on one address of several is ours.
        patience = httpx.Timeout(None, connect=_CONNECT_SECONDS)
        sent = httpx.Request(
            request.method,
            url.copy_with(host=str(address)),
            headers={**request.headers, "host": url.netloc.decode("ascii")},
            content=request.body,
            extensions={
                "sni_hostname": url.raw_host.decode("ascii"),
                "timeout": patience.as_dict(),
            },
        )
        # Not through a client of httpx: that logs each URL with its query.
        async with httpx.AsyncHTTPTransport(verify=self._tls, trust_env=False) as transport:
            response = await transport.handle_async_request(sent)
            try:
                return await self._answer(response, url)
            finally:
                await response.aclose()

    async def _answer(self, response: httpx.Response, url: httpx.URL) -> HttpAnswer:
        limit = self._settings.body_bytes
        kept = bytearray()
        async for chunk in response.aiter_raw():
            kept += chunk
            if len(kept) > limit:
                break
        return HttpAnswer(
            status=response.status_code,
            headers=_selected(response.headers),
            body=_decoded(bytes(kept[:limit]), response),
            is_truncated=len(kept) > limit,
            url=without_query(str(url)),
        )


def _checked(raw: str) -> httpx.URL:
    """The URL, if it says plainly where it leads."""
    if any(character in raw for character in "\\ \t\r\n"):
        raise BlockedTargetError("a url has no backslash and no space")
    url = httpx.URL(raw)
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise BlockedTargetError("only absolute http and https urls can be called")
    if url.userinfo or "@" in url.netloc.decode("ascii"):
        raise BlockedTargetError("a url has no user name; send an Authorization header")
    if not 0 < (url.port or 80) < 65_536:
        raise BlockedTargetError("a port is 1 to 65535")
    return url


def _redirected(request: Request, answer: HttpAnswer) -> Request:
    old = httpx.URL(request.url)
    new = old.join(answer.headers["location"])
    if old.scheme == "https" and new.scheme != "https":
        raise BlockedTargetError(f"{old.host} redirected from https to {new.scheme}")
    same_origin = (old.scheme, old.raw_host, old.port) == (new.scheme, new.raw_host, new.port)
    headers = request.headers if same_origin else _public(request.headers)
    becomes_get = (answer.status == 303 and request.method != "HEAD") or (
        answer.status in (301, 302) and request.method == "POST"
    )
    if not becomes_get:
        return Request(method=request.method, url=str(new), headers=headers, body=request.body)
    headers = {name: value for name, value in headers.items() if name != "content-type"}
    return Request(method="GET", url=str(new), headers=headers)


def _public(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name in _NOT_SECRET}


def _selected(headers: httpx.Headers) -> dict[str, str]:
    found = {name: headers[name] for name in KEPT_HEADERS if name in headers}
    return {name: value for name, value in found.items() if len(value) <= _HEADER_CHARACTERS}


def _decoded(body: bytes, response: httpx.Response) -> str | None:
    if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
        return None
    charset = (response.charset_encoding or "utf-8").lower()
    text = body.decode(charset if charset in _CHARSETS else "utf-8", "replace")
    # NUL is legal in text and illegal in every store.
    return text.replace("\0", "\ufffd")


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    if ca_file is None:
        return httpx.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as exc:
        raise ConfigError(f"cannot read the authorities in {ca_file}: {exc}") from exc
