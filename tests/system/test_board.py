"""A real Prometheus scrapes real services under load: no panel of the board stays empty."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from longshore.engines import open_engine
from longshore.testing.harness import eventually

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
BOARD = ROOT / "deploy" / "grafana" / "dashboards" / "longshore.json"
PATIENCE = 90.0


class Yard:
    """Services and a Prometheus, on ports that were free."""

    def __init__(self, folder: Path, url: str, stack: ExitStack) -> None:
        self.folder, self.url, self._stack = folder, url, stack
        self.ports = {name: _free() for name in ("api", "worker", "scheduler", "prometheus")}

    def start(self, name: str, command: list[str]) -> "subprocess.Popen[bytes]":
        clean = {key: value for key, value in os.environ.items() if "LONGSHORE" not in key}
        paths = os.pathsep.join([str(HERE), *sys.path])
        log = self._stack.enter_context((self.folder / f"{name}.log").open("wb"))
        process = self._stack.enter_context(
            subprocess.Popen(
                command,
                env={**clean, "PYTHONPATH": paths},
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        )
        self._stack.callback(process.kill)
        return process

    def longshore(self, name: str, *words: str) -> "subprocess.Popen[bytes]":
        front = [sys.executable, "-m", "longshore", "--url", self.url, "--app", "board_app:app"]
        return self.start(name, [*front, *words])

    def monitor(self, programs: Path) -> None:
        targets = [f"127.0.0.1:{self.ports[one]}" for one in ("api", "worker", "scheduler")]
        rules = ROOT / "deploy" / "prometheus" / "alerts.yml"
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {"job_name": "longshore", "static_configs": [{"targets": targets}]}
            ],
        }
        (self.folder / "prometheus.yml").write_text(json.dumps(config))
        address = f"127.0.0.1:{self.ports['prometheus']}"
        self.start(
            "prometheus",
            [
                str(programs / "prometheus"),
                f"--config.file={self.folder}/prometheus.yml",
                f"--storage.tsdb.path={self.folder}/tsdb",
                f"--web.listen-address={address}",
            ],
        )

    def ask(self, path: str, **query: str) -> Any:
        address = f"http://127.0.0.1:{self.ports['prometheus']}{path}"
        words = urllib.parse.urlencode(query)
        with urllib.request.urlopen(f"{address}?{words}", timeout=10) as answer:
            return json.load(answer)["data"]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def yard(url: str, tmp_path: Path) -> AsyncIterator[Yard]:
    engine = open_engine(url)
    await engine.migrate()
    await engine.close()
    with ExitStack() as stack:
        yield Yard(tmp_path, url, stack)


@pytest.fixture
def programs() -> Path:
    words = [ROOT / "scripts" / "prometheus", "--offline"]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    if found.returncode and "PROMETHEUS_REQUIRED" not in os.environ:
        pytest.skip("no Prometheus here; scripts/prometheus fetches it")
    assert found.returncode == 0, found.stderr
    return Path(found.stdout.strip())


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def queries() -> list[str]:
    panels = json.loads(BOARD.read_text())["panels"]
    found = [one["expr"] for panel in panels for one in panel.get("targets", [])]
    return [one.replace("$__rate_interval", "10s").replace("$queue", ".*") for one in found]


async def load(yard: Yard) -> None:
    """Jobs of every kind, again and again; a queue that is full refuses some."""
    address = f"http://127.0.0.1:{yard.ports['api']}"
    async with httpx.AsyncClient(base_url=address, timeout=10) as client:
        number = 0
        while True:
            number += 1
            for task in ("works", "fails", "dies", "leaves", "trips"):
                body: dict[str, Any] = {"type": task, "queue": "board"}
                body |= {"payload": {"number": number}} if task == "works" else {}
                await client.post("/v1/jobs", json=body)
            for _ in range(2):
                same = {"type": "noop", "queue": "unserved", "unique_key": "same"}
                await client.post("/v1/jobs", json=same)
                full = {"type": "unknown", "queue": "narrow"}
                await client.post("/v1/jobs", json=full)
            await asyncio.sleep(0.05)


async def test_no_panel_is_empty_while_services_are_at_work(yard: Yard, programs: Path):
    ports = yard.ports
    yard.longshore("api", "api", "--port", f"{ports['api']}", "--processes", "2")
    words = (
        "--metrics-port",
        f"{ports['worker']}",
        "--lease",
        "1s",
        "--queues",
        "board,default",
    )
    yard.longshore("worker", "worker", *words, "--processes", "2")
    yard.longshore("scheduler", "scheduler", "--metrics-port", f"{ports['scheduler']}")
    yard.monitor(programs)
    ready = f"http://127.0.0.1:{ports['api']}/readyz"
    await eventually(lambda: asyncio.to_thread(_answers, ready), within=PATIENCE)

    loading = asyncio.create_task(load(yard))
    missing: dict[str, None] = dict.fromkeys(queries())
    try:

        def look() -> bool:
            for one in list(missing):
                result = yard.ask("/api/v1/query", query=one)["result"]
                # Not a number: nothing was divided by nothing.
                if any(sample["value"][1] != "NaN" for sample in result):
                    del missing[one]
            return not missing

        monitor = f"http://127.0.0.1:{ports['prometheus']}/-/ready"
        await eventually(lambda: asyncio.to_thread(_answers, monitor), within=PATIENCE)
        try:
            await eventually(lambda: asyncio.to_thread(look), within=PATIENCE, every=0.5)
        except AssertionError:
            pytest.fail("no answer to\n" + "\n".join(missing))
        assert not loading.done()
    finally:
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
    rules = yard.ask("/api/v1/rules")["groups"][0]["rules"]
    health = {one["name"]: one["health"] for one in rules}
    assert set(health.values()) == {"ok"}, health
    assert len(health) == len(re.findall("alert:", _rules()))


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except OSError:
        return False
    return True


def _rules() -> str:
    return (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()
