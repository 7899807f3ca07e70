"""The comparison of bench/compare: it runs, and says where its settings come from."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PEERS = sorted(path for path in (ROOT / "bench/compare/peers").iterdir() if path.is_file())


@pytest.mark.parametrize("peer", PEERS, ids=lambda path: path.stem)
def test_every_peer_names_the_page_its_settings_come_from(peer: Path):
    head = peer.read_text()[:700].partition("\nimport")[0]

    pages = re.findall(r"https://\S+\.\S+|(?<=\s)docs/\S+\.md", head)

    assert pages
    assert [
        page for page in pages if page.startswith("docs/") and not (ROOT / page).exists()
    ] == []


@pytest.mark.slow
def test_the_job_of_a_killed_worker_runs_again_at_once_in_a_comparison(tmp_path: Path):
    """By the keeper, long before the lease ends; and all other figures are there too."""
    asked = ["--quick", "--peers", "Longshore, SQLite", "--out", str(tmp_path)]

    ended = subprocess.run(
        [sys.executable, "-m", "bench.compare", *asked],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr[-2_000:]
    [found] = json.loads((tmp_path / "figures.json").read_text())
    assert found["problems"] == []
    assert 0 < found["rerun_after_s"] < 5
    assert found["drain_per_s"] > 0
    assert found["real_per_s"] > 0
    assert "Longshore, SQLite, real jobs" in (tmp_path / "plot.svg").read_text()
    assert " ms |" in (tmp_path / "table.md").read_text()
