"""`longshore top`, through a terminal of ours and as text."""

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_steps import Queue, Shell
from terminal import PATIENCE, Terminal

from longshore.cli.top.screen import Screen
from longshore.core.limit_settings import BreakerSettings, Layer
from longshore.records import breaker_settings
from longshore.testing.factories import SECOND, a_job

pytestmark = pytest.mark.slow

TOP = ("top", "--interval", "100ms")
API = Path(__file__).parents[2] / "system" / "api_process.py"


@pytest.fixture
def service(queue: Queue, tmp_path: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        store = f"sqlite:///{tmp_path}/.longshore/jobs.db"
        number = listening.fileno()
        process = subprocess.Popen(
            [sys.executable, str(API), store, str(number)], pass_fds=(number,)
        )
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with process:
        yield url, process
        process.kill()


def test_keys_open_a_job_and_pause_a_queue(queue: Queue, tmp_path: Path):
    queue.submit(queue="bulk")
    dead = queue.dead(queue="mail", type="mail.send")

    with Terminal(tmp_path, *TOP) as terminal:
        first = terminal.shows("▸ bulk", "  mail", "no worker is connected", "DEAD 1")
        terminal.type("jp")
        terminal.shows("▸ mail", "pause the queue mail? y/n")
        terminal.type("x")
        terminal.shows("q leave", without="y/n")
        # A look that began after the key, and after whatever the key ordered.
        queue.submit(queue="late")
        terminal.shows("late", without="(paused)")
        terminal.type("py")
        terminal.shows("mail (paused)", "paused the queue mail")
        terminal.type("py")
        terminal.shows("resumed the queue mail", without="(paused)")
        terminal.type("\r")
        terminal.shows(f"▸ {dead}", "mail: newest jobs")
        terminal.type("\r")
        terminal.shows(
            f"id         {dead}", "ValueError: no such user", "longshore dead replay"
        )
        terminal.type("\x1b\x1b")
        terminal.shows("▸ mail", "DEAD 1")
        terminal.type("q")

        assert terminal.left() == 0
        assert terminal.is_as_before
    assert len(first.splitlines()) == 24


def test_it_follows_the_window_down_to_next_to_nothing(queue: Queue, tmp_path: Path):
    jobs = [a_job(queue=f"queue-{number:02}") for number in range(30)]
    queue.ask(lambda engine: engine.submit(jobs))

    # So seldom that nothing but the window can make it draw.
    with Terminal(tmp_path, "top", "--interval", "60s", columns=110) as terminal:
        terminal.shows("LATELY", "QUEUES 30", "q leave")
        terminal.resize(40, 10)
        small = terminal.shows("RUNNING", "q leave", without="SCHED")
        terminal.type("\x1b[F")
        terminal.shows("▸ queue-29")
        terminal.resize(20, 2)
        terminal.shows("▸ queue-29", without="q leave")
        terminal.resize(80, 24)
        terminal.shows("▸ queue-29", "SCHED", "q leave")
        terminal.type("q")

        assert terminal.left() == 0
        assert terminal.is_as_before
    assert "queue-00" in small


def test_ctrl_z_lends_the_terminal_and_ctrl_c_gives_it_back(queue: Queue, tmp_path: Path):
    with Terminal(tmp_path, *TOP) as terminal:
        terminal.shows("q leave")
        terminal.type("\x1a")
        os.waitpid(terminal.process.pid, os.WUNTRACED)
        terminal.read()
        is_given = terminal.is_as_before
        terminal.process.send_signal(signal.SIGCONT)
        terminal.emulator.resize(80, 24)
        terminal.shows("q leave")
        terminal.type("\x03")

        assert terminal.left() == 130
        assert is_given
        assert terminal.is_as_before


def read_until(terminal: int, end: bytes) -> bool:
    """Whether what the terminal shows comes to end so; it may arrive in pieces."""
    shown, deadline = b"", time.monotonic() + PATIENCE
    while not shown.endswith(end) and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 1_000)
    return shown.endswith(end)


def test_an_error_gives_the_terminal_back():
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)

    with pytest.raises(ZeroDivisionError), Screen(slave, slave) as screen:
        is_taken = termios.tcgetattr(slave) != before
        screen.draw(["x" * (1 // 0)], screen.size)

    assert is_taken
    assert termios.tcgetattr(slave) == before
    assert read_until(master, b"\x1b[?7h\x1b[?25h\x1b[?1049l")
    os.close(slave)
    os.close(master)


def test_over_http_it_works_and_says_so_when_the_service_is_gone(
    queue: Queue, tmp_path: Path, service: tuple[str, "subprocess.Popen[bytes]"]
):
    url, process = service
    queue.submit(queue="mail")

    with Terminal(tmp_path, *TOP, "--url", url) as terminal:
        terminal.shows("▸ mail", url)
        terminal.type("py")
        terminal.shows("mail (paused)")
        process.kill()
        process.wait(PATIENCE)
        terminal.shows("as of ", "cannot be reached", "mail (paused)")
        terminal.type("q")

        assert terminal.left() == 0
        assert terminal.is_as_before


def test_once_is_text_and_json_a_document(queue: Queue, shell: Shell):
    queue.submit(queue="mail\u202e")
    dead = queue.dead(queue="mail")
    settings = BreakerSettings(failures=3)
    queue.ask(
        lambda engine: breaker_settings.put(engine, "http.call", Layer.DECLARED, settings)
    )
    queue.ask(
        lambda engine: engine.open_session(
            worker="w1", queues=["idle"], types=["t"], lease=60 * SECOND
        )
    )

    text = shell(*TOP, "--once").stdout
    (document,) = shell.lines(*TOP)

    assert not {"\x1b", "\u202e"} & {*text}
    for words in ("QUEUES 3", "  idle ", "WORKERS 1", "  w1", "BREAKERS 1", "all closed"):
        assert words in text
    assert max(map(len, text.splitlines())) <= 80
    names = {one["queue"]: one for one in document["queues"]}
    assert (names["mail"]["dead"], names["mail"]["ended_per_second"]) == (1, 0)
    assert [one["id"] for one in document["dead"]] == [dead]
    assert document["breakers"][0]["phase"] == "closed"
    assert document["workers"][0]["worker"] == "w1"


def test_once_names_the_newest_of_many_dead_jobs_and_counts_them_all(
    queue: Queue, shell: Shell
):
    for _ in range(12):
        queue.dead(queue="mail", type="send")

    text = shell(*TOP, "--once").stdout

    assert "DEAD 12" in text
    assert len([line for line in text.splitlines() if line.startswith("  send")]) == 10


def test_without_a_terminal_it_says_what_to_do(queue: Queue, shell: Shell):
    refused = shell("top")

    assert refused.exit_code == 2
    assert "use --once or --json" in refused.stderr
    assert shell("top", "--once", "--interval", "1ms").exit_code == 2
