"""Runs one server process for its owner, and ends it when the owner is gone.

    python -I -S server_guard.py <uid or -1> <folder> <command> ...

Prints the server's process id. Each line on the input is a signal number for the server; the
end of the input means that the owner is gone: then the server gets LAST_SIGNAL (SIGQUIT), and
nobody needs the folder. A process of its own, since an owner that is killed with -9 cannot
clean up. Standard library only.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import threading

_LOOK_SECONDS = 1.0


class _Guard:
    def __init__(self, uid: int, folder: str, command: list[str]) -> None:
        self._folder = folder
        self._owner = os.getppid()
        self._is_abandoned = False
        other = uid if uid >= 0 else None
        # Shells have what they start in the background ignore it, and so would the server.
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        with open(f"{folder}/log", "ab") as log:
            self._server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                user=other,
                group=other,
                extra_groups=None if other is None else [],
            )

    def run(self) -> int:
        print(self._server.pid, flush=True)
        threading.Thread(target=self._obey, daemon=True).start()
        status = self._server.wait()
        if self._is_abandoned:
            shutil.rmtree(self._folder, ignore_errors=True)
        return abs(status)

    def _obey(self) -> None:
        # A forked child of the owner may hold the pipe open, so its end alone says too little.
        while os.getppid() == self._owner:
            if not select.select([0], [], [], _LOOK_SECONDS)[0]:
                continue
            order = os.read(0, 64)
            if not order:
                break
            for number in order.split():
                self._server.send_signal(int(number))
        self._is_abandoned = True
        self._server.send_signal(int(os.environ.get("LAST_SIGNAL", signal.SIGQUIT)))


if __name__ == "__main__":
    sys.exit(_Guard(int(sys.argv[1]), sys.argv[2], sys.argv[3:]).run())
