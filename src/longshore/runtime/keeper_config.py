"""What a worker tells its keeper when it starts it."""

import signal

import msgspec

from longshore.core.backoff import Backoff

__all__ = ["IGNORED", "Orders", "decode", "encode"]

IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that are meant for the worker; its keeper goes when the worker is gone."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """Sent through a pipe, because the URL may hold a password that others must not see."""

    url: str
    """The engine, with whatever it takes to get in."""
    worker: str
    lease: float
    """In seconds."""
    memory: int
    """The descriptor of the flight record."""
    capacity: int
    process: int
    """The descriptor of the worker's process."""
    stuck_after: float = 60.0
    """Seconds without a sign of life from any thread after which the worker is stuck."""
    exit_when_stuck: bool = False
    ready_file: str | None = None
    """What to take away then."""
    backoffs: dict[str, Backoff] = {}
    """By type, how long to wait after a failure, where it is not the usual."""
    log_level: str = "info"
    logs_json: bool = False
    metrics_folder: str | None = None
    """Where the processes of its service count."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Orders)


def encode(orders: Orders) -> bytes:
    """One line."""
    return _encoder.encode(orders) + b"\n"


def decode(line: bytes) -> Orders:
    """What the line says."""
    return _decoder.decode(line)
