"""Why a job does not run, reason by reason."""

from typing import Any

import pytest

from longshore.core import ids
from longshore.core.explain import Facts, Pace, explain, goes_first, pace
from longshore.core.job import Failure, Job
from longshore.core.limit_settings import BreakerFlow, Order, Phase, QueueSettings
from longshore.core.ordering_key import Line
from longshore.core.state import State
from longshore.core.view import Pause, QueueCounts, SessionView
from longshore.testing.factories import HOUR, MINUTE, SECOND, an_id

NOW = 1_767_225_600_000_000


def a_job(state: State = State.READY, **changes: Any) -> Job:
    facts: dict[str, Any] = {
        "id": an_id(),
        "type": "mail.send",
        "queue": "mail",
        "tenant": "default",
        "state": state,
        "priority": 5,
        "payload": b"{}",
        "run_at": NOW,
        "created_at": NOW,
        "max_attempts": 5,
        "timeout": 300 * SECOND,
        "delivery": 0,
        "attempt": 0,
        "failures": 0,
        "crashes": 0,
        "lapses": 0,
    }
    return Job(**facts | changes)


def a_session(**changes: Any) -> SessionView:
    facts: dict[str, Any] = {
        "token": 1,
        "worker": "w",
        "queues": ("mail",),
        "types": ("mail.send",),
        "opened_at": NOW,
        "renewed_at": NOW,
        "expires_at": NOW + MINUTE,
        "holding": 0,
    }
    return SessionView(**facts | changes)


def told(job: Job | None = None, **facts: Any) -> list[tuple[str, str, int | None]]:
    """The reasons of a job that a worker serves, with all else at its default."""
    usual: dict[str, Any] = {"job": job or a_job(), "now": NOW, "sessions": [a_session()]}
    known = Facts(**usual | facts)
    return [(one.code, one.text, one.until) for one in explain(known)]


def codes(job: Job | None = None, **facts: Any) -> list[str]:
    return [code for code, _, _ in told(job, **facts)]


def test_a_ready_job_that_nothing_keeps_is_next():
    assert told() == [("next", "Nothing keeps it: the next free worker takes it.", None)]


def test_a_job_behind_others_waits_for_its_turn():
    counts = QueueCounts(queue="mail", ready=41, oldest_ready_at=NOW - 125 * SECOND)

    ((code, text, until),) = told(ahead=40, counts=counts)

    assert (code, until) == ("queued", None)
    assert "up to 40 ready jobs before it. The oldest ready job has waited 2m5s." in text


def test_a_job_behind_others_says_when_its_turn_comes_at_the_pace_of_its_queue():
    ((code, text, until),) = told(ahead=39, pace=Pace(2.0, SECOND))

    assert (code, until) == ("queued", NOW + 20 * SECOND)
    assert text.endswith(
        "before it; as fast as the queue has been lately, its turn comes within about 20s."
    )


def test_the_pace_of_a_queue_is_that_of_what_ended_lately():
    def ended(ago: int, ran: int) -> Job:
        finished = NOW - ago
        return a_job(State.SUCCEEDED, started_at=finished - ran, finished_at=finished)

    recent = [ended(SECOND, SECOND), ended(10 * SECOND, 3 * SECOND)]

    assert pace([*recent, ended(HOUR, HOUR)], NOW) == Pace(0.2, 2 * SECOND)
    assert pace([ended(0, SECOND), ended(0, SECOND)], NOW) == Pace(2e6, SECOND)
    assert pace([ended(HOUR, HOUR), recent[0]], NOW) is None
    assert pace([], NOW) is None


@pytest.mark.parametrize(
    ("pause", "command"),
    [
        (Pause("mail", None), "The queue mail is paused; `longshore queues resume mail` ends"),
        (Pause(None, "mail.send"), "`longshore queues resume --type mail.send` ends"),
        (Pause("mail", "mail.send"), "The type mail.send in queue mail is paused"),
        (Pause("web", None), None),
        (Pause("mail", "other"), None),
    ],
)
def test_a_pause_is_named_with_what_ends_it(pause: Pause, command: str | None):
    ((code, text, _),) = told(pauses=[pause])

    assert code == ("next" if command is None else "paused")
    assert (command or "") in text


@pytest.mark.parametrize(
    ("sessions", "words"),
    [
        ([], "No worker is connected."),
        ([a_session(queues=("web",))], "No connected worker serves the queue mail."),
        ([a_session(types=("x",))], "No connected worker knows the type mail.send."),
        (
            [a_session(types=("x",)), a_session(queues=("web",))],
            "No connected worker serves both the type mail.send and queue mail.",
        ),
        ([a_session(is_quiet=True)], "Every worker that serves mail.send on queue mail is"),
    ],
)
def test_a_missing_worker_is_named_by_what_is_missing(sessions: list[SessionView], words: str):
    ((code, text, _),) = told(sessions=sessions)

    assert code == "no_worker"
    assert text.startswith(words)


def test_a_breaker_says_when_it_is_tried_again():
    shut = BreakerFlow("mail.send", phase=Phase.OPEN, until=NOW + 30 * SECOND)

    ((code, text, until),) = told(a_job(parked="breaker"), breaker=shut)

    assert (code, until) == ("breaker", NOW + 30 * SECOND)
    assert text.endswith("it is tried again in 30s.")
    assert codes(breaker=BreakerFlow("mail.send")) == ["next"]


def test_a_breaker_that_is_tried_says_when_that_is_known():
    tried = BreakerFlow("mail.send", phase=Phase.HALF_OPEN, since=NOW - MINUTE)

    ((code, text, until),) = told(breaker=tried)
    ((_, endless, never),) = told(a_job(timeout=None), breaker=tried)

    assert (code, until) == ("breaker", NOW + 4 * MINUTE)
    assert text.endswith("try whether it works; that is known within 4m at the latest.")
    assert endless.endswith("try whether it works.")
    assert never is None


def test_a_job_in_a_line_says_whom_it_waits_for():
    first, job = a_job(), a_job(parked="line", ordering_key="user:7")
    where = {"queue": job.queue, "key": "user:7", "tenant": job.tenant, "parked": 1}
    held = Line(**where, inside=1, last=first.id)
    blocked = Line(**where, inside=0, last=first.id, dead=(first.id,))
    several = Line(**where, inside=3, last=first.id)

    waits = told(job, line=held)
    stands = told(job, line=blocked)
    shares = told(job, line=several, settings=QueueSettings(max_running_per_key=3))

    name = ids.text(first.id)
    assert waits == [
        (
            "line",
            f"It waits for job {name}, which is before it in the ordering key user:7.",
            None,
        )
    ]
    assert stands[0][0] == "line_blocked"
    assert stands[0][1].startswith(f"The dead job {name} blocks the ordering key user:7; ")
    assert shares[0][1].endswith("the queue runs 3 of a key at once.")


def test_a_job_in_a_line_says_when_its_turn_comes_if_it_is_the_last():
    job = a_job(parked="line", ordering_key="user:7")
    where = {"queue": job.queue, "key": "user:7", "tenant": job.tenant}
    shared = QueueSettings(max_running_per_key=2)

    alone = told(job, line=Line(**where, parked=5, inside=1, last=job.id), pace=Pace(9, SECOND))
    two = told(
        job, line=Line(**where, parked=5, inside=2), pace=Pace(9, SECOND), settings=shared
    )

    assert alone[0][2] == NOW + 5 * SECOND
    assert alone[0][1].endswith("its turn comes within about 5s.")
    assert two[0][2] == NOW + 3 * SECOND


def test_a_job_in_a_line_with_a_rate_says_when_it_opens():
    job = a_job(parked="line", ordering_key="user:7")
    line = Line(
        queue=job.queue, key="user:7", tenant=job.tenant, inside=0, parked=3, opens_at=NOW
    )

    ((code, text, until),) = told(job, line=line, settings=QueueSettings(rate_per_key=0.5))
    lifted = told(job, line=line)

    assert (code, until) == ("rate_per_key", NOW + 4 * SECOND)
    assert "starts at most 0.5/s of an ordering key, and 3 of user:7 wait" in text
    assert (lifted[0][0], lifted[0][2]) == ("rate_per_key", NOW)


def test_a_parked_job_says_behind_what():
    job = a_job(parked="another job of its key runs", ordering_key="user:7")

    ((code, text, _),) = told(job)

    assert code == "parked"
    assert text == "It waits, among the jobs of the key user:7: another job of its key runs."


def test_a_full_queue_says_how_many_run():
    limit = QueueSettings(max_running=3)

    ((code, text, _),) = told(settings=limit, running=3, ahead=2)

    assert code == "max_running"
    assert "runs at most 3 jobs at once" in text
    assert "up to 2 ready jobs before it" in text
    assert codes(settings=limit, running=2) == ["next"]
    paced = told(settings=limit, running=3, ahead=2, pace=Pace(0.5, SECOND))
    assert paced[0][2] == NOW + 6 * SECOND
    assert paced[0][1].endswith("its turn comes within about 6s.")


def test_a_rate_gives_the_time_of_its_turn():
    limit = QueueSettings(rate=10.0)

    ((code, text, until),) = told(settings=limit, ahead=600)

    assert (code, until) == ("rate", NOW + MINUTE)
    assert "at most 10/s, with up to 600 ready jobs before it" in text
    assert text.endswith("within about 1m.")
    assert told(settings=limit, token_at=NOW + SECOND)[0][2] == NOW + SECOND
    assert codes(settings=limit) == ["next"]


def test_a_scheduled_job_says_when_it_is_due():
    ((code, text, until),) = told(a_job(State.SCHEDULED, run_at=NOW + 90 * MINUTE))

    assert (code, until) == ("scheduled", NOW + 90 * MINUTE)
    assert text == "It is not due yet: it is due in 1h30m, at 2026-01-01T01:30:00Z."


def test_a_retry_says_what_failed_and_how_often_it_may():
    why = Failure("ValueError", "no such\nuser")
    job = a_job(State.SCHEDULED, run_at=NOW + 12 * SECOND, failures=4, failure=why)

    ((code, text, until),) = told(job)

    assert (code, until) == ("retry", NOW + 12 * SECOND)
    assert text.startswith(
        "Attempt 4 of 5 failed (ValueError: no such user); it is tried again"
    )
    assert text.endswith("dead after 1 more failure.")


def test_a_retry_that_many_others_put_off_says_by_how_much():
    why = Failure("ConnectionError", "refused", put_off=83 * SECOND)
    job = a_job(State.SCHEDULED, run_at=NOW + 90 * SECOND, failures=1, failure=why)

    _, (code, text, until) = told(job, settings=QueueSettings(retry_rate=0.5))
    _, (_, usual, _) = told(job)

    assert (code, until) == ("retry_rate", NOW + 90 * SECOND)
    assert text == (
        "Many jobs failed at once, and at most 0.5/s of those come back to queue mail: "
        "it waits 1m23s longer than it would by itself."
    )
    assert "about as many as normally succeed" in usual


def test_a_job_that_nobody_promotes_says_so():
    assert codes(a_job(State.SCHEDULED, run_at=NOW - HOUR)) == ["overdue"]
    assert codes(a_job(State.SCHEDULED, run_at=NOW - SECOND)) == ["scheduled"]


def test_what_must_be_changed_is_told_of_a_scheduled_job_too():
    job = a_job(State.SCHEDULED, run_at=NOW + HOUR)

    assert codes(job, sessions=[], pauses=[Pause("mail", None)]) == [
        "scheduled",
        "paused",
        "no_worker",
    ]


def test_a_running_job_says_where_and_how_long():
    job = a_job(State.RUNNING, worker="w1", started_at=NOW - 5 * SECOND)

    assert told(job) == [
        ("running", "It has run on w1 for 5s, and is stopped after 5m.", NOW + 295 * SECOND)
    ]
    assert codes(a_job(State.RUNNING, worker="w1")) == ["buffered"]
    assert codes(a_job(State.RUNNING, worker="w1", cancel_requested=True)) == ["stopping"]


def test_a_job_that_ended_says_how():
    began = NOW - HOUR - 4 * SECOND
    died = a_job(
        State.DEAD,
        run_at=began - 11 * SECOND,
        started_at=began,
        finished_at=NOW - HOUR,
        attempt=2,
        reason="exhausted",
    )

    ((code, text, _),) = told(died)

    assert code == "dead"
    assert text == (
        "It died 1h ago: exhausted. It ran 4s on attempt 2 after waiting 11s. "
        "`longshore dead replay` runs it again."
    )
    assert codes(a_job(State.SUCCEEDED, finished_at=NOW)) == ["succeeded"]
    assert codes(a_job(State.CANCELLED, finished_at=NOW)) == ["cancelled"]


def test_who_goes_first_is_a_matter_of_priority_and_arrival():
    urgent, early = a_job(priority=1, run_at=NOW + MINUTE), a_job(priority=9)
    aging = QueueSettings(order=Order.AGING, aging=SECOND)

    assert goes_first(urgent, early, QueueSettings())
    assert not goes_first(urgent, early, aging)
    assert not goes_first(early, early, QueueSettings())
