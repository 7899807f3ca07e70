"""A disk that can be full: a real file system of its own, as large as one says."""

import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["SmallDisk", "small_disk"]

_MIB = 2**20
_CRUMB = 4096


class SmallDisk:
    """A mounted one."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._filler = place / "filler"

    def fill(self) -> None:
        """Leave no room for a single page."""
        with suppress(OSError), self._filler.open("ab", buffering=0) as file:
            for size in (_MIB, _CRUMB):
                with suppress(OSError):
                    while file.write(b"\0" * size) == size:
                        pass

    def free(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)

    @property
    def free_bytes(self) -> int:
        """How much room there is."""
        found = os.statvfs(self.place)
        return found.f_bavail * found.f_frsize


@contextmanager
def small_disk(size_bytes: int) -> Generator[SmallDisk | None]:
    """Mount one, everybody's to write on, and remove it in the end; None unless one may."""
    place = Path(tempfile.mkdtemp(prefix="longshore-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(place)]
    try:
        is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        is_mounted = False
    try:
        yield SmallDisk(place) if is_mounted else None
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)
        place.rmdir()
