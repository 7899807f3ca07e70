"""What is usually wrong with a SQLite file and the disk beneath it."""

import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from longshore.errors import EngineUnavailableError
from longshore.operations.findings import Finding, fine, problem, warning

__all__ = ["examine", "file_of", "refuse_absent"]

_MEBIBYTE = 1 << 20
_NO_SPACE = 100 * _MEBIBYTE
_LITTLE_SPACE = 1024 * _MEBIBYTE
_LARGE_LOG = 512 * _MEBIBYTE


def file_of(url: str) -> Path | None:
    """The SQLite file that an engine's URL names, if it names one."""
    scheme, _, path = url.partition(":///")
    return Path(path) if scheme == "sqlite" else None


def refuse_absent(url: str) -> None:
    """EngineUnavailableError when there is no SQLite file yet."""
    file = file_of(url)
    if file is not None and not file.exists():
        raise EngineUnavailableError(
            f"there is no queue at {url} yet: submit a job, or start a worker"
        )


def examine(file: Path) -> list[Finding]:
    """Findings about an existing file."""
    return [_space(file), _log(file), _journal(file), _permissions(file)]


def _space(file: Path) -> Finding:
    free = shutil.disk_usage(file.parent).free
    text = f"{_mebibytes(free)} free for a file of {_mebibytes(file.stat().st_size)}"
    if free < _NO_SPACE:
        return problem("disk", text, "submitting will soon fail: make room")
    if free < _LITTLE_SPACE:
        return warning("disk", text, "make room before it runs out")
    return fine("disk", text)


def _log(file: Path) -> Finding:
    log = file.with_name(f"{file.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > _LARGE_LOG:
        return warning(
            "write-ahead log",
            f"{_mebibytes(size)}: it is not being copied back",
            "some program keeps a read transaction open on the file: find and end it",
        )
    return fine("write-ahead log", _mebibytes(size))


def _journal(file: Path) -> Finding:
    try:
        with closing(sqlite3.connect(file.absolute().as_uri() + "?mode=ro", uri=True)) as db:
            mode: str = db.execute("pragma journal_mode").fetchone()[0]
    except sqlite3.Error as error:
        return problem("journal", f"{file}: {error}")
    if mode != "wal":
        return problem(
            "journal",
            f"the file's journal mode is {mode}",
            "another program changed it, or the file system has no shared memory (NFS)",
        )
    return fine("journal", f"{mode}, SQLite {sqlite3.sqlite_version}")


def _permissions(file: Path) -> Finding:
    exposed: list[str] = []
    for one in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))):
        mode = one.stat().st_mode if one.exists() else 0
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            exposed.append(f"{one.name} ({stat.S_IMODE(mode):04o})")
    if exposed:
        return warning(
            "permissions",
            f"every user of this machine can read or write {', '.join(exposed)}",
            f"payloads and webhook secrets are in it: chmod o-rw {file}*",
        )
    return fine("permissions", f"{stat.S_IMODE(file.stat().st_mode):04o}")


def _mebibytes(size: int) -> str:
    return f"{size / _MEBIBYTE:,.0f} MiB"
