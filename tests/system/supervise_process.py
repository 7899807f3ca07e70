"""A supervisor of small children: `python supervise_process.py FOLDER COUNT KIND`.

Each child leaves its pid in FOLDER/started and behaves as KIND says.
"""

import logging
import sys

from longshore.worker.supervise import Supervisor

CHILD = """
import os, pathlib, signal, sys, time
folder, kind = pathlib.Path(sys.argv[1]), sys.argv[2]
told = []
def leave(number, _):
    told.append(number)
    with (folder / "told").open("a") as book:
        book.write(f"{number}\\n")
    if kind != "deaf" and (kind != "stubborn" or len(told) > 1):
        os._exit(0)
if kind != "young":
    signal.signal(signal.SIGTERM, leave)
signal.signal(signal.SIGINT, leave)
with (folder / "started").open("a") as book:
    book.write(f"{os.getpid()}\\n")
starts = len((folder / "started").read_text().split())
code = {"crash": 1, "worn": 75, "config": 2, "fine": 0, "vanish": 0, "refuse": 2}.get(kind)
if code is not None and (starts == 1 or kind in ("config", "fine")):
    os._exit(code)
while True:
    time.sleep(60)
"""

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    folder, count, kind = sys.argv[1:]
    command = [sys.executable, "-c", CHILD, folder, kind]
    says_farewell = kind in ("vanish", "refuse")
    sys.exit(Supervisor(command, int(count), says_farewell=says_farewell).run())
