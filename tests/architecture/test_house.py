"""The house rules that a linter cannot see."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
STATEMENTS = sorted(path for path in (ROOT / "src").rglob("sql/*.sql") if path.stem != "schema")
CONTRACT = ROOT / "src" / "longshore" / "testing" / "contract"

EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}

# Joined here, so that this file does not hold what it forbids.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("python" + "hosted", "org"),
        ("registry", "npm" + "js"),
        ("registry", "yarn" + "pkg"),
        ("repo1", "maven"),
        ("repo", "maven"),
        ("index", "docker"),
    )
]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    paths = (ROOT / name for name in listing.stdout.split("\0") if name)
    return [path for path in paths if path.is_file()]


# A contract module speaks through the names of its tests.
@pytest.mark.parametrize(
    "path", [path for path in SOURCES if CONTRACT not in path.parents], ids=relative
)
def test_every_module_says_what_it_is_for(path: Path):
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_no_module_has_a_name_that_could_hold_anything(path: Path):
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    words = {word for part in parts for word in part.strip("_").split("_")}

    assert not words & EMPTY_NAMES


@pytest.mark.parametrize("path", STATEMENTS, ids=relative)
def test_a_file_of_statements_says_what_they_are_about_and_each_what_it_does(path: Path):
    title, *sections = re.split(r"\n\n(?=-- )", path.read_text())

    noun = path.stem.replace("_", " ").capitalize()
    assert re.fullmatch(rf"-- {noun}: .+\.", title)
    assert sections
    assert [one for one in sections if not re.match(r"-- [a-z]\w*: \S", one)] == []


def test_no_two_contract_tests_share_a_name():
    """A star import would let the second silently replace the first."""
    names = [
        node.name
        for path in sorted(CONTRACT.rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]

    assert sorted(names) == sorted(set(names))


def test_exemptions_from_the_linters_name_their_rule():
    pattern = re.compile(r"#\s*(?:noqa|type:\s*ignore|pyright:\s*ignore)(?P<rule>\S*)")
    exemptions = [
        (relative(path), match.group("rule"))
        for path in SOURCES
        for match in pattern.finditer(path.read_text())
    ]

    assert [path for path, rule in exemptions if not re.match(r"[:\[]", rule)] == []


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a clone knows what is tracked")
def test_no_tracked_file_names_a_package_registry():
    found = [
        (relative(path), registry)
        for path in tracked_files()
        for registry in REGISTRIES
        if registry.encode() in path.read_bytes()
    ]

    assert found == []
