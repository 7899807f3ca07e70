"""A client of the HTTP service, for programs that know jobs by name: `Client`, `SyncClient`."""

from longshore.client.awaiting import Client
from longshore.client.blocking import SyncClient
from longshore.client.documents import JobDocument, Outcome, Submission

__all__ = ["Client", "JobDocument", "Outcome", "Submission", "SyncClient"]
