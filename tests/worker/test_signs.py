"""What others see of a worker's health: a file, and what systemd is told."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.errors import ConfigError
from longshore.settings import service_manager
from longshore.worker.health import Condition, Health
from longshore.worker.readiness import ReadyFile, ServiceManager

READY = Health(Condition.READY)
STUCK = Health(Condition.STUCK, "the engine does not answer")


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[socket.socket]:
    """Where systemd would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(tmp_path / "notify"))
        ear.setblocking(False)
        yield ear


def heard(ear: socket.socket) -> list[str]:
    messages: list[str] = []
    while True:
        try:
            messages.append(ear.recv(4096).decode())
        except BlockingIOError:
            return messages


def test_the_file_is_there_exactly_while_the_worker_is_ready(tmp_path: Path):
    file = tmp_path / "ready"
    file.touch()
    sign = ReadyFile(file)
    seen = [file.exists()]

    for health in (Health(Condition.STARTING), READY, STUCK, READY, Health(Condition.LEAVING)):
        sign.show(health)
        seen.append(file.exists())

    assert seen == [False, False, True, False, True, False]


def test_the_file_is_young_as_long_as_someone_keeps_it(tmp_path: Path):
    file = tmp_path / "ready"
    sign = ReadyFile(file)
    sign.show(READY)
    os.utime(file, (0, 0))

    sign.show(READY)

    assert file.stat().st_mtime > 0


@pytest.mark.parametrize("where", ["missing/ready", "."])
def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path, where: str):
    with pytest.raises(ConfigError, match="ready_file"):
        ReadyFile(tmp_path / where)


def test_a_file_that_cannot_be_kept_is_complained_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    folder = tmp_path / "run"
    folder.mkdir()
    sign = ReadyFile(folder / "ready")
    folder.rmdir()

    sign.show(READY)
    sign.show(READY)

    assert [record.message for record in caplog.records] == ["ready file not kept"]


def test_systemd_hears_of_each_change_once(tmp_path: Path, ear: socket.socket):
    manager = ServiceManager(str(tmp_path / "notify"))

    for health in (Health(Condition.STARTING), READY, READY, STUCK, Health(Condition.LEAVING)):
        manager.show(health)

    assert heard(ear) == [
        "STATUS=starting",
        "STATUS=ready\nREADY=1",
        "STATUS=stuck: the engine does not answer",
        "STATUS=leaving\nSTOPPING=1",
    ]


def test_its_watchdog_hears_nothing_of_a_stuck_worker(tmp_path: Path, ear: socket.socket):
    manager = ServiceManager(str(tmp_path / "notify"), has_watchdog=True)
    manager.show(READY)
    heard(ear)

    manager.show(READY)
    well = heard(ear)
    manager.show(STUCK)
    manager.show(STUCK)
    stuck = heard(ear)

    assert well == ["WATCHDOG=1"]
    assert stuck == ["STATUS=stuck: the engine does not answer"]


def test_a_manager_that_is_gone_does_no_harm(tmp_path: Path):
    ServiceManager(str(tmp_path / "nobody"), has_watchdog=True).show(READY)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"NOTIFY_SOCKET": "vsock:2:1"}, None),
        ({"NOTIFY_SOCKET": "/run/x"}, ("/run/x", False)),
        ({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "9"}, ("@x", True)),
        (
            {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"},
            ("@x", False),
        ),
    ],
)
def test_whether_systemd_wants_to_hear_is_in_the_environment(
    environ: dict[str, str], expected: tuple[str, bool] | None
):
    assert service_manager(environ) == expected
