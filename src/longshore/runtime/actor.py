"""Who asks: what the audit log says of whoever ordered something in this process."""

import os
import pwd
import socket
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from msgspec.structs import replace

from longshore.core.audit_record import AuditRecord

__all__ = ["ACTOR", "acting", "actor", "person", "signed"]

ACTOR: ContextVar[str] = ContextVar("longshore_actor", default="")


@contextmanager
def acting(name: str) -> Generator[None]:
    """What is ordered inside the block was ordered by this one."""
    token = ACTOR.set(name)
    try:
        yield
    finally:
        ACTOR.reset(token)


def actor() -> str:
    """Whoever was named, or else this program and who runs it."""
    return ACTOR.get() or f"program {person()}"


@cache
def person() -> str:
    """The account of the operating system that this process runs under, and its machine."""
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        name = str(number)
    return f"{name}@{socket.gethostname()}"


def signed(record: AuditRecord) -> AuditRecord:
    """The audit record, with the name of whoever acts."""
    return replace(record, actor=actor())
