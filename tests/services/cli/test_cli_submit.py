"""Submitting from the shell."""

import json
from pathlib import Path

import pytest
from cli_steps import Queue, Shell

from longshore.core.state import State
from longshore.testing.factories import MINUTE

APP = """
from longshore import Longshore

app = Longshore("sqlite:///shop.db")

@app.task(queue="mail", name="mail.send", max_attempts=2)
async def send(user_id: int, subject: str = "hello") -> None: ...

other = 7
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An application of the user's."""
    (tmp_path / "shop.py").write_text(APP)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "shop", raising=False)
    return "shop:app"


def payload_of(queue: Queue, job_id: str) -> object:
    return json.loads(queue.get(job_id).payload)


@pytest.mark.parametrize(
    ("words", "payload"),
    [
        ([], {}),
        (['{"a": [1, {"b": null}]}'], {"a": [1, {"b": None}]}),
        (["seq=7", "name=Ann", "flag=true", "list=[1,2]"], None),
        (["zip=01234", "empty=", "equation=a=b", 'quoted="7"'], None),
    ],
)
def test_a_payload_is_json_or_words(
    shell: Shell, queue: Queue, words: list[str], payload: object
):
    expected = payload
    if payload is None:
        expected = {
            "seq": {"seq": 7, "name": "Ann", "flag": True, "list": [1, 2]},
            "zip": {"zip": "01234", "empty": "", "equation": "a=b", "quoted": "7"},
        }[words[0].partition("=")[0]]

    job_id = shell("submit", "any.type", *words).stdout.strip()

    assert payload_of(queue, job_id) == expected


def test_a_payload_can_come_from_standard_input_or_a_file(
    shell: Shell, queue: Queue, tmp_path: Path
):
    (tmp_path / "payload.json").write_text('{"from": "file"}')

    piped = shell("submit", "t", "-", input='{"from": "pipe"}').stdout.strip()
    read = shell("submit", "t", "@payload.json").stdout.strip()

    assert payload_of(queue, piped) == {"from": "pipe"}
    assert payload_of(queue, read) == {"from": "file"}


def test_options_reach_the_job(shell: Shell, queue: Queue):
    job_id = shell(
        *("submit", "t", "--queue", "mail", "--priority", 2, "--delay", "10m"),
        *("--max-attempts", 3, "--timeout", "45s", "--key", "k", "--unique", "u"),
        *("--tag", "a", "--tag", "b", "--tenant", "acme"),
    ).stdout.strip()

    job = queue.get(job_id)
    assert (job.queue, job.priority, job.max_attempts, job.tenant) == ("mail", 2, 3, "acme")
    assert (job.state, job.timeout) == (State.SCHEDULED, 45_000_000)
    assert job.run_at - job.created_at == 10 * MINUTE
    assert (job.idempotency_key, job.unique_key) == ("k", "u")
    assert job.tags == ("a", "b")


def test_a_time_to_run_at_is_kept_exactly(shell: Shell, queue: Queue):
    job_id = shell("submit", "t", "--run-at", "2100-01-01T02:00:00+02:00").stdout.strip()

    assert queue.get(job_id).run_at == 4_102_444_800_000_000


def test_the_same_key_is_the_same_job_and_other_content_is_refused(shell: Shell, queue: Queue):
    first = shell("submit", "t", "a=1", "--key", "k", "--json")
    again = shell("submit", "t", "a=1", "--key", "k", "--json")
    other = shell("submit", "t", "a=2", "--key", "k")

    assert json.loads(first.stdout)["verdict"] == "accepted"
    assert json.loads(again.stdout)["verdict"] == "repeated"
    assert json.loads(again.stdout)["id"] == json.loads(first.stdout)["id"]
    assert other.exit_code == 4
    assert "'k' belongs to job" in other.stderr


def test_a_live_unique_job_stands_for_the_second(shell: Shell, queue: Queue):
    first = shell("submit", "t", "--unique", "u").stdout
    second = shell("submit", "t", "--unique", "u")

    assert second.stdout == first
    assert "stands for this one" in second.stderr


def test_a_live_job_with_the_same_arguments_stands_for_the_second(shell: Shell):
    first = shell("submit", "t", "n=1", "m=2", "--unique-arguments").stdout

    assert shell("submit", "t", "m=2", "n=1", "--unique-arguments").stdout == first
    assert shell("submit", "t", "n=2", "--unique-arguments").stdout != first
    assert shell("submit", "t", "--unique-arguments", "--unique", "u").exit_code == 2


def test_a_type_that_nobody_serves_is_accepted_with_a_warning(shell: Shell, queue: Queue):
    result = shell("submit", "mystery")

    assert result.exit_code == 0
    assert "no live worker serves 'mystery' on queue 'default'" in result.stderr
    assert queue.get(result.stdout.strip()).state is State.READY


def test_a_type_that_a_live_worker_serves_is_accepted_in_silence(shell: Shell, queue: Queue):
    queue.ask(
        lambda engine: engine.open_session(
            worker="w", queues=["default"], types=["mystery"], lease=60_000_000
        )
    )

    result = shell("submit", "mystery")

    assert result.stderr == ""


def test_the_apps_own_options_and_store_are_used(shell: Shell, shop: str):
    result = shell("submit", "--app", shop, "mail.send", "user_id=7")

    job = Queue("sqlite:///shop.db").get(result.stdout.strip())
    assert (job.queue, job.max_attempts) == ("mail", 2)


def test_url_on_the_command_line_wins_over_the_app(shell: Shell, queue: Queue, shop: str):
    result = shell("submit", "--app", shop, "--url", queue.url, "mail.send", "user_id=7")

    assert queue.get(result.stdout.strip()).type == "mail.send"


def test_the_app_of_the_settings_file_is_found(shell: Shell, shop: str, tmp_path: Path):
    (tmp_path / "longshore.toml").write_text(f'app = "{shop}"\n')

    shell("submit", "mail.send", "user_id=7")

    (job,) = shell.lines("jobs", "list")
    assert job["queue"] == "mail"


@pytest.mark.parametrize(
    ("words", "complaint", "code"),
    [
        (["mail.send", "user_id=seven"], "user_id", 2),
        (["mail.send"], "user_id", 2),
        (["mail.send", "user_id=7", "cc=x"], "cc", 2),
        (["mail.sent", "user_id=7"], "did you mean 'mail.send'?", 3),
    ],
)
def test_what_the_app_cannot_run_is_refused(
    shell: Shell, shop: str, words: list[str], complaint: str, code: int
):
    result = shell("--app", shop, "submit", *words)

    assert result.exit_code == code
    assert complaint in result.stderr
    assert shell("jobs", "list", "--url", "sqlite:///shop.db").stdout == ""


def test_waiting_prints_the_result_once_the_job_has_succeeded(shell: Shell, queue: Queue):
    first = shell("submit", "t", "--key", "k").stdout.strip()
    queue.settle(first, result=b'{"sum": 3}')

    result = shell("submit", "t", "--key", "k", "--wait")

    assert result.stdout == '{"sum":3}\n'
    assert f"{first} succeeded" in result.stderr


def test_waiting_can_be_given_up(shell: Shell, queue: Queue):
    result = shell("submit", "t", "--wait", "--wait-timeout", "20ms")

    assert result.exit_code == 6


def test_an_app_that_names_no_store_uses_the_one_of_the_settings_file(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "open_app.py").write_text(
        "from longshore import Longshore\napp = Longshore()\n"
    )
    (tmp_path / "prod.toml").write_text(
        'app = "open_app"\n[engine]\nurl = "sqlite:///prod.db"\n'
    )
    monkeypatch.syspath_prepend(tmp_path)

    result = shell("submit", "noop", "--config", "prod.toml")

    assert Queue("sqlite:///prod.db").get(result.stdout.strip()).type == "noop"
    assert len(shell.lines("--config", "prod.toml", "jobs", "list")) == 1
