"""Where settings come from, and what is refused."""

from datetime import timedelta
from pathlib import Path

import pytest

from longshore import settings
from longshore.errors import ConfigError
from longshore.settings import Settings, load
from longshore.tasks.settings import TlsMode


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "longshore.toml"


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(file: Path):
    file.write_text("[worker]\nconcurrency = 1\nprocesses = 1\nclaim_batch = 1\n")
    environ = {"LONGSHORE_WORKER_CONCURRENCY": "2", "LONGSHORE_WORKER_PROCESSES": "2"}
    flags = {"worker.concurrency": 3}

    worker = load(flags, environ=environ, file=file).worker

    assert (worker.concurrency, worker.processes, worker.claim_batch) == (3, 2, 1)
    assert worker.flush_batch == Settings().worker.flush_batch


def test_a_flag_that_was_not_given_hides_nothing():
    environ = {"LONGSHORE_WORKER_CONCURRENCY": "2"}

    assert load({"worker.concurrency": None}, environ=environ).worker.concurrency == 2


def test_values_are_read_as_their_types(file: Path):
    file.write_text('app = "shop.jobs:app"\n[worker]\nlease = "1m"\nqueues = ["a", "b"]\n')
    environ = {
        "LONGSHORE_WORKER_DRAIN_TIMEOUT": "1h30m",
        "LONGSHORE_WORKER_THREADS": "none",
        "LONGSHORE_HTTP_BODY_BYTES": "1MiB",
        "LONGSHORE_HTTP_ALLOWED_NETWORKS": "10.0.0.0/8, fd00::/8",
        "LONGSHORE_SMTP_TLS": "Implicit",
    }

    loaded = load(environ=environ, file=file)

    assert loaded.app == "shop.jobs:app"
    assert loaded.worker.lease == timedelta(minutes=1)
    assert loaded.worker.queues == ("a", "b")
    assert loaded.worker.drain_timeout == timedelta(minutes=90)
    assert loaded.worker.threads is None
    assert loaded.http.body_bytes == 1_048_576
    assert loaded.http.allowed_networks == ("10.0.0.0/8", "fd00::/8")
    assert loaded.smtp.tls is TlsMode.IMPLICIT


def test_without_any_source_everything_has_its_default(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert load(environ={}) == Settings()


def test_the_file_of_the_working_directory_is_read(tmp_path: Path, monkeypatch):
    (tmp_path / "longshore.toml").write_text("[worker]\nconcurrency = 7\n")
    monkeypatch.chdir(tmp_path)

    assert load(environ={}).worker.concurrency == 7


def test_a_variable_can_name_the_file(file: Path):
    file.write_text("[worker]\nconcurrency = 7\n")

    assert load(environ={"LONGSHORE_CONFIG": str(file)}).worker.concurrency == 7


def test_an_empty_variable_is_no_value():
    assert load(environ={"LONGSHORE_ENGINE_URL": ""}).engine == Settings().engine


@pytest.mark.parametrize(
    ("environ", "complaint"),
    [
        (
            {"LONGSHORE_WORKER_CONCURENCY": "4"},
            "LONGSHORE_WORKER_CONCURENCY; did you mean LONGSHORE_WORKER_CONCURRENCY?",
        ),
        ({"LONGSHORE_WROKER_LEASE": "4s"}, "did you mean LONGSHORE_WORKER_LEASE?"),
        ({"LONGSHORE_URL": "sqlite:///a.db"}, "did you mean LONGSHORE_ENGINE_URL?"),
        ({"LONGSHORE_WORKER_TEA": "green"}, "unknown setting LONGSHORE_WORKER_TEA"),
        ({"LONGSHORE_WORKER_CONCURRENCY": "many"}, "'many' is not a whole number"),
        ({"LONGSHORE_WORKER_LEASE": "30"}, "LONGSHORE_WORKER_LEASE: '30' is not a duration"),
        ({"LONGSHORE_SMTP_TLS": "ssl"}, "none of starttls, implicit, none"),
        ({"LONGSHORE_WORKER_PROCESSES": "0"}, "worker.processes is 0"),
        ({"LONGSHORE_CONFIG": "absent.toml"}, "no settings file absent.toml"),
    ],
)
def test_a_wrong_environment_is_refused_with_the_reason(
    environ: dict[str, str], complaint: str
):
    with pytest.raises(ConfigError) as refusal:
        load(environ=environ)

    assert complaint in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[worker]\nconcurency = 4", "'worker.concurency'; did you mean worker.concurrency?"),
        ("[workr]\nconcurrency = 4", "did you mean worker.concurrency?"),
        ("concurrency = 4", "unknown key 'concurrency'"),
        ("worker = 4", "unknown key 'worker'"),
        ("[worker]\nconcurrency = true", "True is not a whole number"),
        ("[worker]\nconcurrency = 1.5", "1.5 is not a whole number"),
        ("[worker]\nlease = 30", "30 is not a duration"),
        ("[worker]\nqueues = 3", "3 is not a list"),
        ("[engine]\nurl = 3", "3 is not text"),
        ("[engine", "is not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(file: Path, text: str, complaint: str):
    file.write_text(text)

    with pytest.raises(ConfigError) as refusal:
        load(environ={}, file=file)

    assert complaint in str(refusal.value)
    assert str(file) in str(refusal.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_an_unreadable_file_is_refused(file: Path, content: bytes | None):
    file.mkdir() if content is None else file.write_bytes(content)

    with pytest.raises(ConfigError, match=r"longshore\.toml"):
        load(environ={}, file=file)


@pytest.mark.parametrize(
    "variable",
    [
        "LONGSHORE_HOME",
        "LONGSHORE_PORT",
        "LONGSHORE_WORKER_PORT",
        "LONGSHORE_WORKER_SERVICE_HOST",
        "LONGSHORE_WORKER_SERVICE_PORT_METRICS",
        "LONGSHORE_WORKER_PORT_9090_TCP_ADDR",
    ],
)
def test_variables_that_others_set_are_let_be(variable: str):
    assert load(environ={variable: "tcp://10.0.0.1:9090"}) == Settings()


def test_retention_reaches_the_engine_in_microseconds():
    loaded = load(environ={"LONGSHORE_SCHEDULER_KEEP_DEAD": "2d"})

    assert loaded.scheduler.retention.dead == 2 * 86_400 * 1_000_000


@pytest.mark.parametrize("setting", settings.describe(), ids=lambda one: one.key)
def test_every_setting_is_explained(setting: settings.Setting):
    assert setting.text.endswith(".")
    assert len(setting.text) > 15


def test_every_described_default_reads_back_as_the_default():
    environ = {one.variable: one.default for one in settings.describe()}

    assert load(environ=environ) == Settings()


def test_no_secret_shows_in_a_printed_setting():
    loaded = load(environ={"LONGSHORE_SMTP_PASSWORD": "hunter2"})

    assert loaded.smtp.password == "hunter2"
    assert "hunter2" not in repr(loaded)
