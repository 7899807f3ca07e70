"""The fence around a child process: who reaches for its worker dies, and nobody else does."""

import os
import signal
import subprocess
import sys

import pytest

from longshore.worker import seccomp_guard

pytestmark = pytest.mark.skipif(
    not seccomp_guard.is_possible(), reason="the kernel does not do this"
)

FENCED = """
import os, signal, subprocess, sys, threading
from longshore.worker import seccomp_guard
victim = int(sys.argv[1])
seccomp_guard.put_up((victim, -victim, -1))
{act}
print("alive")
"""


def run(act: str) -> tuple["subprocess.Popen[bytes]", "subprocess.CompletedProcess[str]"]:
    """A victim, and a fenced process that does this to it."""
    victim = subprocess.Popen(["sleep", "60"], process_group=0)
    words = [sys.executable, "-c", FENCED.format(act=act), str(victim.pid)]
    return victim, subprocess.run(words, capture_output=True, text=True, timeout=30)


def ended(victim: "subprocess.Popen[bytes]") -> int | None:
    code = victim.poll()
    victim.kill()
    victim.wait()
    return code


@pytest.mark.parametrize(
    "act",
    [
        "os.kill(victim, signal.SIGKILL)",
        "os.kill(victim, signal.SIGTERM)",
        "os.killpg(victim, signal.SIGKILL)",
        "os.kill(-1, signal.SIGWINCH)",
        "t = threading.Thread(target=os.kill, args=(victim, 9)); t.start(); t.join()",
    ],
)
def test_a_process_that_signals_its_worker_dies_and_the_worker_does_not(act: str):
    victim, fenced = run(act)

    assert ended(victim) is None
    assert (fenced.returncode, fenced.stdout) == (-signal.SIGSYS, "")


@pytest.mark.parametrize(
    "act",
    [
        "subprocess.run(['kill', '-9', str(victim)])",
        "subprocess.run(['kill', '-9', f'-{victim}'])",
    ],
)
def test_what_a_fenced_process_starts_cannot_kill_the_worker_either(act: str):
    victim, fenced = run(act)

    assert ended(victim) is None
    assert (fenced.returncode, fenced.stdout) == (0, "alive\n")


@pytest.mark.parametrize(
    "act",
    [
        "os.kill(victim, 0)",
        "other = subprocess.Popen(['sleep', '60']); other.kill(); other.wait()",
        "signal.signal(10, lambda *_: None); os.kill(os.getpid(), 10)",
        "other = subprocess.Popen(['sleep', '60']); fd = os.pidfd_open(other.pid); "
        "signal.pidfd_send_signal(fd, 9); other.wait()",
    ],
)
def test_all_other_signals_are_sent_as_ever(act: str):
    victim, fenced = run(act)

    assert ended(victim) is None
    assert (fenced.returncode, fenced.stdout, fenced.stderr) == (0, "alive\n", "")


def test_a_fenced_process_cannot_open_its_worker():
    _victim, fenced = run("os.pidfd_open(victim)")
    ended(_victim)

    assert fenced.returncode == 1
    assert "PermissionError" in fenced.stderr


def test_the_targets_of_a_worker_are_itself_its_group_and_everyone():
    assert seccomp_guard.targets() == (os.getpid(), -os.getpgrp(), -1)
