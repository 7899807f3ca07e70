"""The tags of the OpenAPI document: which part of the service an operation belongs to."""

from typing import NamedTuple

__all__ = ["TAGS", "Tag", "tag_of"]


class Tag(NamedTuple):
    """A group of operations, by what their paths begin with."""

    name: str
    words: str
    """What the document says of the group."""
    paths: tuple[str, ...]
    """The first segments of its paths, without `/v1`."""


TAGS = (
    Tag("jobs", "Submit, list, follow, cancel and run jobs.", ("jobs",)),
    Tag("dead letters", "Jobs that failed for good: list, replay, delete.", ("dead",)),
    Tag(
        "queues",
        "Depths, settings and pauses of queues, and the ordering keys in them.",
        ("queues", "pauses", "types", "lines"),
    ),
    Tag("circuit breakers", "What pauses a type of jobs that keeps failing.", ("breakers",)),
    Tag("workers", "Who is connected, and how to send a worker home.", ("workers",)),
    Tag("schedules", "Jobs by cron expressions and intervals.", ("schedules",)),
    Tag("declarations", "What the code of an app declares.", ("declarations",)),
    Tag(
        "events",
        "Everything that happens, and who reads of it.",
        ("events", "consumers", "quarantined"),
    ),
    Tag("webhooks", "Endpoints that events are delivered to.", ("webhooks",)),
    Tag(
        "metrics", "Numbers for people and programs.", ("stats", "metrics", "autoscale", "slow")
    ),
    Tag("tenants and keys", "Who may ask, and for how much.", ("tenants", "keys")),
    Tag("audit", "Who did what.", ("audit",)),
    Tag(
        "health",
        "Whether the service and its store are well.",
        ("healthz", "readyz", "doctor", "broken-records"),
    ),
    Tag("documents", "This document, and a page that shows it.", ("openapi.json", "docs")),
    Tag(
        "sessions",
        "Longshore's own worker protocol, which remote workers speak. It is no interface for "
        "other programs: durations are microseconds, and it may change with any version.",
        ("sessions",),
    ),
)
"""In the order of the document."""

_BY_PATH = {path: tag for tag in TAGS for path in tag.paths}


def tag_of(path: str) -> Tag:
    """The tag of the route with this path, not of an alias."""
    first = path.removeprefix("/v1").split("/")[1].split(":")[0]
    return _BY_PATH[first]
