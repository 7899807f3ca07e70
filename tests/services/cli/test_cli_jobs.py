"""Looking at jobs and ordering them about."""

import json
from datetime import datetime

from cli_steps import LEASE, Queue, Shell

from longshore.contract import Engine
from longshore.core import ids
from longshore.core.limit_settings import BreakerSettings, Layer
from longshore.core.state import State, Verb
from longshore.operations import explain as explaining
from longshore.records import breaker_settings
from longshore.testing.factories import HOUR, MINUTE, a_job
from longshore.testing.manual import a_worker


def test_a_job_is_printed_with_stable_names_text_ids_and_rfc_3339_times(
    shell: Shell, queue: Queue
):
    job_id = queue.submit(
        type="mail.send", payload=b'{"to": [1,\n2]}', tags=("a", "b"), timeout=30_000_000
    )

    (document,) = shell.lines("jobs", "list")

    assert document["id"] == job_id
    assert document["type"] == "mail.send"
    assert document["state"] == "ready"
    assert document["payload"] == {"to": [1, 2]}
    assert document["tags"] == ["a", "b"]
    assert document["timeout_seconds"] == 30
    assert document["created_at"].endswith("Z")
    assert datetime.fromisoformat(document["created_at"]).year > 2020
    assert document["result"] is None


def test_the_newest_jobs_come_first_and_only_as_many_as_asked_for(shell: Shell, queue: Queue):
    submitted = [queue.submit() for _ in range(3)]

    result = shell("jobs", "list", "--limit", 2, "--json")

    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == submitted[:0:-1]
    assert "--limit shows more" in result.stderr


def test_a_list_longer_than_a_page_is_complete(shell: Shell, queue: Queue):
    queue.ask(lambda engine: engine.submit([a_job() for _ in range(1_100)]))

    listed = [line["id"] for line in shell.lines("jobs", "list", "--limit", 5_000)]

    assert len(listed) == len(set(listed)) == 1_100


def test_filters_narrow_the_list(shell: Shell, queue: Queue):
    queue.submit(queue="mail", type="a", tags=("x",))
    wanted = queue.submit(queue="mail", type="b", tags=("x",), tenant="acme")
    queue.submit(queue="mail", type="b", tenant="acme", run_at=1 << 52)

    found = shell.lines(
        *("jobs", "list", "--queue", "mail", "--type", "b", "--tag", "x"),
        *("--tenant", "acme", "--state", "ready"),
    )

    assert [document["id"] for document in found] == [wanted]


def test_people_get_a_table_or_a_word_that_there_is_nothing(shell: Shell, queue: Queue):
    empty = shell("jobs", "list")
    job_id = queue.submit(type="mail.send")
    full = shell("jobs", "list")

    assert (empty.stdout, empty.stderr) == ("", "no jobs match\n")
    assert job_id in full.stdout
    assert "mail.send" in full.stdout


def test_what_a_task_wrote_cannot_steer_the_terminal(shell: Shell, queue: Queue):
    job_id = queue.submit()
    nasty = "\x1b[2J[red]gone[/red]"
    queue.settle(job_id, Verb.KILL, reason=nasty)

    for words in (["dead", "list"], ["jobs", "show", job_id]):
        printed = shell(*words).stdout

        assert "\x1b" not in printed
        assert "[red]gone[/red]" in printed


def test_a_job_is_shown_with_its_history(shell: Shell, queue: Queue):
    job_id = queue.dead(max_attempts=1)

    (document,) = shell.lines("jobs", "show", job_id)
    sheet = shell("jobs", "show", job_id).stdout

    assert document["state"] == "dead"
    assert document["failure"]["kind"] == "ValueError"
    assert [one["delivery"] for one in document["attempts"]] == [1]
    assert "ValueError: no such user" in sheet
    assert "out of attempts" in sheet


def test_cancel_ends_what_waits_and_prints_it(shell: Shell, queue: Queue):
    first, second = queue.submit(), queue.submit()

    printed = shell.lines("jobs", "cancel", first, second, "--reason", "mistake")

    assert [one["state"] for one in printed] == ["cancelled", "cancelled"]
    assert queue.get(first).reason == "mistake"


def test_ids_can_come_from_standard_input(shell: Shell, queue: Queue):
    job_ids = [queue.submit() for _ in range(3)]

    result = shell("jobs", "cancel", "-", input="\n".join([*job_ids, job_ids[0]]))

    assert result.exit_code == 0
    assert {queue.get(job_id).state for job_id in job_ids} == {State.CANCELLED}


def test_an_order_to_many_is_refused_whole(shell: Shell, queue: Queue):
    waiting, finished = queue.submit(queue="a"), queue.submit(queue="b")
    queue.settle(finished)

    result = shell("jobs", "cancel", waiting, finished)

    assert result.exit_code == 4
    assert result.stderr == "error: cannot cancel a job that is succeeded\n"
    assert queue.get(waiting).state is State.READY


def test_retry_makes_a_scheduled_job_ready(shell: Shell, queue: Queue):
    job_id = queue.submit(delay=10 * MINUTE)

    (printed,) = shell.lines("jobs", "retry", job_id)

    assert printed["state"] == "ready"


def test_waiting_for_a_job_ends_when_it_has_succeeded(shell: Shell, queue: Queue):
    job_id = queue.submit()
    queue.settle(job_id, result=b"7")

    (printed,) = shell.lines("jobs", "wait", job_id)

    assert printed["result"] == 7


def test_waiting_for_a_job_that_died_has_an_exit_code_of_its_own(shell: Shell, queue: Queue):
    job_id = queue.dead()

    result = shell("jobs", "wait", job_id)

    assert result.exit_code == 5
    assert f"job {job_id} ended dead: out of attempts" in result.stderr


def test_waiting_ends_when_the_time_is_over(shell: Shell, queue: Queue):
    job_id = queue.submit()

    result = shell("jobs", "wait", job_id, "--timeout", "30ms")

    assert result.exit_code == 6
    assert "not finished after 30ms" in result.stderr


async def serve_mail(engine: Engine) -> None:
    await engine.open_session(worker="w", queues=["mail"], types=["mail.send"], lease=LEASE)


def test_a_ready_job_says_what_it_waits_for(shell: Shell, queue: Queue):
    job_id = queue.submit(queue="mail", type="mail.send")

    def told() -> tuple[str, str]:
        """What `jobs show` says, and what `explain` says first."""
        (job,), (why,) = shell.lines("jobs", "show", job_id), shell.lines("explain", job_id)
        return job["waits_because"], why["reasons"][0]["text"]

    unserved, shown = told(), shell("jobs", "show", job_id).stdout
    queue.ask(serve_mail)
    served = told()
    shell("queues", "pause", "--type", "mail.send")
    paused = told()

    assert unserved[0] == unserved[1] == "No worker is connected."
    assert unserved[0] in shown
    assert served[0] == served[1] != unserved[0]
    assert paused[0] == paused[1]
    assert "paused" in paused[0]


def test_a_running_job_shows_how_far_it_says_it_is(shell: Shell, queue: Queue):
    job_id = queue.submit()

    async def report(engine: Engine) -> None:
        worker = await a_worker(engine)
        (claim,) = await worker.claim()
        await worker.report(claim, 0.4, "resizing")

    queue.ask(report)

    (document,) = shell.lines("jobs", "show", job_id)
    told = document["progress"]
    assert (told["fraction"], told["message"]) == (0.4, "resizing")
    assert told["at"].endswith("Z")
    assert "40% resizing, " in shell("jobs", "show", job_id).stdout


def test_jobs_are_cancelled_and_retried_by_filter(shell: Shell, queue: Queue):
    mail = [queue.submit(queue="mail", tags=("t",)) for _ in range(2)]
    later, other = queue.submit(queue="mail", delay=HOUR), queue.submit(queue="web")

    dry = shell("jobs", "cancel", "--queue", "mail", "--tag", "t", "--dry-run")
    refused = shell("jobs", "cancel", "--queue", "mail", input="n\n")
    tagged = ("--queue", "mail", "--state", "ready", "--tag", "t", "--rate", "500/s", "--yes")
    cancelled = shell("jobs", "cancel", *tagged, "--json")
    retried = shell("jobs", "retry", "--type", "noop", "--yes")
    odd = shell("jobs", "retry", "--state", "running", "--yes")

    assert dry.stdout == "2 jobs would be cancelled\n"
    assert "3 jobs will be cancelled; go on?" in refused.stderr
    assert json.loads(cancelled.stdout) == {"cancelled": 2, "missed": 0, "dry_run": False}
    assert retried.stdout == "1 job retried\n"
    assert (odd.exit_code, "must be scheduled" in odd.stderr) == (2, True)
    found = [queue.get(job_id).state for job_id in (*mail, later, other)]
    assert found == [State.CANCELLED, State.CANCELLED, State.READY, State.READY]


def test_a_job_is_explained(shell: Shell, queue: Queue):
    first, second = queue.submit(queue="mail"), queue.submit(queue="mail", priority=9)
    urgent = queue.submit(queue="mail", priority=1)
    shell("queues", "pause", "mail")

    words = shell("explain", first).stdout
    paused = json.loads(shell("explain", first, "--json").stdout)
    shell("queues", "resume", "mail")

    async def look(engine: Engine) -> list[int | None]:
        worker = await a_worker(engine, queues=["mail"])
        named = map(ids.parse, (first, second, urgent))
        ahead = [(await explaining.gather(engine, one)).ahead for one in named]
        await breaker_settings.put(
            engine, "noop", Layer.OVERRIDDEN, BreakerSettings(failures=1)
        )
        (claim,) = await worker.claim()
        await worker.fail(claim)
        return ahead

    assert "The queue mail is paused" in words
    assert "No worker is connected." in words
    assert [one["code"] for one in paused["reasons"]] == ["paused", "no_worker"]
    assert (paused["id"], paused["state"]) == (first, "ready")
    assert queue.ask(look) == [1, 2, 0]
    assert "The breaker of noop is open" in shell("explain", first).stdout
    assert shell("explain", ids.text(a_job().id)).exit_code == 3


def test_slow_tells_by_type_whether_jobs_wait_or_run(shell: Shell, queue: Queue):
    for name, task in (("mail", "send"), ("reports", "build")):
        job_id = queue.submit(queue=name, type=task)
        queue.settle(job_id, started_at=1, finished_at=3)

    (line,) = shell.lines("jobs", "slow", "--queue", "mail")
    shown = shell("jobs", "slow").stdout
    nothing = shell("jobs", "slow", "--queue", "none")

    assert (line["type"], line["queue"], line["jobs"]) == ("send", "mail", 1)
    assert line["wait"]["p99"] >= line["wait"]["p50"] >= 0
    assert " 2µs / 2µs / 2µs " in shown
    assert "send" in shown
    assert "build" in shown
    assert "no finished jobs match" in nothing.output
