"""The parent of a handler in a child process: somebody who is not its worker.

Started by `worker.starter` as `python -m longshore.worker.child_reaper SOCKET LIFELINE PARENT`,
or forked by `worker.fork_server`. It forks at once, and only waits from then on: what it forked
imports the tasks and runs jobs (`worker.child`). So a handler that kills its parent kills
nobody but this process, and its worker, which lives, sees that the job died alone. It passes
SIGTERM on, and ends as the other did.
"""

import os
import resource
import signal
import sys

from longshore.worker import parent_death

__all__ = ["main", "stand_in"]


def main() -> None:
    """Stay behind as the parent; in the process that is forked, serve the worker."""
    connection, line, worker = map(int, sys.argv[1:4])
    del sys.argv[1:]
    stand_in(connection, line, worker)


def stand_in(connection: int, line: int, worker: int) -> None:
    """Return in the child of this process, when it has served; this process does not."""
    parent = os.getpid()
    if pid := os.fork():
        os.close(connection)
        parent_death.hold(line, worker)
        _end_like(_awaited(pid))
    parent_death.hold(line, parent)
    # Only here: a parent that was started stays as small as it is.
    from longshore.worker import child

    child.main(connection, line)


def _awaited(pid: int) -> int:
    """How the child ended, as `os.waitpid` tells it. Until then it hears what this one does."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(pid, number))
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    # From here on the number may become another's.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return os.waitpid(pid, 0)[1]


def _end_like(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        # One dump of memory is enough, and it was the other's.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
