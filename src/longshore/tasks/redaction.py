"""Keeps what a URL may hold in secret out of texts: its query, such as `?token=…`.

A reason why a call failed goes into the job, its attempts, events, webhooks, logs and traces,
where more people read it than the payload or the endpoint that has the URL.
"""

import html
import re
from urllib.parse import parse_qsl, quote, unquote, unquote_plus

__all__ = ["without_query", "without_secrets"]

_SHORTEST = 4
"""Shorter values are not taken out: `1` would be found everywhere."""


def without_query(url: str) -> str:
    """The URL up to its query or fragment."""
    return re.split(r"[?#]", url, maxsplit=1)[0]


def without_secrets(text: str, url: str) -> str:
    """The text with `***` wherever it has the URL's query, or a value of it, in any notation.

    A receiver may well repeat in its answer what it was asked.
    """
    query = url.partition("?")[2].partition("#")[0]
    if not query:
        return text
    pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=None)
    # A query without `=` is one value, as `?s3cr3t`.
    values = [value or name for name, value in pairs]
    found = {query, unquote(query), unquote_plus(query), *values, *map(quote, values)}
    found |= {part.partition("=")[2] for part in re.split("[&;]", query)}
    found |= {html.escape(one) for one in found}
    for one in sorted(found, key=len, reverse=True):
        if len(one) >= _SHORTEST:
            text = text.replace(one, "***")
    return text
