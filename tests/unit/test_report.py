"""What a newcomer reads at the end of the demo."""

import io

import pytest
from rich.console import Console

from longshore_lab.board import PlainBoard, Scene
from longshore_lab.checkers import CHECKERS, Finding
from longshore_lab.report import show
from longshore_lab.trial import Trial
from longshore_lab.verdict import Figures, Verdict

COUNTED = Figures(**dict.fromkeys(Figures.__dataclass_fields__, 20_000))


def a_verdict(**violations: int) -> Verdict:
    findings = {
        name: Finding(name, 20_000, violations.get(name, 0), ["an example"])
        for name in (checker.__name__ for checker in CHECKERS)
    }
    return Verdict(findings, COUNTED)


def a_report(verdict: Verdict, sabotage: str | None = None) -> str:
    paper = io.StringIO()
    trial = Trial(url="sqlite://:memory:", folder="nowhere", sabotage=sabotage)
    show(Console(file=paper, width=80), trial, verdict)
    return paper.getvalue()


def test_every_promise_fits_on_one_line_of_a_small_terminal():
    text = a_report(a_verdict())

    for checker in CHECKERS:
        assert (checker.__doc__ or "?").rstrip(".") in text


def test_a_look_into_the_tables_is_told_like_any_other_check():
    verdict = a_verdict()
    verdict.findings["misplaced"] = Finding("misplaced", 20_000, 2, ["a job is in two places"])

    text = a_report(verdict)

    assert "✗ Every job is in exactly one place of the tables " in text
    assert f"by 1 of {len(CHECKERS) + 1} checks." in text


def test_a_verdict_without_violations_says_that_every_promise_held():
    assert "Every promise held." in a_report(a_verdict())
    assert "✗" not in a_report(a_verdict())


@pytest.mark.parametrize(
    ("sabotage", "words"),
    [(None, "A promise was broken"), ("fence", "planted fault was found")],
)
def test_a_verdict_with_violations_shows_an_example(sabotage: str | None, words: str):
    text = a_report(a_verdict(lost=3), sabotage)

    assert f"{words}, by 1 of {len(CHECKERS)} checks." in text
    assert "an example" in text


def test_a_plant_that_nobody_found_is_no_success():
    assert "not found" in a_report(a_verdict(), "fence")


def test_a_plain_board_tells_every_piece_of_news_once():
    paper = io.StringIO()
    scene = Scene(jobs=10)
    board = PlainBoard(Console(file=paper, width=80), scene)

    scene.tell("a worker was killed")
    board.update()
    board.update()

    assert paper.getvalue().count("a worker was killed") == 1
    assert "0 of 10 jobs finished" in paper.getvalue()
