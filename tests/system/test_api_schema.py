"""The HTTP service against its own document: whatever is asked, no answer is a 5xx.

Schemathesis asks what the document allows and much that it does not, and checks every answer
against it. Raw requests are broken in ways that no client library would send.
"""

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from api_service import PATIENCE, api, fill, listens, operator_key

from longshore.testing.harness import eventually

pytestmark = pytest.mark.slow

# What a document cannot say of two fields together (a cron expression or an interval) is
# refused all the same, and rightly. Wrong keys are soon answered 429, which it takes for a
# key that was not looked at; tests of keys look closer.
LEFT_OUT = "positive_data_acceptance,ignored_auth"
# A head or a body that is too large is refused too, which it does not take for a refusal.
REFUSALS = [400, 401, 403, 404, 405, 409, 410, 413, 415, 421, 422, 429, 431]
SETTINGS = f"""\
[checks]
negative_data_rejection.expected-statuses = {REFUSALS}

# Otherwise its answer has no end.
[[operations]]
include-name = "GET /v1/events"
parameters = {{ "query.follow" = false }}
"""


def resident_kib(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


class Part(NamedTuple):
    """Some of what can be asked: all parts together ask at least 10,000 times."""

    phases: str
    paths: str
    least: int
    seconds: int = 600
    may_lose_its_key: bool = False


PARTS = {
    "examples": Part("examples,coverage", "^/", 3_500),
    "fuzz_jobs": Part("fuzzing", "^/v1/(jobs|dead|queues|sessions)", 2_000),
    "fuzz_others": Part("fuzzing", "^/(?!v1/(jobs|dead|queues|sessions|keys))", 2_500),
    # Whoever lists keys, and rotates or revokes what was listed, is soon without one.
    "fuzz_keys": Part("fuzzing", "^/v1/keys", 200, seconds=60, may_lose_its_key=True),
    "stateful": Part("stateful", "^/(?!v1/keys/)", 1_000),
}


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.mark.prove
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
async def test_no_answer_contradicts_the_document(
    part: Part, store: str, tmp_path: Path, record_property: Callable[[str, object], None]
):
    key = await operator_key(store)
    await fill(store)
    with api(store, tmp_path) as (port, process):
        await eventually(lambda: listens(port), within=PATIENCE)
        before = resident_kib(process.pid)

        said = await asyncio.to_thread(ask_everything, tmp_path, port, key, part)
        grown = resident_kib(process.pid) - before

    generated = re.search(r"(\d+) generated", said)
    assert generated, said
    record_property("requests", int(generated[1]))
    record_property("grown_kib", grown)
    assert "Server error" not in said, said
    assert re.search(r"\d found", said.partition("Test cases:")[2]) is None, said
    assert "errored" not in said.partition("Test cases:")[2], said
    # Wrong keys are refused as too many; if good ones were, all the rest would be untested.
    refused = re.search(r"Rate limited: (\d+) operations", said)
    assert part.may_lose_its_key or refused is None or int(refused[1]) < 20, said
    assert int(generated[1]) >= part.least
    assert grown < 50 * 1024
    assert "Traceback" not in (tmp_path / "log").read_text()


def ask_everything(folder: Path, port: int, key: str, part: Part) -> str:
    # For a shorter look: fewer seconds make fewer requests than `least`.
    seconds = int(os.environ.get("SCHEMATHESIS_SECONDS", part.seconds))
    (folder / "schemathesis.toml").write_text(SETTINGS)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli"),
            *("--config-file", "schemathesis.toml", "run"),
            f"http://127.0.0.1:{port}/openapi.json",
            *("--header", f"Authorization: Bearer {key}"),
            *("--phases", part.phases, "--include-path-regex", part.paths),
            *("--exclude-checks", LEFT_OUT),
            # Answers without an end.
            *("--exclude-path-regex", "/stream$"),
            *("-n", "70", "--max-time", str(seconds), "--seed", "7"),
            *("--request-timeout", "40"),
            *("--suppress-health-check", "all", "--continue-on-failure", "--no-color"),
        ],
        cwd=folder,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": "schema_hooks",
            "PYTHONPATH": str(Path(__file__).parent),
        },
        capture_output=True,
        text=True,
        timeout=part.seconds + 300,
        check=False,
    )
    return done.stdout + done.stderr


JOB = b'{"type":"a","payload":{"x":[1,2.5,null,"\\u00e9"]}}'
ASKED = {
    b"/v1/jobs": JOB,
    b"/v1/jobs:batch": b'{"jobs":["jobs",%s,%s]}' % (JOB, JOB),
    b"/v1/sessions/%s:exchange": (
        b'{"number":1,"started":["1.1"],"want":0,"settlements":'
        b'[{"claim":"1.1","verb":"succeed","result":{"x":[1,"\\u00e9"]}}]}'
    ),
    b"/v1/sessions/%s:renew": b'{"number":0,"held":["1.1"],"started":[]}',
    b"/v1/jobs:cancel": b'{"filter":{"queue":"nobodys"},"dry_run":true}',
    b"/v1/schedules:preview": b'{"cron":"*/5 * * * *","timezone":"Europe/Berlin"}',
}
OFFER = b'{"worker":"w","queues":["default"],"types":["none"],"lease_us":3600000000}'


def well(path: bytes, body: bytes) -> bytes:
    """A request with which nothing is wrong."""
    return (
        b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b'Idempotency-Key: "k"\r\nContent-Length: %d\r\n\r\n%s'
    ) % (path, len(body), body)


WELL = well(b"/v1/jobs", JOB)
PIECES = (
    *(
        b"\r\n",
        b"\0",
        b"\xff\xfe",
        b"Content-Length: -1\r\n",
        b"Transfer-Encoding: chunked\r\n",
    ),
    *(b"Content-Length: 99999999999999999999\r\n", b"\\ud800", b"1e999", b"NaN", b'"a":1,' * 9),
    *(b"%00", b"%ff", b"[" * 400, b"{" * 400, b"Idempotency-Key: \xe9\r\n", b"\x80" * 50),
    *(b"Expect: 100-continue\r\n", b"Upgrade: h2c\r\nConnection: Upgrade\r\n", b"?limit=" * 5),
    *(
        b"DELETE ",
        b"GET /v1/jobs/%2e%2e HTTP/1.1\r\n\r\n",
        b"X" * 20_000,
        b"-" * 300,
        b":" * 40,
    ),
    *(b'"jobs"', b'"jobs":["jobs"],', b'"number":2,', b"9" * 5_000, b"\\u0000", b"{}", b"[]"),
)


def broken(rng: Random, session: bytes) -> bytes:
    """A request with some of its bytes cut out, doubled, swapped, changed or added.

    Half of them have a head that is well, so that what is wrong with the body is looked at.
    """
    path, body = rng.choice(list(ASKED.items()))
    path = path.replace(b"%s", session)
    if rng.random() < 0.5:
        return well(path, changed(rng, body))
    return changed(rng, well(path, body))


def changed(rng: Random, whole: bytes) -> bytes:
    raw = bytearray(whole)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(raw) + 1)
        action = rng.randrange(5)
        if action == 0:
            del raw[at : at + rng.randint(1, 40)]
        elif action == 1:
            raw[at:at] = raw[at : at + rng.randint(1, 60)]
        elif action == 2:
            raw[at : at + 1] = rng.randbytes(rng.randint(1, 8))
        else:
            raw[at:at] = rng.choice(PIECES)
    return bytes(raw)


@pytest.mark.parametrize(
    "count", [400, pytest.param(4_000, marks=pytest.mark.prove)], ids=["some", "many"]
)
async def test_no_broken_request_gets_a_5xx_or_hurts_the_next(
    tmp_path: Path, store: str, count: int, record_property: Callable[[str, object], None]
):
    rng = Random(42)
    statuses: Counter[int] = Counter()
    with api(store, tmp_path) as (port, process):
        await eventually(lambda: listens(port), within=PATIENCE)
        await asyncio.gather(*[send(port, WELL) for _ in range(20)])
        _, opened = await ask(port, well(b"/v1/sessions", OFFER))
        session = re.search(rb'"id":"(\d+)"', opened)
        assert session
        before = resident_kib(process.pid)

        for _ in range(count // 20):
            asked = [send(port, broken(rng, session[1])) for _ in range(20)]
            statuses.update(await asyncio.gather(*asked))
        grown = resident_kib(process.pid) - before
        last = await send(port, WELL)

    record_property("requests", sum(statuses.values()))
    record_property("grown_kib", grown)
    assert sum(statuses.values()) == count
    assert [status for status in statuses if status >= 500] == [], statuses
    fine = {100, 200, 201, 204, *REFUSALS, 408}
    assert statuses.keys() - {0} <= fine
    assert {200, 422} <= statuses.keys()
    assert last == 200
    assert grown < 50 * 1024
    assert "Traceback" not in (tmp_path / "log").read_text()


async def send(port: int, raw: bytes) -> int:
    """The status of the first answer; 0 when the server only closed, or waits for more."""
    return (await ask(port, raw))[0]


async def ask(port: int, raw: bytes) -> tuple[int, bytes]:
    """The same, with what was said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(raw)
        if writer.can_write_eof():
            writer.write_eof()
        said = await asyncio.wait_for(reader.read(), PATIENCE)
    except ConnectionError:
        return 0, b""
    finally:
        writer.close()
    return (int(said.split(b" ", 2)[1]) if said.startswith(b"HTTP/1.1 ") else 0), said
