"""What Schemathesis changes of its requests: the module that SCHEMATHESIS_HOOKS names."""

import re
from typing import Any

import schemathesis

TENANT = "acme"
"""Exists in the store that is asked."""

_HEADER = "Longshore-Tenant"
_NAME = re.compile(r"[A-Za-z0-9_.:/@+-]{1,128}")


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Speak for a tenant that exists, or for all.

    A made-up tenant is refused (404) before anything else of a request is looked at, and nearly
    every request would be. Requests that are meant to be refused stay as they are.
    """
    if (
        case.meta is None
        or case.meta.generation.mode is not schemathesis.GenerationMode.POSITIVE
    ):
        return
    name = str((case.headers or {}).get(_HEADER, ""))
    if not _NAME.fullmatch(name):
        return
    if len(name) % 4 == 1:
        case.headers[_HEADER] = TENANT
    else:
        del case.headers[_HEADER]
