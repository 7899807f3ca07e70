"""A process that signals itself as a job would: `python self_signals_process.py all`.

Writes what followed from each way, as JSON. With the words `thread` and a way, a thread that
knows no job does it.
"""

import _thread
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from longshore.job_context import CURRENT
from longshore.worker.self_signals import auditing_all_signals, refusing_self_signals


class Job:
    """As much of a running job as is charged a crash."""

    claim = None
    deadline = float("inf")
    cancel_requested = False

    def __init__(self) -> None:
        self.charges = 0

    def charge_crash(self) -> None:
        self.charges += 1


def by_descriptor(pid: int) -> None:
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
    finally:
        os.close(process)


def end_another(send: Callable[["subprocess.Popen[bytes]"], object]) -> None:
    words = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(words, process_group=0) as other:
        send(other)
        if other.wait(30) != -signal.SIGTERM:
            raise ChildProcessError(other.returncode)


def end_itself_when_forked() -> None:
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
        os._exit(1)
    status = os.waitpid(pid, 0)[1]
    if os.waitstatus_to_exitcode(status) != -signal.SIGTERM:
        raise ChildProcessError(status)


REFUSED: dict[str, Callable[[], object]] = {
    "kill SIGTERM": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "kill SIGINT": lambda: os.kill(os.getpid(), signal.SIGINT),
    "kill 0": lambda: os.kill(0, signal.SIGTERM),
    "kill the group": lambda: os.kill(-os.getpgrp(), signal.SIGTERM),
    "killpg": lambda: os.killpg(os.getpgrp(), signal.SIGTERM),
    "killpg 0": lambda: os.killpg(0, signal.SIGINT),
    "kill a thread": lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM),
    "raise SIGTERM": lambda: signal.raise_signal(signal.SIGTERM),
    "raise SIGINT": lambda: signal.raise_signal(signal.SIGINT),
    "interrupt main": lambda: _thread.interrupt_main(),
    "interrupt main SIGTERM": lambda: _thread.interrupt_main(signal.SIGTERM),
    "by descriptor": lambda: by_descriptor(os.getpid()),
}

ALLOWED: dict[str, Callable[[], object]] = {
    "another signal": lambda: os.kill(os.getpid(), signal.SIGUSR1),
    "no signal": lambda: os.kill(os.getpid(), 0),
    "raise another signal": lambda: signal.raise_signal(signal.SIGUSR1),
    "another process": lambda: end_another(lambda one: os.kill(one.pid, signal.SIGTERM)),
    "another group": lambda: end_another(lambda one: os.killpg(one.pid, signal.SIGTERM)),
    "another by descriptor": lambda: end_another(lambda one: by_descriptor(one.pid)),
    "a forked process itself": end_itself_when_forked,
}


def outcome(act: Callable[[], object]) -> dict[str, Any]:
    """What follows when the handler of a job does this."""
    job, context, heard = Job(), copy_context(), list[int]()
    context.run(CURRENT.set, job)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: heard.append(number))
    error = None
    try:
        context.run(act)
    except OSError as raised:
        error = str(raised)
    return {"error": error, "charges": job.charges, "heard": heard}


def main() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    with auditing_all_signals(), refusing_self_signals():
        if sys.argv[1] == "thread":
            thread = threading.Thread(target=REFUSED[sys.argv[2]])
            thread.start()
            thread.join()
        else:
            ways = REFUSED | ALLOWED
            outcomes = {how: outcome(act) for how, act in ways.items()}
            sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main()
