"""Longshore beside others: one machine, one run, one table.

    python -m bench.compare [--peers NAME ...] [--quick] [--repeat N] [--minutes M] [--page]

Each peer is installed from its pins, gets a fresh store and goes through the same phases;
`bench/compare/out` then holds the figures as JSON, a table and a plot. With `--page` table and
plot go into docs/experiments too.
"""

import argparse
import fcntl
import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from bench.compare.catalogue import PEERS, Peer
from bench.compare.environments import HERE, ROOT, Environment, install, valkey
from bench.compare.plot import plot
from bench.compare.real import real_per_s
from bench.compare.report import table
from bench.compare.stores import fresh
from bench.compare.trial import Figures, Sizes, Trial

_OUT = HERE / "out"
_PAGE = ROOT / "docs" / "experiments" / "e02-beside-others.md"
_BEGIN, _END = "<!-- table -->\n", "<!-- /table -->\n"
_QUICK = Sizes(one_seconds=0.5, share=0.02, pings=30, kill_seconds=5.0)


def main() -> int:
    """Run the comparison; 1 if a peer had problems."""
    options = _options()
    peers = [peer for peer in PEERS if _is_chosen(peer, options.peers)]
    if not peers:
        raise SystemExit(f"no such peer; there are {', '.join(peer.name for peer in PEERS)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    environments = {peer.name: install(peer) for peer in peers}
    server = valkey() if any(peer.store == "Valkey" for peer in peers) else None
    found: list[Figures] = []
    left_out: list[str] = []
    enough = time.monotonic() + options.minutes * 60
    for number in range(options.repeat):
        for peer in peers:
            if time.monotonic() > enough:
                left_out.append(f"{peer.name}, run {number + 1}")
                continue
            _say(f"{peer.name}, run {number + 1} of {options.repeat}")
            found.append(_measured(peer, environments[peer.name], server, options))
            _say(json.dumps(asdict(found[-1])))
            _write(found, options.out)
    if options.page:
        _show(found)
    print(table(found))
    if left_out:
        _say(f"left out after {options.minutes:g} minutes: {'; '.join(left_out)}")
    return int(bool(left_out) or any(one.problems for one in found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.compare", description=__doc__)
    parser.add_argument("--peers", nargs="*", default=[], help="by how their names begin")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it all run?")
    parser.add_argument("--repeat", type=int, default=1, help="rounds; the table has medians")
    parser.add_argument("--minutes", type=float, default=30.0, help="start none after these")
    parser.add_argument("--page", action="store_true", help="write docs/experiments/e02 too")
    parser.add_argument("--out", type=Path, default=_OUT)
    parser.add_argument("--lock", type=Path, help="a file to lock while measuring")
    return parser.parse_args()


def _is_chosen(peer: Peer, wanted: list[str]) -> bool:
    return not wanted or any(peer.name.lower().startswith(one.lower()) for one in wanted)


def _measured(
    peer: Peer, environment: Environment, server: Path | None, options: argparse.Namespace
) -> Figures:
    sizes = _QUICK if options.quick else Sizes()
    with fresh(peer.store, server) as store:
        found = Trial(peer, store, sizes).run(environment, lambda: _alone(options.lock))
    if peer.has_real:
        with fresh(peer.store, server) as store, _alone(options.lock):
            found.real_per_s, problem = real_per_s(peer, store, sizes.share)
        found.problems += [problem] if problem else []
    return found


def _write(found: list[Figures], out: Path) -> None:
    out.mkdir(exist_ok=True)
    figures = [asdict(one) for one in found]
    (out / "figures.json").write_text(json.dumps(figures, indent=2) + "\n")
    (out / "table.md").write_text(table(found))
    (out / "plot.svg").write_text(plot(found))


def _show(found: list[Figures]) -> None:
    """Put table and plot where people read them."""
    text = _PAGE.read_text()
    before, after = text.partition(_BEGIN)[0], text.partition(_END)[2]
    _PAGE.write_text(f"{before}{_BEGIN}{table(found)}{_END}{after}")
    _PAGE.with_suffix(".svg").write_text(plot(found))


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
