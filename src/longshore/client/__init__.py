"""A client of the HTTP service, for programs that know jobs by name: `Client`, `SyncClient`.

The names are imported when they are first used: a keeper, which needs a connection alone, does
not pay for the documents.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longshore.client.async_client import Client
    from longshore.client.documents import Outcome, Submission
    from longshore.client.sync_client import SyncClient
    from longshore.operations.job_documents import JobDocument

__all__ = ["Client", "JobDocument", "Outcome", "Submission", "SyncClient"]

_HOMES = {
    "Client": "longshore.client.async_client",
    "JobDocument": "longshore.operations.job_documents",
    "Outcome": "longshore.client.documents",
    "Submission": "longshore.client.documents",
    "SyncClient": "longshore.client.sync_client",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
