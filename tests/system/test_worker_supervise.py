"""The supervisor as a process: it starts, restarts, forwards, reaps and leaves."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.testing.harness import eventually

PROGRAM = Path(__file__).with_name("supervise_process.py")
PATIENCE = 20.0

pytestmark = pytest.mark.slow


class Watch:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, kind: str, *, count: int = 2) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM, self._folder, str(count), kind], process_group=0
        )
        return self._process

    def children(self) -> list[int]:
        """The pids of all children that were ever started."""
        book = self._folder / "started"
        return [int(line) for line in book.read_text().split()] if book.exists() else []

    def told(self) -> list[int]:
        """The signals that children received."""
        book = self._folder / "told"
        return [int(line) for line in book.read_text().split()] if book.exists() else []

    async def has_started(self, count: int) -> list[int]:
        await eventually(lambda: len(self.children()) >= count, within=PATIENCE)
        return self.children()

    def close(self) -> None:
        for pid in self.children():
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    watch = Watch(tmp_path)
    yield watch
    watch.close()


async def test_a_signal_reaches_every_child_and_all_leave(watch: Watch):
    supervisor = watch.start("steady", count=3)
    children = await watch.has_started(3)

    supervisor.terminate()

    assert supervisor.wait(PATIENCE) == 0
    assert not any(map(is_alive, children))
    assert len(watch.children()) == 3


async def test_children_that_had_just_begun_leave_well_by_the_signal_itself(watch: Watch):
    supervisor = watch.start("young")
    await watch.has_started(2)

    supervisor.terminate()

    assert supervisor.wait(PATIENCE) == 0


async def test_a_child_that_crashed_is_started_again_after_a_pause(watch: Watch):
    began = time.monotonic()
    supervisor = watch.start("crash", count=1)

    await watch.has_started(2)
    supervisor.terminate()

    assert time.monotonic() - began >= 0.5
    assert supervisor.wait(PATIENCE) == 0


async def test_a_child_that_was_killed_is_started_again(watch: Watch):
    supervisor = watch.start("steady", count=2)
    first, _ = await watch.has_started(2)

    os.kill(first, signal.SIGKILL)
    children = await watch.has_started(3)
    supervisor.terminate()

    assert supervisor.wait(PATIENCE) == 0
    assert len(set(children)) == 3


async def test_a_worn_out_child_is_replaced_at_once(watch: Watch):
    supervisor = watch.start("worn", count=1)

    await watch.has_started(2)
    supervisor.terminate()

    assert supervisor.wait(PATIENCE) == 0


async def test_a_child_that_cannot_be_configured_is_not_tried_again(watch: Watch):
    supervisor = watch.start("config", count=2)

    code = supervisor.wait(PATIENCE)

    assert code == 2
    assert len(watch.children()) <= 2


@pytest.mark.parametrize("kind", ["vanish", "refuse"])
async def test_a_child_that_a_job_ended_is_started_again_whatever_its_code(
    watch: Watch, kind: str
):
    supervisor = watch.start(kind, count=1)

    await watch.has_started(2)
    supervisor.terminate()

    assert supervisor.wait(PATIENCE) == 0


async def test_it_leaves_when_every_child_has_ended_well(watch: Watch):
    supervisor = watch.start("fine", count=2)

    assert supervisor.wait(PATIENCE) == 0


async def test_a_second_signal_is_passed_on_too(watch: Watch):
    supervisor = watch.start("stubborn", count=1)
    await watch.has_started(1)

    supervisor.terminate()
    await eventually(lambda: watch.told() == [signal.SIGTERM], within=PATIENCE)
    supervisor.terminate()

    assert supervisor.wait(PATIENCE) == 0
    assert watch.told() == [signal.SIGTERM, signal.SIGTERM]


async def test_ctrl_c_in_a_terminal_reaches_a_child_once(watch: Watch):
    supervisor = watch.start("stubborn", count=1)
    await watch.has_started(1)

    # As the terminal does it: to everyone in the foreground group.
    os.killpg(supervisor.pid, signal.SIGINT)
    await eventually(watch.told, within=PATIENCE)
    supervisor.terminate()

    assert supervisor.wait(PATIENCE) == 0
    assert watch.told() == [signal.SIGTERM, signal.SIGTERM]


async def test_the_third_signal_kills(watch: Watch):
    supervisor = watch.start("deaf", count=1)
    (child,) = await watch.has_started(1)

    for number in (1, 2, 3):
        supervisor.terminate()
        await eventually(lambda number=number: len(watch.told()) >= min(number, 2))

    assert supervisor.wait(PATIENCE) == 137
    assert not is_alive(child)


def test_a_worker_whose_supervisor_died_before_it_had_begun_leaves(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait(PATIENCE)
    app = Path(__file__).with_name("cli_app.py")
    command = [sys.executable, "-m", "longshore", "worker", "--supervised", str(gone.pid)]
    shared = ["--app", "cli_app:app", "--url", f"sqlite:///{tmp_path}/jobs.db"]

    left = subprocess.run([*command, *shared], cwd=app.parent, timeout=60, check=False)

    assert left.returncode == 0
