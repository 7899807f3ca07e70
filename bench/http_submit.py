"""How many requests a second `longshore api` takes on PostgreSQL, and how long they wait.

    python bench/http_submit.py                     one job per request, each with a key
    python bench/http_submit.py --rate 2500         the same, paced: how long a request takes
    python bench/http_submit.py --batch 500         jobs per second in batches
    python bench/http_submit.py --wrk [--batch 500] the same, asked by wrk, which costs less
    python bench/http_submit.py --rate 1000 --idle 10000 --slow 200
                                                    beside idle connections and slow clients

Server, database and this generator share the machine. An answer that is not a 201 (or a
200 of a batch) counts as refused. A slow client sends a byte of its request each second, and
begins again when it is sent away; every second one asks for a long list and reads none of it.
"""

import argparse
import asyncio
import json
import os
import re
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from longshore.engines import open_engine
from longshore.runtime.process import loop_factory
from longshore_lab.servers import PostgresServer, postgres_binaries

JOB = b'{"type":"noop","queue":"bench","payload":{"user":%d,"action":"welcome"}}'


class Run:
    """A load on one port, for some seconds, at little cost: it shares the cores it measures."""

    def __init__(self, port: int, *, batch: int, seconds: float, rate: float | None) -> None:
        self._port = port
        self._batch = batch
        self._seconds = seconds
        self._rate = rate
        self._number = 0
        self._name = os.urandom(4).hex().encode("ascii")
        self._wanted = b"HTTP/1.1 200" if batch else b"HTTP/1.1 201"
        self._idle: list[socket.socket] = []
        self._sent: dict[socket.socket, float] = {}
        """When the request that is under way was due."""
        self._heard: dict[socket.socket, bytes] = {}
        self._times: list[float] = []
        self._lost = self._refused = 0

    def go(self, connections: int) -> dict[str, object]:
        """Ask until the time is over; the figures."""
        with selectors.DefaultSelector() as ears:
            for _ in range(connections):
                one = socket.create_connection(("127.0.0.1", self._port))
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ears.register(one, selectors.EVENT_READ)
                self._idle.append(one)
            spent, start = time.thread_time(), time.perf_counter()
            self._ask_on(ears, start, start + self._seconds)
            took, spent = time.perf_counter() - start, time.thread_time() - spent
            for one in [*self._idle, *self._sent]:
                one.close()
        return self._report(took, spent)

    def _ask_on(self, ears: selectors.BaseSelector, start: float, end: float) -> None:
        number, waiting = 0, deque[float]()
        while (now := time.perf_counter()) < end:
            if self._rate is None:
                waiting.extend([now] * len(self._idle))
            else:
                # At their due times, whether or not others are answered by then.
                while start + number / self._rate <= now:
                    waiting.append(start + number / self._rate)
                    number += 1
            while waiting and self._idle:
                one = self._idle.pop()
                # Its time counts from when it was due.
                self._sent[one] = waiting.popleft()
                one.sendall(self._request())
            next_due = end if self._rate is None else start + number / self._rate
            for key, _ in ears.select(max(min(next_due, end) - time.perf_counter(), 0.0)):
                self._hear(ears, key.fileobj)

    def _hear(self, ears: selectors.BaseSelector, one: socket.socket) -> None:
        """Read on until the answer is whole."""
        data = one.recv(65_536)
        if not data:
            self._lost += 1
            ears.unregister(one)
            self._sent.pop(one, None)
            one.close()
            return
        heard = self._heard.pop(one, b"") + data
        head, mark, rest = heard.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        if not mark or len(rest) < int(length):
            self._heard[one] = heard
            return
        self._refused += not head.startswith(self._wanted)
        self._times.append(time.perf_counter() - self._sent.pop(one))
        self._idle.append(one)

    def _request(self) -> bytes:
        """One that nobody has sent before."""
        self._number += 1
        if self._batch:
            jobs = b",".join(JOB % number for number in range(self._batch))
            body = b'{"jobs":[%s]}' % jobs
            path, key = b"/v1/jobs:batch", b""
        else:
            body = JOB % self._number
            path, key = b"/v1/jobs", b"Idempotency-Key: %s-%d\r\n" % (self._name, self._number)
        return (
            b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s"
            b"Content-Length: %d\r\n\r\n%s" % (path, key, len(body), body)
        )

    def _report(self, took: float, spent: float) -> dict[str, object]:
        times = self._times
        if not times:
            sys.exit("nothing was answered in time")
        cuts = statistics.quantiles(times, n=1000) if len(times) > 1 else times * 999
        per_second = len(times) / took
        return {
            "requests": len(times),
            "requests_per_s": round(per_second),
            "jobs_per_s": round(per_second * (self._batch or 1)),
            "p50_ms": round(cuts[499] * 1e3, 2),
            "p99_ms": round(cuts[989] * 1e3, 2),
            "max_ms": round(max(times) * 1e3, 1),
            "lost_connections": self._lost,
            "refused": self._refused,
            "unanswered": len(self._sent),
            "generator_cpu_us_per_request": round(spent * 1e6 / len(times)),
        }


class Crowd:
    """Connections that only stand there, and clients that are slow."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.sent_away = 0

    async def gather(self, idle: int, slow: int) -> None:
        """Be there, all of them."""
        for _ in range(idle):
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._writers.append(writer)
        for number in range(slow):
            client = self._trickle() if number % 2 else self._ignore()
            self._tasks.append(asyncio.create_task(client))
        await asyncio.sleep(1 if slow else 0)

    def leave(self) -> int:
        """Go; how many of the idle ones were still connected."""
        for task in self._tasks:
            task.cancel()
        standing = sum(not writer.transport.is_closing() for writer in self._writers)
        for writer in self._writers:
            writer.close()
        return standing

    async def _trickle(self) -> None:
        while True:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
            with suppress(OSError):
                for byte in b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 99:
                    writer.write(bytes((byte,)))
                    await writer.drain()
                    await asyncio.sleep(1)
                    if writer.transport.is_closing():
                        break
            self.sent_away += 1
            writer.close()

    async def _ignore(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with socket.socket() as deaf:
                deaf.setblocking(False)
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                await loop.sock_connect(deaf, ("127.0.0.1", self._port))
                ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
                with suppress(OSError):
                    await loop.sock_sendall(deaf, ask * 3)
                    await asyncio.sleep(10)
            self.sent_away += 1


def ask_with_wrk(port: int, asked: argparse.Namespace) -> dict[str, object]:
    """The load of wrk, as it tells of it."""
    done = subprocess.run(
        [
            *("wrk", "--latency", "-t", "1", "-c", str(asked.connections)),
            *("-d", f"{asked.seconds:.0f}s", "-s", str(Path(__file__).with_suffix(".lua"))),
            *(f"http://127.0.0.1:{port}", "--", os.urandom(4).hex(), str(asked.batch)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    said = done.stdout
    requests = int(re.search(r"(\d+) requests in", said)[1])
    per_second = float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1])
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    return {
        "requests": requests,
        "requests_per_s": round(per_second),
        "jobs_per_s": round(per_second * (asked.batch or 1)),
        "p50_ms": milliseconds(re.search(r"50%\s+([\d.]+\w+)", said)[1]),
        "p99_ms": milliseconds(re.search(r"99%\s+([\d.]+\w+)", said)[1]),
        "refused": int(refused[1]) if refused else 0,
    }


def milliseconds(text: str) -> float:
    """A time as wrk writes it."""
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return round(float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit], 2)


def serve(stack: ExitStack, url: str, processes: int) -> tuple[int, int]:
    """The service in a process of its own: its port and its pid."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = stack.enter_context(TemporaryDirectory())
    words = ["--url", url, "api", "--port", str(port), "--processes", str(processes)]
    process = subprocess.Popen([sys.executable, "-m", "longshore", *words], cwd=folder)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.1)
    # The socket listens before anyone takes what it hears; the first answer tells.
    with socket.create_connection(("127.0.0.1", port), 60) as first:
        first.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if b"200 OK" not in first.recv(4096):
            sys.exit("the service is not ready")
    time.sleep(5)
    return port, process.pid


async def measure(
    port: int, pids: Sequence[int], asked: argparse.Namespace
) -> dict[str, object]:
    """One run, and what it cost the service and the database."""
    crowd = Crowd(port)
    await crowd.gather(asked.idle, asked.slow)
    before = [cpu_seconds(pid) for pid in pids]
    if asked.wrk:
        report = await asyncio.to_thread(ask_with_wrk, port, asked)
    else:
        run = Run(port, batch=asked.batch, seconds=asked.seconds, rate=asked.rate)
        report = await asyncio.to_thread(run.go, asked.connections)
    after = [cpu_seconds(pid) for pid in pids]
    if asked.idle or asked.slow:
        report |= {"idle_left": crowd.leave(), "slow_sent_away": crowd.sent_away}
    each = max(int(str(report["requests"])), 1)
    api, database = [round((b - a) * 1e6 / each) for a, b in zip(before, after, strict=True)]
    cost = {"api_cpu_us_per_request": api, "database_cpu_us_per_request": database}
    return {**vars(asked), **report, **cost, "load": os.getloadavg()[0]}


def cpu_seconds(root: int) -> float:
    """What a process and all its descendants have used, those that ended included."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(words[1])
        used[pid] = sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
    return sum(used[pid] for pid in used if root in _line(pid, parents))


def _line(pid: int, parents: dict[int, int]) -> set[int]:
    found = {pid}
    while (pid := parents.get(pid, 0)) and pid not in found:
        found.add(pid)
    return found


async def migrate(url: str) -> None:
    """Bring the new database up to date."""
    engine = open_engine(url)
    await engine.migrate()
    await engine.close()


def main() -> None:
    """Start everything, measure, and print one line of JSON per run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--slow", type=int, default=0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--wrk", action="store_true")
    asked = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    binaries = postgres_binaries()
    if binaries is None:
        sys.exit("PostgreSQL is missing; run `make setup`")
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer(binaries=Path(binaries)))
        url = server.create("bench")
        asyncio.run(migrate(url))
        port, pid = serve(stack, url, asked.processes)
        pids = [pid, server.pid]
        for _ in range(asked.runs):
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                line = json.dumps(runner.run(measure(port, pids, asked)))
                sys.stdout.write(line + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
