"""Experiments leave data, and what is drawn and told comes from those and from nothing else."""

import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as Xml
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from longshore_lab import docs
from longshore_lab.experiments import page
from longshore_lab.experiments.__main__ import judge
from longshore_lab.experiments.bounds import named
from longshore_lab.experiments.catalogue import EXPERIMENTS, of_the_day
from longshore_lab.experiments.experiment import Experiment
from longshore_lab.experiments.findings import (
    Drawing,
    Findings,
    Line,
    Machine,
    Promise,
    Record,
    Table,
)
from longshore_lab.experiments.plants import PLANTS
from longshore_lab.experiments.probe import FREE, HELD
from longshore_lab.experiments.runner import DATA, ROOT, keep, read
from longshore_lab.experiments.screen import drawn, picture

SVG = "{http://www.w3.org/2000/svg}"
LOSS = next(one for one in EXPERIMENTS if one.name == "loss")
HALF = Line(name="half", points=[(16.0, 50.0), (64.0, 100.0), (256.0, 75.0)])


def a_record(
    *,
    holds: bool = True,
    is_quick: bool = False,
    is_speed: bool = False,
    planted: str = "",
    screen: Sequence[str] = (),
) -> Record:
    return Record(
        planted=planted,
        experiment="loss",
        is_quick=is_quick,
        commit="0123456789ab",
        seed=7,
        began="2026-01-02T03:04:05+00:00",
        seconds=61.5,
        machine=Machine(
            cores=2,
            processor="a processor",
            memory_gib=8,
            system="Linux 6",
            python="3.11",
            store="PostgreSQL, durable",
            load_before=0.5,
        ),
        config={"seed": 7, "rate": 10},
        findings=Findings(
            headline="0 of 10 jobs lost",
            promises=[Promise("none is lost", "0", holds, is_speed)],
            results={"lost": 0},
            tables=[Table("Counts", ["what", "how many"], [["lost", "0"]])],
            drawings=[Drawing(title="A <b>old> plot", x="slots", lines=[HALF], is_log=True)],
            bounds=processors(server="1.20", everyone="1.90 of 2"),
            series={"at_s": [1, 2, 3], "depth": [30, 20, 10]},
            screen=list(screen),
        ),
    )


def processors(*, everyone: str, part: str = "", **roles: str) -> list[Table]:
    rows = [*roles.items(), ("everyone on this machine", everyone)]
    rows.append(("taken away by the host", "0.00"))
    return [Table(f"Processors{part}", ["who", "cores"], [list(row) for row in rows])]


def waits(part: str = "", **shares: str) -> list[Table]:
    rows = [[event.replace("__", ":"), share] for event, share in shares.items()]
    title = f"What 40 looks at busy sessions of the server saw{part}"
    return [Table(title, ["wait event", "share"], rows)]


def looks(found: str, share: str) -> list[Table]:
    title = "What 40 looks at the file's write lock saw"
    return [Table(title, ["wait event", "share"], [[found, share]])]


def test_what_is_kept_is_read_again(tmp_path: Path):
    record = a_record()

    path = keep(record, tmp_path)

    assert read("loss", tmp_path) == record
    assert '   "depth": [30,20,10]\n' in path.read_text()
    assert (tmp_path / "loss.svg").exists()


def test_a_short_run_does_not_replace_a_full_one(tmp_path: Path):
    keep(a_record(is_quick=True), tmp_path)
    assert read("loss", tmp_path) == a_record(is_quick=True)

    keep(a_record(), tmp_path)
    keep(a_record(is_quick=True), tmp_path)

    assert read("loss", tmp_path) == a_record()


def test_a_page_tells_commit_seed_machine_figures_plot_and_bound(tmp_path: Path):
    keep(a_record(), tmp_path)

    told = page.told(LOSS, tmp_path)

    for words in (
        "Commit 0123456789ab, seed 7, 62 s, 2026-01-02; 2 × a processor",
        "$ python -m longshore_lab.experiments loss --seed 7",
        "| none is lost | 0 | yes |",
        "| lost | 0 |",
        "(data/loss.svg)",
        "| server | 1.20 |",
        '`{"seed":7,"rate":10}`',
    ):
        assert words in told
    assert "short" not in told


def test_a_page_says_that_a_run_was_short_and_that_a_promise_was_broken(tmp_path: Path):
    keep(a_record(is_quick=True, holds=False), tmp_path)

    told = page.told(LOSS, tmp_path)

    assert told.startswith("A short run")
    assert "loss --quick --seed 7" in told
    assert "| none is lost | 0 | **no** |" in told
    assert "**Not kept**: none is lost: 0." in page.judged(LOSS, tmp_path)


def test_without_a_run_a_page_and_the_readme_say_so(tmp_path: Path):
    assert "No run is kept" in page.told(LOSS, tmp_path)
    assert page.judged(LOSS, tmp_path) == "Not judged yet: no run is kept."
    assert "| not tried | no run yet | none yet |" in row_of_loss(tmp_path)


def row_of_loss(folder: Path) -> str:
    (row,) = [line for line in page.kept(folder).splitlines() if "experiments loss" in line]
    return row


def test_the_readme_gives_each_promise_its_figure_fault_command_and_run(tmp_path: Path):
    keep(a_record(), tmp_path)
    keep(a_record(is_quick=True, holds=False, planted="loss"), tmp_path)

    assert row_of_loss(tmp_path).endswith(
        "| yes | 0 of 10 jobs lost | one submission in fifty is answered, and never stored "
        "| `python -m longshore_lab.experiments loss --seed 7` "
        "| 0123456789ab, seed 7, 1 min, 2026-01-02, PostgreSQL, durable |"
    )
    assert "Measured on 2 × a processor, 8 GiB, Linux 6, Python 3.11." in page.kept(tmp_path)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([a_record()], "no fault planted yet"),
        ([a_record(), a_record(planted="loss")], "no fault planted yet"),
        ([a_record(is_quick=True)], "quick run only"),
        ([a_record(is_quick=True, holds=False, is_speed=True)], "quick run only"),
        ([a_record(is_quick=True, holds=False)], "**no**"),
        ([a_record(holds=False, is_speed=True)], "**no**"),
        ([a_record(), a_record(is_quick=True, holds=False)], "no fault planted yet"),
    ],
    ids=["no fault", "missed", "short", "short and slow", "short, broken", "slow", "both"],
)
def test_only_a_full_run_that_found_its_fault_counts_as_a_promise_kept(
    runs: list[Record], said: str, tmp_path: Path
):
    for record in runs:
        keep(record, tmp_path)

    assert f"| {said} | 0 of 10 jobs lost |" in row_of_loss(tmp_path)


def test_a_verdict_names_the_planted_fault_and_what_showed_it(tmp_path: Path):
    keep(a_record(), tmp_path)
    keep(a_record(holds=False, planted="loss"), tmp_path)
    assert (
        "With a fault planted (one submission in fifty is answered, and never stored) it "
        "fails, as it should: none is lost: 0." in page.judged(LOSS, tmp_path)
    )

    keep(a_record(planted="loss"), tmp_path)

    assert "**It did not find the fault planted in it**" in page.judged(LOSS, tmp_path)


def test_of_a_run_with_a_planted_fault_nothing_is_kept_but_what_broke(tmp_path: Path):
    path = keep(a_record(holds=False, planted="loss", screen=["top"]), tmp_path)

    assert [one.name for one in tmp_path.iterdir()] == ["loss-broken.json"]
    assert "depth" not in path.read_text()


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (
            processors(worker="0.80", server="0.95", everyone="1.90 of 2")
            + waits(IO__WalSync="75.0%", running="25.0%"),
            "The processors were the bound: 1.90 of 2 cores busy, 1.75 of them ours "
            "(server 0.95, worker 0.80); busy sessions of the server: 75% log, 25% running.",
        ),
        (
            processors(worker="0.10", server="0.20", everyone="2.00 of 2"),
            "Others had the machine, so this says nothing of a bound: 2.00 of 2 cores busy, "
            "0.30 of them ours (server 0.20, worker 0.10).",
        ),
        (
            processors(server="0.60", everyone="0.90 of 2", part=", 16 slots")
            + waits(part=", 16 slots", IO__WalSync="40.0%", LWLock__WALWrite="20.0%")
            + waits(part=", 64 slots", Lock__tuple="99.0%"),
            "16 slots: not the processors; the server waited most for its log, as every "
            "commit does: 0.90 of 2 cores busy, 0.60 of them ours (server 0.60); busy "
            "sessions of the server: 60% log.",
        ),
        (
            processors(server="0.60", everyone="0.90 of 2")
            + waits(running="70.0%", LWLock__LockManager="30.0%"),
            "Nothing of the machine was used up: 0.90 of 2 cores busy, 0.60 of them ours "
            "(server 0.60); busy sessions of the server: 70% running, 30% locks.",
        ),
        (
            processors(worker="0.60", everyone="1.40 of 2") + looks(HELD, "90.0%"),
            "Not the processors; the file's write lock, which one has at a time: 1.40 of 2 "
            "cores busy, 0.60 of them ours (worker 0.60); the file's write lock held in 90% "
            "of the looks.",
        ),
        (
            processors(worker="0.60", everyone="1.40 of 2") + looks(FREE, "100.0%"),
            "Nothing of the machine was used up: 1.40 of 2 cores busy, 0.60 of them ours "
            "(worker 0.60); the file's write lock held in 0% of the looks.",
        ),
    ],
    ids=["processors", "others", "log", "nothing", "lock", "free"],
)
def test_the_bound_is_named_with_the_figures_it_follows_from(tables: list[Table], said: str):
    assert list(named(tables)) == [said]


def test_an_experiment_that_says_nothing_of_a_bound_says_how_busy_the_machine_was(
    tmp_path: Path,
):
    busy = replace(a_record().machine, load_before=15.0)
    bare = replace(a_record().findings, bounds=())
    keep(replace(a_record(), machine=busy, findings=bare), tmp_path)

    assert "The machine was busy before it began (load 15" in page.judged(LOSS, tmp_path)


def git(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="session")
def history() -> None:
    """The commits of this tree, all of them. A copy without them cannot be asked."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no git history here")
    if git("rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        pytest.skip("a shallow clone does not know its history")


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.stem)
def test_every_run_that_is_kept_is_of_a_commit_that_led_here(path: Path):
    commit = msgspec.json.decode(path.read_bytes(), type=Record).commit.removesuffix("+")

    assert git("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0, f"no commit {commit}"
    assert git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0, commit


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.stem)
def test_every_run_that_is_kept_says_whence_it_is(path: Path):
    record = msgspec.json.decode(path.read_bytes(), type=Record)

    assert record.name == path.stem
    assert re.fullmatch(r"[0-9a-f]{12}\+?", record.commit)
    is_a_trial = record.is_quick and not record.planted
    assert is_a_trial or not record.commit.endswith("+"), "of no commit"
    assert record.config["seed"] == record.seed
    assert record.seconds > 0
    assert record.machine.cores > 0
    assert all((record.machine.processor, record.machine.system, record.machine.store))


WHOSE = """
from longshore import open_store
from longshore_lab import actor, sabotage
for opens in (open_store.open_store, sabotage.open_store):
    print(type(opens("sqlite://:memory:")).__name__)
"""


def test_whoever_opens_an_engine_has_the_planted_fault_and_what_is_done_soundly_has_none():
    sound = f"from longshore_lab.experiments.plants import soundly; soundly(['-c', {WHOSE!r}])"
    words = ["-c", f"{WHOSE}\n{sound}"]
    start = f"from longshore_lab.experiments.plants import start_again as s; s('loss', {words})"

    done = subprocess.run(
        [sys.executable, "-c", start], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["Forgetful", "Forgetful", "SqliteEngine", "SqliteEngine"]


@pytest.mark.parametrize("one", EXPERIMENTS, ids=lambda one: one.name)
def test_every_experiment_has_a_fault_to_find(one: Experiment):
    assert one.plant in PLANTS or one.name in {"leases", "worlds"}


def test_the_last_window_of_top_becomes_a_picture_without_the_place_of_the_store(
    tmp_path: Path,
):
    written = (
        "\x1b[?1049h\x1b[0m\x1b[2J"
        "\x1b[1;1Hold\x1b[0m\x1b[K"
        "\x1b[1;1H\x1b[1mtop\x1b[0m postgresql:///x?host=/home/ann <b>\x1b[0m\x1b[K"
        "\x1b[3;1H\x1b[7mmail \x1b[0m\x1b[0m\x1b[K"
    )

    lines = drawn(written)

    assert lines[0] == "\x1b[1mtop\x1b[0m postgresql://… <b>"
    texts = [one.text for one in Xml.fromstring(picture(lines)).iter(f"{SVG}text")]
    assert texts == ["top", " postgresql://… <b>", "mail "]
    keep(a_record(screen=lines), tmp_path)
    assert (tmp_path / "loss-top.svg").read_text() == picture(lines)
    assert "(data/loss-top.svg)" in page.told(LOSS, tmp_path)


def test_a_window_that_was_never_drawn_is_no_picture():
    assert drawn("\x1b[?1049h") == []


def test_a_broken_promise_is_an_exit_code():
    assert judge(a_record()) == 0
    assert judge(a_record(holds=False)) == 1
    assert judge(a_record(holds=False, is_quick=True)) == 1
    assert judge(a_record(holds=False, is_speed=True)) == 1


def test_a_short_run_breaks_no_promise_by_being_slow():
    assert judge(a_record(holds=False, is_quick=True, is_speed=True)) == 0


@pytest.mark.parametrize("one", EXPERIMENTS, ids=lambda one: one.name)
def test_every_experiment_has_a_page_whose_verdict_survives_that_it_is_written_again(one):
    text = (ROOT / "docs" / "experiments" / f"{one.page}.md").read_text()

    assert f"<!-- generated: experiment-{one.name} -->" in text
    assert f"<!-- generated: verdict-{one.name} -->" in text
    verdict = text.partition("## Verdict\n")[2]
    assert verdict.strip()
    assert docs.renewed(text).endswith(verdict)


def test_all_experiments_have_their_day():
    days = [date(2026, 1, 1) + timedelta(days=one) for one in range(len(EXPERIMENTS))]

    pairs = [of_the_day(day) for day in days]

    assert {len(pair) for pair in pairs} == {2}
    assert {one.name for pair in pairs for one in pair} == {one.name for one in EXPERIMENTS}
