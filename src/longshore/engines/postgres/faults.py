"""asyncpg's errors become Longshore's here, and nowhere else."""

import ssl
from collections.abc import Generator
from contextlib import contextmanager

import asyncpg

from longshore.errors import (
    ConfigError,
    EngineBusyError,
    EngineError,
    EngineUnavailableError,
    LongshoreError,
    SchemaError,
)

__all__ = [
    "AGAIN",
    "DRIVER_ERRORS",
    "NO_ERA",
    "is_loss",
    "is_unsent",
    "of_state",
    "sqlstate",
    "translate",
    "translated",
]

AGAIN = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    # A migration ran beneath a prepared statement, which then did not run.
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)
"""The server rolled everything back, and the same again may well succeed."""

DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,  # TimeoutError too
)

NO_ERA = "LS004"
"""Nobody has called `current_era` since the server started."""
_BUSY = {
    "40001": "other transactions were in the way",
    "40P01": "other transactions were in the way",
    "55P03": "another transaction holds a lock",
    "LS002": "a session's claims were not as it knew them, and it has to read them",
    NO_ERA: "the server has just started",
}
_UNAVAILABLE = {
    "25006": "it is read-only",
    "53100": "its disk is full",
    "53200": "it is out of memory",
    "53300": "it has no connection left",
    "57014": "the statement took too long",
    "57P01": "it is shutting down, or someone ended the connection",
    "57P02": "it crashed",
    "57P03": "it is starting up or shutting down",
    "57P05": "the connection was idle for too long",
    "25P03": "the transaction was idle for too long",
}
_MISCONFIGURED = {
    "28000": "it does not let this user in",
    "28P01": "the password is wrong",
    "3D000": "there is no such database",
    "42501": "this user lacks a privilege",
}
_ENDED = {"57P01", "57P02", "57P03", "57P05", "25P03"}
# A missing schema, table, column, function or type.
_OUTDATED = {"3F000", "42P01", "42703", "42883", "42704"}


def sqlstate(error: BaseException) -> str | None:
    """The server's code for an error, also for one that was translated."""
    for one in (error, error.__cause__):
        if isinstance(one, asyncpg.PostgresError):
            return one.sqlstate
    return None


def is_loss(error: BaseException) -> bool:
    """The connection is gone, and what was asked of it may or may not have been done."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        return state.startswith("08") or state in _ENDED
    if isinstance(error, TimeoutError | asyncpg.DataError | asyncpg.OutdatedSchemaCacheError):
        return False
    # The driver's own confusion too: that is how it meets a farewell between two statements.
    return isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError)


def is_unsent(error: BaseException) -> bool:
    """The driver sent nothing: it had read the server's farewell, but not yet the end."""
    return isinstance(error, asyncpg.InternalClientError) and (
        "cannot switch to state" in str(error)
    )


def translate(error: Exception, place: str) -> LongshoreError:
    """What a driver's error means to a caller of the engine."""
    if isinstance(error, asyncpg.PostgresError):
        return of_state(error.sqlstate or "", error, place)
    if isinstance(error, asyncpg.ClientConfigurationError | ssl.SSLCertVerificationError):
        return ConfigError(f"{place}: {error}")
    if isinstance(error, asyncpg.DataError | OverflowError | UnicodeError):
        # The driver refuses these before the server sees them.
        return ConfigError(f"a number or text cannot be stored: {error}")
    if isinstance(error, TimeoutError):
        return EngineUnavailableError(f"{place}: no answer in time")
    if isinstance(error, OSError):
        return EngineUnavailableError(f"{place}: cannot be reached ({error})")
    if isinstance(error, AGAIN):
        return EngineBusyError(f"{place}: its schema changed meanwhile; try again")
    return EngineUnavailableError(f"{place}: the connection is gone ({error})")


def of_state(state: str, error: Exception, place: str) -> LongshoreError:
    """What an error of the server means, whichever driver brought it."""
    if state in _BUSY:
        return EngineBusyError(f"{place}: {_BUSY[state]}; try again")
    if state in _UNAVAILABLE:
        return EngineUnavailableError(f"{place}: {_UNAVAILABLE[state]} ({error})")
    if state in _MISCONFIGURED:
        return ConfigError(f"{place}: {_MISCONFIGURED[state]} ({error})")
    if state in _OUTDATED:
        return SchemaError(
            f"{place}: the schema is missing or old; run `longshore migrate` ({error})"
        )
    if "unsupported startup parameter" in str(error):
        return ConfigError(f"{place}: a pooler stands there; add pgbouncer=on to the URL")
    if state.startswith("08"):
        return EngineUnavailableError(f"{place}: the connection is gone ({error})")
    if state.startswith("22"):
        return ConfigError(f"a number or text cannot be stored: {_brief(error)}")
    return EngineError(f"{place}: {_brief(error)}")


def _brief(error: Exception) -> str:
    """The server's words without its details, which repeat the row: it may hold secrets."""
    return str(error).partition("\nDETAIL:")[0]


@contextmanager
def translated(place: str) -> Generator[None]:
    """Only LongshoreErrors and cancellation leave this block."""
    try:
        yield
    except (*DRIVER_ERRORS, OverflowError, UnicodeError) as error:
        raise translate(error, place) from error
