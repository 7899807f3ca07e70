"""Stop signals that a process sends to itself are refused while it runs jobs."""

import _thread
import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from self_signals_process import ALLOWED, REFUSED, Job

from longshore.job_context import CURRENT
from longshore.worker.own_tasks import EXIT_BROKEN
from longshore.worker.self_signals import auditing_all_signals, refusing_self_signals

PROCESS = Path(__file__).parent / "self_signals_process.py"


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    """The program in a session of its own, where a signal to the group reaches no test."""
    return subprocess.run(
        [sys.executable, str(PROCESS), *words],
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    done = run("all")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """The stop signals that this process heard; it survives them."""
    heard: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(one, lambda number, _: heard.append(number)) for one in numbers]
    yield heard
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("how", REFUSED)
def test_a_job_that_signals_its_own_worker_is_refused_and_charged_a_crash(
    outcomes: dict[str, Any], how: str
):
    error = "[Errno 1] a job may not send its own worker SIG"
    assert outcomes[how]["error"].startswith(error)
    assert (outcomes[how]["charges"], outcomes[how]["heard"]) == (1, [])


@pytest.mark.parametrize("how", ALLOWED)
def test_a_job_may_send_other_signals_and_signal_other_processes(
    outcomes: dict[str, Any], how: str
):
    assert outcomes[how] == {"error": None, "charges": 0, "heard": []}


@pytest.mark.parametrize("how", ["kill SIGTERM", "raise SIGINT"])
def test_where_a_thread_has_no_job_the_process_ends_as_a_crash(how: str):
    done = run("thread", how)

    assert done.returncode == EXIT_BROKEN
    assert "a thread sent its own worker a signal, process ended" in done.stderr


async def test_a_job_is_known_in_the_threads_that_asyncio_starts_for_it(heard: list[int]):
    job = Job()
    CURRENT.set(job)

    with refusing_self_signals(), pytest.raises(PermissionError, match="SIGTERM"):
        await asyncio.to_thread(os.kill, os.getpid(), signal.SIGTERM)

    assert (job.charges, heard) == (1, [])


def test_after_the_block_nothing_is_refused_and_the_functions_are_those_of_python(
    heard: list[int],
):
    originals = signal.raise_signal, signal.pidfd_send_signal, _thread.interrupt_main
    job, context = Job(), copy_context()
    context.run(CURRENT.set, job)

    with auditing_all_signals():
        imported = signal.raise_signal
        with refusing_self_signals(), pytest.raises(PermissionError):
            context.run(imported, signal.SIGTERM)
    context.run(imported, signal.SIGTERM)
    context.run(os.kill, os.getpid(), signal.SIGINT)

    assert (job.charges, heard) == (1, [signal.SIGTERM, signal.SIGINT])
    assert originals == (
        signal.raise_signal,
        signal.pidfd_send_signal,
        _thread.interrupt_main,
    )


def test_a_wrapped_function_refuses_wrong_arguments_as_before():
    with auditing_all_signals(), refusing_self_signals():
        with pytest.raises(TypeError):
            signal.raise_signal("SIGTERM")  # pyright: ignore[reportArgumentType]
        with pytest.raises(OSError, match="Bad file descriptor"):
            signal.pidfd_send_signal(-1, signal.SIGTERM)
