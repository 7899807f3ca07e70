"""The docs are true: code runs, commands parse, links lead somewhere, nothing is stale."""

import ast
import inspect
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from markdown import PAGES, ROOT, anchors, blocks, links, name

from longshore.cli.main import main as command_line
from longshore_lab import docs

WITH_PYTHON = [
    page for page in PAGES if any("notest" not in one.words for one in blocks(page, "python"))
]
PROGRAMS = {ROOT / "README.md", ROOT / "docs" / "quickstart.md"}
WITH_COMMANDS = [page for page in PAGES if blocks(page, "console")]


@pytest.mark.parametrize("page", [one for one in WITH_PYTHON if one not in PROGRAMS], ids=name)
async def test_the_examples_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"__name__": "example"}

    for block in blocks(page, "python"):
        if "notest" not in block.words:
            await run(block.code, f"{name(page)}:{block.line}", scope)


async def run(code: str, where: str, scope: dict[str, Any]) -> None:
    """Run the block; one that awaits finds its app open, unless it opens one itself."""
    compiled = compile(code, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if not compiled.co_flags & inspect.CO_COROUTINE:
        exec(compiled, scope)
    elif "async with" in code:
        await eval(compiled, scope)
    else:
        async with scope["app"]:
            await eval(compiled, scope)


@pytest.mark.slow
def test_the_program_in_the_readme_runs(tmp_path: Path):
    (block,) = blocks(ROOT / "README.md", "python")

    assert run_program(block.code, tmp_path) == "welcome, ada\n"


@pytest.mark.slow
def test_the_programs_of_the_quickstart_run(tmp_path: Path):
    for block in blocks(ROOT / "docs" / "quickstart.md", "python"):
        assert block.file is not None
        (tmp_path / block.file).write_text(block.code)

    assert run_program((tmp_path / "main.py").read_text(), tmp_path) == "welcome, ada\n"


def run_program(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_every_command_on_a_page_can_be_given(page: Path):
    for block in blocks(page, "console"):
        for line in block.code.splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            while words and "=" in words[0]:
                words.pop(0)
            if words and words[0] == "longshore":
                parse(words[1:])


def parse(words: list[str]) -> None:
    """Have click read the arguments, down to the last command, without running it."""
    context = command_line.make_context("longshore", words)
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        found, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(found, rest, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path):
    for link in links(page):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page

        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_is_generated_is_current(page: Path):
    assert page.read_text() == docs.renewed(page.read_text()), "run `make docs`"


def test_a_page_that_is_stale_is_noticed():
    page = "<!-- generated: state-machine -->\nsomething else\n<!-- end -->\n"

    assert "ready --> running: claim" in docs.renewed(page)
    assert docs.renewed(docs.renewed(page)) == docs.renewed(page)


def test_every_page_can_be_reached_from_the_index():
    reached = {ROOT / "README.md", ROOT / "docs" / "index.md"}
    ahead = list(reached)
    while ahead:
        page = ahead.pop()
        found = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
        new = {one for one in found if one.suffix == ".md" and one.exists()} - reached
        reached |= new
        ahead += new

    assert [name(page) for page in PAGES if page not in reached] == []


def test_the_readme_can_be_read_in_one_sitting():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
