"""What lies under deploy/ asks only for what there is."""

import json
import os
import re
import subprocess
import tomllib
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
    # The metrics port answers to these names alone.
    named = services["worker"]["environment"]["LONGSHORE_METRICS_HOSTS"].split(",")
    assert set(named) == {"worker", "scheduler"}


def locked(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """By package, its version and hashes."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for block in re.split(r"\n(?=\w)", (ROOT / name).read_text()):
        if head := re.match(r"([\w.-]+)==(\S+)", block):
            found[head[1]] = (head[2], frozenset(re.findall(r"--hash=(\S+)", block)))
    return found


def test_the_image_installs_only_what_is_locked_by_hash():
    dockerfile = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    image, everything = locked("constraints-image.txt"), locked("constraints.txt")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    direct = [*project["dependencies"]]
    for extra in ("api", "http", "fast", "postgres"):
        direct += extras[extra]

    installs = re.findall(r"pip install (.*)", dockerfile)
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert "-r constraints-image.txt" in " ".join(installs[0].split())
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(installs[1].split())
    assert "!constraints-image.txt" in (ROOT / ".dockerignore").read_text().splitlines()
    assert {re.split(r"[\s\[<>=;]", one)[0] for one in direct} | {"setuptools"} <= set(image)
    assert all(hashes for _, hashes in image.values())
    assert image == {name: everything[name] for name in image}


def test_the_compose_file_trusts_nobody_and_has_no_password_of_its_own():
    text = (ROOT / "compose.yaml").read_text()
    services = yaml.safe_load(text)["services"]

    secrets = {
        (name, variable): value
        for name, service in services.items()
        for variable, value in service.get("environment", {}).items()
        if "PASSWORD" in variable
    }
    assert {
        ("postgres", "POSTGRES_PASSWORD"),
        ("grafana", "GF_SECURITY_ADMIN_PASSWORD"),
    } <= set(secrets)
    assert {("api", "PGPASSWORD"), ("setup", "PGPASSWORD")} <= set(secrets)
    for value in secrets.values():
        # Compose ends with these words where the variable is not set, or empty.
        assert re.fullmatch(r"\$\{[A-Z_]+:\?[^}]{10,}\}", value), value
    assert "trust" not in text
    assert services["postgres"]["environment"]["POSTGRES_INITDB_ARGS"] == "--auth=scram-sha-256"
    assert not re.search(r"://[^/\s@]+:[^/\s@]+@", text)


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
