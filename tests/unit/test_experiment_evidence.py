"""Plots show an experiment's data, and the evidence for a bound is what was seen."""

import xml.etree.ElementTree as Xml

import msgspec
import pytest
from msgspec.structs import replace

from longshore_lab.experiments import evidence
from longshore_lab.experiments.chart import draw
from longshore_lab.experiments.findings import Drawing, Line
from longshore_lab.experiments.processors import role_of
from longshore_lab.experiments.sampler import Sample
from longshore_lab.experiments.spread import Spread, few, spread

SVG = "{http://www.w3.org/2000/svg}"
HALF = Line(name="half", points=[(16.0, 50.0), (64.0, 100.0), (256.0, 75.0)])


def a_sample(at: float, depth: int) -> Sample:
    return Sample(
        at=at,
        seconds=1.0,
        ready=depth,
        cores={"worker": 0.5, "server": 1.0},
        busy=1.7,
        stolen=0.1,
        written=2**20,
        store_bytes=2**21,
        dead_rows=5,
        waits={"IO:WalSync": 3, "running": 1},
    )


def test_a_line_of_twice_the_value_is_drawn_twice_as_high():
    (line,) = Xml.fromstring(draw([Drawing(title="t", x="x", lines=[HALF])])).iter(
        f"{SVG}polyline"
    )

    points = [tuple(map(float, one.split(","))) for one in line.attrib["points"].split()]
    bottom = 46 + 200
    assert bottom - points[1][1] == pytest.approx(2 * (bottom - points[0][1]), abs=0.2)


def test_steps_that_double_are_equally_far_apart_on_a_logarithmic_axis():
    drawing = Drawing(title="t", x="x", is_log=True, lines=[HALF])

    (line,) = Xml.fromstring(draw([drawing])).iter(f"{SVG}polyline")

    xs = [float(one.split(",")[0]) for one in line.attrib["points"].split()]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)


def test_bars_stand_upon_each_other_beside_a_band_and_a_level():
    first = Line(name="first", is_bars=True, points=[(0.0, 10.0), (1.0, 10.0)])
    again = Line(name="again", is_bars=True, points=[(0.0, 5.0), (1.0, 10.0)])
    drawing = Drawing(title="t", x="x", lines=[first, again], band=(0.0, 1.0), level=20.0)

    root = Xml.fromstring(draw([drawing]))

    bars = [one for one in root.iter(f"{SVG}rect") if one.get("fill") == "#0b6e99"]
    tops = [one for one in root.iter(f"{SVG}rect") if one.get("fill") == "#b8b8b8"]
    assert len(bars) == len(tops) == 3  # one more each, in the legend
    assert float(bars[0].attrib["y"]) + float(bars[0].attrib["height"]) == pytest.approx(
        float(tops[0].attrib["y"]), abs=0.2
    )
    assert any("dasharray" in name for one in root.iter() for name in one.attrib)


@pytest.mark.parametrize(
    "points", [[], [(3.0, 0.0)], [(3.0, 7.0)]], ids=["none", "a zero", "one"]
)
def test_a_plot_of_hardly_anything_can_be_drawn(points: list[tuple[float, float]]):
    drawing = Drawing(title="t", x="x", lines=[Line(name="n", points=points)])

    Xml.fromstring(draw([drawing, drawing]))


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("python -m longshore.bench.processes producer 0 /tmp/x", "producer"),
        ("python -m longshore.bench.processes worker 1 /tmp/x", "worker"),
        ("python -m longshore_lab.actor worker worker-1 {}", "worker"),
        ("python -X dev -m longshore_lab.experiments.crew worker m:f {}", "worker"),
        ("python -m longshore.keeper 3", "worker"),
        ("python -m longshore scheduler --url x", "scheduler"),
        ("python other.py worker", "other"),
        ("", "other"),
    ],
)
def test_the_command_line_tells_who_uses_the_processor(command: str, role: str):
    assert role_of(command.split()) == role


def test_the_evidence_names_processors_waits_and_the_store():
    samples = [a_sample(float(at), 100 - at) for at in range(1, 11)]

    processors, waits, store = evidence.bound(samples)

    assert ["worker", "0.50"] in [list(row) for row in processors.rows]
    assert waits.title == "What 40 looks at busy sessions of the server saw"
    assert [list(row) for row in waits.rows] == [["IO:WalSync", "75.0%"], ["running", "25.0%"]]
    assert ["log written per second", "1.0 MiB"] in [list(row) for row in store.rows]
    assert evidence.bound([]) == []


def test_the_log_is_told_by_the_seconds_that_were_seen_of_however_many_runs():
    middle = [a_sample(float(at), 0) for at in range(31, 41)]

    *_, store = evidence.bound(middle + middle + middle)
    *_, unknown = evidence.bound([replace(one, written=0) for one in middle])

    assert ["log written per second", "1.0 MiB"] in [list(row) for row in store.rows]
    assert all("log written" not in what for what, _ in unknown.rows)


def test_evidence_is_of_the_seconds_in_which_jobs_ended():
    ended = [0, 0, 3, 9, 9, 12, 12, 12]
    samples = [replace(a_sample(float(at), 0), finished=n) for at, n in enumerate(ended)]

    assert [one.at for one in evidence.at_work(samples)] == [2, 3, 4, 5]
    assert evidence.at_work(samples[:2]) == samples[:2]


def test_a_long_series_is_thinned_and_keeps_its_last_point():
    samples = [a_sample(float(at), at) for at in range(1_201)]

    kept = evidence.thinned(samples)

    assert len(kept) <= 240
    assert kept[-1] == samples[-1]
    assert len(msgspec.json.encode(evidence.series(samples))) < 40_000


def test_few_of_many_values_are_spread_as_all_are():
    values = [float(one) for one in range(100_000)]

    kept = few(values)

    assert len(kept) <= 25_000
    assert max(kept) == 99_999
    assert spread(kept).p99 == pytest.approx(spread(values).p99, rel=0.001)
    assert spread([]) == Spread()
