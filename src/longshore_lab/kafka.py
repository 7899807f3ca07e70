"""A real Kafka broker for tests, measurements and people, on this machine's loopback only.

    python -m longshore_lab.kafka

prints its address and runs until Ctrl-C. It needs Java 17 or newer, and Maven, which fetches
the programs once, 44 MB, from wherever it is set up to ask. Each is checked against
`kafka.sums`, and kept in the user's cache folder. LONGSHORE_KAFKA_JARS names a folder that has
them already.
"""

import argparse
import base64
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from longshore_lab import server_guard
from longshore_lab.servers import ServerError

__all__ = ["KafkaServer", "kafka_jars", "new_cluster_id"]

VERSION = "4.3.1"
_FETCH_SECONDS = 300.0
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>longshore</groupId><artifactId>broker</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
_START_SECONDS = 90.0
_STOP_SECONDS = 30.0
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
num.partitions=4
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""
_SECURED = """
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control},SECURED://127.0.0.1:{secured}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SECURED://127.0.0.1:{secured}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT
listener.name.secured.sasl.enabled.mechanisms=PLAIN
listener.name.secured.plain.sasl.jaas.config=\\
  org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
"""
"""A listener more, for one who has a password. What comes later in the file holds."""
_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""It starts sooner so, and takes less of the machine."""


def kafka_jars() -> Path | None:
    """The folder with the broker's programs, fetched if need be; None where it cannot run."""
    if shutil.which("java") is None or shutil.which("mvn") is None:
        return None
    given = os.environ.get("LONGSHORE_KAFKA_JARS")
    if given:
        return Path(given)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "longshore" / f"kafka-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _fetch(folder)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return folder


class KafkaServer:
    """A broker of its own, in a folder that is thrown away.

    As a context manager it is started and in the end removed. `stop`, `kill` and `start` keep
    its data and its port; `pause` and `resume` keep the process.
    """

    def __init__(
        self,
        *,
        jars: Path,
        settings: Mapping[str, str] | None = None,
        user: tuple[str, str] | None = None,
    ) -> None:
        """With a `user`, who is a name and a password, there is a second address for them."""
        self._jars = jars
        self._settings = settings or {}
        self._user = user
        self._folder: Path | None = None
        self._port = self._control = self._secured = 0
        self._guard: subprocess.Popen[bytes] | None = None
        self._pid = 0

    @property
    def servers(self) -> str:
        """Its address, as clients take it."""
        return f"127.0.0.1:{self._port}"

    @property
    def secured_servers(self) -> str:
        """The address that asks for a password (SASL_PLAINTEXT, PLAIN)."""
        return f"127.0.0.1:{self._secured}"

    @property
    def pid(self) -> int:
        """The process that was started last."""
        return self._pid

    @property
    def log(self) -> str:
        """What the broker has said so far."""
        path = self._home / "log"
        return path.read_text("utf-8", errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Return once it answers."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="longshore-kafka-"))
            self._port, self._control, self._secured = _free_ports()
            self._format()
        command = [*self._java("-Xmx384m"), "kafka.Kafka", str(self._home / "properties")]
        self._guard = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                server_guard.__file__,
                "-1",
                str(self._home),
                *command,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=self._environment(),
            cwd="/",
            start_new_session=True,
        )
        assert self._guard.stdout is not None
        self._pid = int(self._guard.stdout.readline() or 0)
        self._await_answer()

    def stop(self) -> None:
        """End it as its manual says, and keep its data."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with -9, and keep its data."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let it hang: connections stay, nothing is answered."""
        os.kill(self._pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self._pid, signal.SIGCONT)

    def close(self) -> None:
        """End it and remove all it had. Safe to call twice."""
        self.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> "KafkaServer":
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _home(self) -> Path:
        if self._folder is None:
            raise ServerError("it was not started")
        return self._folder

    def _format(self) -> None:
        ports = {"port": self._port, "control": self._control, "secured": self._secured}
        lines = [_PROPERTIES.format(folder=self._home, **ports)]
        if self._user is not None:
            name, password = self._user
            lines.append(_SECURED.format(user=name, password=password, **ports))
        lines += [f"{name}={value}" for name, value in self._settings.items()]
        properties = self._home / "properties"
        properties.write_text("\n".join(lines) + "\n")
        done = subprocess.run(
            [
                *self._java(), "kafka.tools.StorageTool", "format", "--standalone",
                "-t", new_cluster_id(), "-c", str(properties),
            ],
            capture_output=True,
            env=self._environment(),
            timeout=_START_SECONDS,
            check=False,
        )  # fmt: skip
        if done.returncode:
            said = (done.stdout + done.stderr).decode(errors="replace")
            raise ServerError(f"Kafka's folder was not made\n{said[-2000:]}")

    def _java(self, *options: str) -> list[str]:
        java = shutil.which("java")
        if java is None:
            raise ServerError("no Java here")
        return [java, *_JAVA, *options, "-cp", f"{self._jars}/*"]

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC", "LAST_SIGNAL": "9"}

    def _await_answer(self) -> None:
        """An open port is not enough: it has to tell of itself."""
        deadline = time.monotonic() + _START_SECONDS
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        while time.monotonic() < deadline:
            if self._guard is None or self._guard.poll() is not None:
                break
            with suppress(KafkaException):
                if admin.list_topics(timeout=1.0).brokers:
                    return
        raise ServerError(f"Kafka did not start\n{self.log[-2000:]}")

    def _end(self, number: signal.Signals) -> None:
        guard, self._guard = self._guard, None
        if guard is None or guard.stdin is None:
            return
        with suppress(BrokenPipeError):
            # One that is paused has to go on to hear of it.
            guard.stdin.write(b"%d\n%d\n" % (signal.SIGCONT, number))
        try:
            guard.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            guard.stdin.write(b"%d\n" % signal.SIGKILL)
            guard.wait()
        for pipe in (guard.stdin, guard.stdout):
            if pipe is not None:
                pipe.close()


def _listed() -> Iterator[tuple[str, str]]:
    """Digest and place of each program."""
    for line in files("longshore_lab").joinpath("kafka.sums").read_text().splitlines():
        digest, place = line.split()
        yield digest, place


def _fetch(folder: Path) -> None:
    """Have Maven put every program into the folder, from wherever it is set up to ask."""
    wanted = list(_listed())
    if all((folder / place.rpartition("/")[2]).exists() for _, place in wanted):
        return
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder.parent) as part:
        pom = Path(part) / "pom.xml"
        pom.write_text(_POM.format("".join(_dependency(place) for _, place in wanted)))
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={part}/jars"],
            capture_output=True,
            timeout=_FETCH_SECONDS,
            check=False,
        )
        if done.returncode:
            raise OSError(done.stdout.decode(errors="replace")[-500:])
        for digest, place in wanted:
            name = place.rpartition("/")[2]
            found = Path(part) / "jars" / name
            if hashlib.sha256(found.read_bytes()).hexdigest() != digest:
                raise ServerError(f"{place} is not what it was")
            found.rename(folder / name)


def _dependency(place: str) -> str:
    """As a project file has it: this one, and none that it asks for."""
    *group, artifact, version, _ = place.split("/")
    return (
        f"<dependency><groupId>{'.'.join(group)}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><exclusions><exclusion><groupId>*</groupId>"
        "<artifactId>*</artifactId></exclusion></exclusions></dependency>"
    )


def _free_ports() -> tuple[int, int, int]:
    with socket.socket() as one, socket.socket() as other, socket.socket() as third:
        for probe in (one, other, third):
            probe.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1], third.getsockname()[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a broker until Ctrl-C; its address is the first line of the output."""
    parser = argparse.ArgumentParser(prog="longshore_lab.kafka", description=__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args(arguments)
    jars = kafka_jars()
    if jars is None:
        parser.error("no Java here, or Maven's repository cannot be reached")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = dict(one.partition("=")[::2] for one in options.set)
    try:
        with KafkaServer(jars=jars, settings=settings) as server:
            print(server.servers, flush=True)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except ServerError as error:
        print(error, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())


def new_cluster_id() -> str:
    """A number in Kafka's way of writing, which never begins with a dash.

    The tool would take that for an option; so the first bit is 0.
    """
    number = uuid.uuid4().int >> 1
    return base64.urlsafe_b64encode(number.to_bytes(16)).decode().rstrip("=")
