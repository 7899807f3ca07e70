"""What lies under deploy/ asks only for what there is."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from markdown import ROOT

from longshore import settings
from longshore.observe.metrics import Metrics
from longshore.observe.overview import View, gauges

BOARD = ROOT / "deploy" / "grafana" / "dashboards" / "longshore.json"
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
SELECTOR = re.compile(
    r"\blongshore_(\w+?)(_bucket|_sum|_count)?(?:\{([^}]*)\})?(?=[\[\s),=<>/*]|$)"
)


def catalogue() -> dict[str, set[str]]:
    """By metric, its labels."""
    found = {one.name: set(one.labels) for one in Metrics().families.values()}
    found |= {one.name: set(one.labels) for one in gauges(View(0, 0, (), (), ()))}
    return found | {"engine_up": set(), "worker_utilization_ratio": set()}


def expressions() -> list[str]:
    board = json.loads(BOARD.read_text())
    panels = [one for one in board["panels"] if one["type"] != "row"]
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    guide = (ROOT / "docs" / "guides" / "observe.md").read_text()
    return [
        *(target["expr"] for panel in panels for target in panel["targets"]),
        *(rule["expr"] for rule in rules),
        *re.findall(r"^ +query: (.+)$", guide, re.MULTILINE),
    ]


def test_every_query_asks_for_metrics_and_labels_that_there_are():
    known = catalogue()

    strange: list[str] = []
    for expression in expressions():
        asked = SELECTOR.findall(expression)
        assert asked or "up{" in expression, expression
        for name, _, inside in asked:
            labels = set(re.findall(r"(\w+)\s*(?:=~|!=|=)", inside))
            if name not in known or not labels <= known[name]:
                strange.append(expression)

    assert strange == []


def test_the_board_shows_every_metric():
    shown = {name for one in expressions() for name, *_ in SELECTOR.findall(one)}

    # The board divides slots itself, and the share of one machine is on its own page.
    assert set(catalogue()) - shown == {"worker_utilization_ratio"}


def test_the_compose_file_sets_what_there_is_and_mounts_what_is_there():
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    known = {one.variable for one in settings.describe()}

    services = compose["services"]
    for service in services.values():
        given = service.get("environment", {})
        assert {name for name in given if name.startswith("LONGSHORE")} <= known
        for mount in service.get("volumes", []):
            source = mount.partition(":")[0]
            assert source in compose["volumes"] or (ROOT / source).exists()
    targets = re.findall(r'"(\w+):\d+"', (RULES.parent / "prometheus.yml").read_text())
    assert set(targets) == {"api", "worker", "scheduler"} <= set(services)


def promtool() -> Path:
    """Skip where there is none; CI that has fetched it says that it must be there."""
    found = subprocess.run(
        [ROOT / "scripts" / "prometheus", "--offline"],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode and "PROMETHEUS_REQUIRED" not in os.environ:
        pytest.skip("no promtool here; scripts/prometheus fetches it")
    assert found.returncode == 0, found.stderr
    return Path(found.stdout.strip()) / "promtool"


def test_the_alerts_fire_when_they_should_and_not_when_they_should_not():
    command = [promtool(), "test", "rules", "alerts_test.yml"]

    done = subprocess.run(
        command, cwd=RULES.parent, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    tested = (RULES.parent / "alerts_test.yml").read_text()
    for name in re.findall(r"alert: (\w+)", RULES.read_text()):
        assert tested.count(f"alertname: {name}") >= 2
