"""Versions of Longshore side by side, each installed in an environment of its own."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from longshore.engines.postgres.schema_migration import MIGRATIONS

__all__ = ["KNOWN", "Release", "additive", "install", "succeed", "unlike"]

ROOT = Path(__file__).parents[2]
_PARTS = ("pyproject.toml", "README.md", "LICENSE")
KNOWN = MIGRATIONS[-1].number
"""The level of this version on PostgreSQL."""


@dataclass(frozen=True, slots=True)
class Release:
    """An environment with one version in it."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / "lib" / version / "site-packages"

    @property
    def engines(self) -> Path:
        return self.packages / "longshore" / "engines"

    def environment(self, **more: str) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if "LONGSHORE" not in name}
        clean.pop("VIRTUAL_ENV", None)
        return {**clean, "PYTHONPATH": str(Path(__file__).parent), **more}

    def run(self, *words: str, within: float = 60.0) -> subprocess.CompletedProcess[str]:
        """`longshore` of this version, to its end."""
        return subprocess.run(
            [self.python, "-m", "longshore", *words],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )


def install(folder: Path) -> Release:
    """This version, by pip. Whatever it needs is taken from here."""
    tree = folder.with_name(f"{folder.name}-tree")
    tree.mkdir()
    _copy(tree)
    release = _environment(folder)
    words = "pip install --quiet --no-deps --no-build-isolation --disable-pip-version-check"
    subprocess.run(
        [sys.executable, "-m", *words.split(), "--target", release.packages, tree],
        check=True,
        timeout=120,
    )
    where = [release.python, "-c", "import longshore; print(longshore.__file__)"]
    found = subprocess.run(
        where,
        env=release.environment(),
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert Path(found.stdout.strip()).is_relative_to(release.packages)
    return release


def succeed(
    release: Release, folder: Path, migrations: Mapping[str, str], *, engine: str = "postgres"
) -> Release:
    """The version after it: the same code, and the migrations by name."""
    newer = _environment(folder)
    shutil.copytree(release.packages, newer.packages, dirs_exist_ok=True)
    for name, text in migrations.items():
        (newer.engines / engine / "migrations" / f"{name}.sql").write_text(text)
    return newer


def additive(*statements: str, known: int = KNOWN) -> dict[str, str]:
    """Migrations beside which code of the level `known` can go on."""
    found: dict[str, str] = {}
    for number, statement in enumerate(statements, start=known + 1):
        marks = [f"works-with {known:04d}"]
        if "concurrently" in statement:
            marks.append("outside-transaction")
        lines = [f"-- longshore: {mark}" for mark in marks]
        found[f"{number:04d}_addition"] = "\n".join([*lines, statement])
    return found


def unlike(release: Release, file: str, old: str, new: str) -> None:
    """Have the version say `new` where it said `old`."""
    path = release.engines / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def _copy(tree: Path) -> None:
    for name in _PARTS:
        shutil.copy(ROOT / name, tree)
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=unwanted)


def _environment(folder: Path) -> Release:
    venv.create(folder, with_pip=False, symlinks=True)
    release = Release(folder)
    # After its own packages, and without what this environment installed for itself.
    (release.packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return release
