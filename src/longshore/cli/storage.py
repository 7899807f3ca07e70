"""What is usually wrong with a SQLite file and the disk beneath it."""

import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from longshore.cli.checks import Finding, Health

__all__ = ["examine"]

_MEBIBYTE = 1 << 20
_NO_SPACE = 100 * _MEBIBYTE
_LITTLE_SPACE = 1024 * _MEBIBYTE
_LARGE_LOG = 512 * _MEBIBYTE


def examine(file: Path) -> Iterator[Finding]:
    """Findings about an existing file."""
    yield _space(file)
    yield _log(file)
    yield _journal(file)
    yield _permissions(file)


def _space(file: Path) -> Finding:
    free = shutil.disk_usage(file.parent).free
    text = f"{_mebibytes(free)} free for a file of {_mebibytes(file.stat().st_size)}"
    if free < _NO_SPACE:
        return Finding("disk", Health.PROBLEM, text, "submitting will soon fail: make room")
    if free < _LITTLE_SPACE:
        return Finding("disk", Health.WARNING, text, "make room before it runs out")
    return Finding("disk", Health.FINE, text)


def _log(file: Path) -> Finding:
    log = file.with_name(f"{file.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > _LARGE_LOG:
        return Finding(
            "write-ahead log",
            Health.WARNING,
            f"{_mebibytes(size)}: it is not being copied back",
            "some program keeps a read transaction open on the file: find and end it",
        )
    return Finding("write-ahead log", Health.FINE, _mebibytes(size))


def _journal(file: Path) -> Finding:
    try:
        with closing(sqlite3.connect(file.absolute().as_uri() + "?mode=ro", uri=True)) as db:
            mode: str = db.execute("pragma journal_mode").fetchone()[0]
    except sqlite3.Error as error:
        return Finding("journal", Health.PROBLEM, f"{file}: {error}")
    if mode != "wal":
        return Finding(
            "journal",
            Health.PROBLEM,
            f"the file's journal mode is {mode}",
            "another program changed it, or the file system has no shared memory (NFS)",
        )
    return Finding("journal", Health.FINE, f"{mode}, SQLite {sqlite3.sqlite_version}")


def _permissions(file: Path) -> Finding:
    exposed: list[str] = []
    for one in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))):
        mode = one.stat().st_mode if one.exists() else 0
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            exposed.append(f"{one.name} ({stat.S_IMODE(mode):04o})")
    if exposed:
        return Finding(
            "permissions",
            Health.WARNING,
            f"every user of this machine can read or write {', '.join(exposed)}",
            f"payloads and webhook secrets are in it: chmod o-rw {file}*",
        )
    return Finding("permissions", Health.FINE, f"{stat.S_IMODE(file.stat().st_mode):04o}")


def _mebibytes(size: int) -> str:
    return f"{size / _MEBIBYTE:,.0f} MiB"
