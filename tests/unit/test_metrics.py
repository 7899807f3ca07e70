"""Counting: what is told is what was counted, also by neighbours, and labels are bounded."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from longshore.core.limit_settings import QueueFlow
from longshore.core.view import QueueCounts, SessionView
from longshore.observe.exposition import Reading
from longshore.observe.metrics import Metrics
from longshore.observe.overview import View, gauges

# Ten neighbours that count and are killed; each leaves a gauge that dies with it.
KILLED = """
import os, signal, sys
from pathlib import Path
from longshore.observe.metrics import Metrics
for _ in range(10):
    if not os.fork():
        mine = Metrics(Path(sys.argv[1]))
        mine.jobs_succeeded.add(7, "mail", "send")
        mine.worker_slots.set(64, "free")
        mine.submit.observe(0.002)
        os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
"""


def samples(page: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(page.decode())
    return {
        (one.name, frozenset(one.labels.items())): one.value
        for family in families
        for one in family.samples
    }


def value(page: bytes, name: str, **labels: str) -> float:
    return samples(page)[f"longshore_{name}", frozenset(labels.items())]


def names(page: bytes) -> Iterable[str]:
    return {name for name, _ in samples(page)}


def test_whatever_stands_in_a_label_is_read_back_as_it_was():
    metrics = Metrics()
    hostile = 'a"b\\c\nd{}=, é'

    metrics.jobs_submitted.add(3, hostile, "t")
    page = metrics.text([Reading("breaker_state", "x", ("type",), [((hostile,), 2.0)])])

    assert value(page, "jobs_submitted_total", queue=hostile, type="t") == 3
    assert value(page, "breaker_state", type=hostile) == 2


def test_queues_and_types_past_the_limit_share_one_series():
    metrics = Metrics()

    for number in range(300):
        metrics.jobs_submitted.add(1, f"queue-{number}", "t")
        metrics.job_run.observe(0.1, f"queue-{number}", "t", "succeeded")
    page = metrics.text()

    assert value(page, "jobs_submitted_total", queue="queue-199", type="t") == 1
    assert value(page, "jobs_submitted_total", queue="other", type="other") == 100
    labels = {"queue": "other", "type": "other", "outcome": "succeeded"}
    assert value(page, "job_run_seconds_count", **labels) == 100
    assert len([one for one in samples(page) if one[0].endswith("submitted_total")]) == 201


def test_names_that_are_preferred_have_series_however_many_others_were_invented():
    metrics = Metrics()
    for number in range(20_000):
        metrics.jobs_submitted.add(1, f"invented-{number}", "t")
    metrics.jobs_submitted.add(1, "mail", "send")

    metrics.labels.prefer(["mail", "reports"], ["send", "print"])
    metrics.jobs_submitted.add(2, "mail", "send")
    metrics.jobs_submitted.add(3, "reports", "print")
    metrics.jobs_claimed.add(4, "mail")
    for number in range(500):
        metrics.jobs_submitted.add(1, "mail", f"invented-{number}")
    page = metrics.text()

    assert value(page, "jobs_submitted_total", queue="mail", type="send") == 2
    assert value(page, "jobs_submitted_total", queue="reports", type="print") == 3
    assert value(page, "jobs_submitted_total", queue="mail", type="other") == 500
    assert value(page, "jobs_submitted_total", queue="other", type="other") == 19_801
    assert value(page, "jobs_claimed_total", queue="mail") == 4


def test_series_are_bounded_whatever_is_preferred():
    metrics = Metrics()
    names = [f"n{number}" for number in range(1_000)]
    metrics.labels.prefer(names, names)

    for queue in names:
        for type_ in names[:50]:
            metrics.jobs_submitted.add(1, queue, type_)
    page = metrics.text()

    series = [one for one in samples(page) if one[0].endswith("submitted_total")]
    assert len(series) <= 200 + 100 + 100 + 1
    assert sum(samples(page)[one] for one in series) == 50_000


def test_depths_are_told_of_queues_that_are_configured_served_or_busy_before_others():
    invented = [QueueCounts(queue=f"a{number:05}", ready=5) for number in range(20_000)]
    ours = [
        QueueCounts(queue="limited", ready=1),
        QueueCounts(queue="paused", is_paused=True),
        QueueCounts(queue="served", ready=1),
        QueueCounts(queue="busy", running=6),
    ]
    session = SessionView(
        token=1,
        worker="w",
        queues=("served", "empty"),
        types=("t",),
        opened_at=0,
        renewed_at=0,
        expires_at=1,
        holding=0,
    )
    view = View(0, 0, invented + ours, (), [session], settings=[QueueFlow("limited")])

    depth = next(one for one in gauges(view) if one.name == "queue_depth")
    told = {labels[0]: value for labels, value in depth.values if labels[1] == "ready"}

    assert len(told) == 201
    assert {"limited", "paused", "served", "busy"} <= set(told)
    assert told["other"] == 5 * (20_000 - 196)


def test_a_histogram_counts_one_by_one_what_it_counts_at_once():
    single, batch = Metrics(), Metrics()
    microseconds = [0, 999, 1_000, 1_001, 25_000, 9_999_999, 10_000_000_000]

    for one in microseconds:
        single.job_wait.observe(one / 1e6, "q", "t")
    batch.job_wait.observe_all(list(reversed(microseconds)), "q", "t")

    page = single.text()
    assert samples(page) == samples(batch.text())
    assert value(page, "job_wait_seconds_bucket", queue="q", type="t", le="0.001") == 3
    assert value(page, "job_wait_seconds_bucket", queue="q", type="t", le="+Inf") == 7


def test_what_a_killed_neighbour_counted_stays_and_what_it_was_goes(tmp_path: Path):
    mine = Metrics(tmp_path)
    mine.jobs_succeeded.add(1, "mail", "send")
    mine.worker_slots.set(8, "free")

    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=True, timeout=60)
    before = mine.text()
    # Who comes next puts together what the dead have left.
    newcomer = Metrics(tmp_path)
    newcomer.worker_slots.set(2, "free")
    after = newcomer.text()

    assert value(before, "jobs_succeeded_total", queue="mail", type="send") == 71
    assert value(before, "worker_slots", state="free") == 8
    assert value(after, "jobs_succeeded_total", queue="mail", type="send") == 71
    assert value(after, "submit_seconds_count") == 10
    assert value(after, "worker_slots", state="free") == 10
    assert len(list(tmp_path.glob("*.names"))) < 6
