"""The rate of jobs that have all that real ones have: `longshore bench --profile real`."""

import json
import subprocess
import sys

from bench.compare.catalogue import Peer
from bench.compare.environments import ROOT
from bench.compare.stores import Store

__all__ = ["real_per_s"]

_SHARE = 5
"""Of the no-op jobs every so many: a real one takes several times as long."""
_SECONDS = 120.0


def real_per_s(peer: Peer, store: Store, share: float) -> tuple[float | None, str | None]:
    """Jobs per second of a drain like that of the no-op jobs, or why there is none."""
    words = ["--mode", "drain", "--profile", "real", "--processes", "2", "--json"]
    jobs = max(int(peer.jobs * share / _SHARE), 1_000)
    command = [sys.executable, "-m", "longshore", "bench", "--engine", store.url, *words]
    try:
        ended = subprocess.run(
            [*command, "--jobs", str(jobs)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, f"the drain of real jobs took over {_SECONDS:.0f} s"
    if ended.returncode:
        return None, f"the drain of real jobs failed: {ended.stderr.strip()[-500:]}"
    return json.loads(ended.stdout.splitlines()[-1])["jobs_per_s"], None
