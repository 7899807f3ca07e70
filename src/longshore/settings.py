"""Every setting, and the only reader of the environment and of `longshore.toml`.

A value comes from the first place that has it: a flag, the environment
(`LONGSHORE_WORKER_CONCURRENCY`), the file (`[worker] concurrency`), the default. Settings are
loaded once, in a composition root; whatever needs one takes its own section or plain values.
"""

import ast
import inspect
import os
import re
import sys
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast, get_args, get_origin, get_type_hints

import msgspec

from longshore.api.settings import ApiSettings
from longshore.core import units
from longshore.errors import ConfigError
from longshore.observe.settings import MetricsSettings
from longshore.relay.settings import KafkaSettings, RelaySettings
from longshore.scheduler.settings import AuditSettings, Keeping, SchedulerSettings
from longshore.tasks.settings import HttpTaskSettings, SmtpSettings, WebhookSettings
from longshore.tracing.settings import TracingSettings
from longshore.worker.settings import WorkerSettings

__all__ = [
    "EngineSettings",
    "LogFormat",
    "LogLevel",
    "LogSettings",
    "SchedulerSettings",
    "Setting",
    "Settings",
    "describe",
    "load",
    "packed",
    "service_manager",
    "unpacked",
]

FILE = "longshore.toml"
PREFIX = "LONGSHORE_"
FILE_VARIABLE = f"{PREFIX}CONFIG"

# Kubernetes puts the address of every service into every pod: a service that is named
# `longshore-worker` sets LONGSHORE_WORKER_PORT, and nobody asked for it.
_MEANT = {f"{PREFIX}URL": f"{PREFIX}ENGINE_URL"}
"""The first guess of many; ignored, it would lead to a file of its own in silence."""
_KUBERNETES = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?$")


class LogLevel(StrEnum):
    """The least important lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a log line looks."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The store that keeps the queue."""

    url: str = "sqlite:///.longshore/jobs.db"
    """The engine and where it is: `sqlite:///jobs.db`, `sqlite:////var/jobs.db`, with options
    such as `?synchronous=normal`; or a service in front of one, `https://jobs.example.com`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What a worker or a scheduler writes to standard error."""

    level: LogLevel = LogLevel.INFO
    """The least important lines that are written: debug, info, warning or error."""
    format: LogFormat = LogFormat.AUTO
    """`text` for people; `json` for machines, one object per line; `auto` is text where
    standard error is a terminal, and JSON elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting, by section."""

    app: str | None = None
    """Where the application is, as `module:attribute`."""
    key: str | None = None
    """The API key, for an engine that is a service: `https://jobs.example.com`."""
    plain_http: bool = False
    """The API key may be sent over `http://` to a public address, where others can read it."""
    engine: EngineSettings = field(default_factory=EngineSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    api: ApiSettings = field(default_factory=ApiSettings)
    relay: RelaySettings = field(default_factory=RelaySettings)
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    log: LogSettings = field(default_factory=LogSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    http: HttpTaskSettings = field(default_factory=HttpTaskSettings)
    smtp: SmtpSettings = field(default_factory=SmtpSettings)
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)

    @property
    def keeping(self) -> Keeping:
        """As the scheduler takes it."""
        kept = units.microseconds(self.audit.keep)
        retention = msgspec.structs.replace(self.scheduler.retention, audit=kept)
        return Keeping(
            retention=retention,
            transitions=self.audit.transitions,
            most_unread=self.scheduler.most_unread,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the settings page."""

    key: str
    """`section.name`, as in the file and in error messages."""
    variable: str
    """Its environment variable."""
    default: str
    """As it would be written in the environment."""
    text: str
    """What it does: the docstring beneath the field."""


def load(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """The settings as flags (`{"worker.concurrency": 4}`), environment and file give them.

    Without `file`, LONGSHORE_CONFIG names it, else it is `longshore.toml` in the working
    directory, if there is one. A flag that is None was not given. Unknown keys and values that
    make no sense are ConfigErrors that say where they were found.
    """
    surroundings = os.environ if environ is None else environ
    named = file or surroundings.get(FILE_VARIABLE)
    found: dict[str, _Found] = {}
    for one in (
        *_from_flags(flags or {}),
        *_from_environment(surroundings),
        *_from_file(Path(named or FILE), is_required=named is not None),
    ):
        found.setdefault(one.key, one)
    return _build(found)


def packed(settings: Settings) -> bytes:
    """The settings as one process tells them to another. Secrets are not left out."""
    return msgspec.json.encode(settings)


def unpacked(text: bytes) -> Settings:
    """The settings that `packed` was given."""
    return msgspec.json.decode(text, type=Settings)


def service_manager(environ: Mapping[str, str] | None = None) -> tuple[str, bool] | None:
    """Where systemd wants to hear of this process, and whether it has a watchdog for it."""
    surroundings = os.environ if environ is None else environ
    address = surroundings.get("NOTIFY_SOCKET", "")
    # One that leads elsewhere than to a file or an abstract name is not systemd's.
    if not address.startswith(("/", "@")):
        return None
    is_meant = surroundings.get("WATCHDOG_PID") in (None, str(os.getpid()))
    return address, is_meant and "WATCHDOG_USEC" in surroundings


def describe() -> list[Setting]:
    """Every setting there is, section by section, for the reference page."""
    return [
        Setting(
            key=key,
            variable=_variable(key),
            default=_written(getattr(owner(), name)),
            text=_texts(owner).get(name, ""),
        )
        for key, (owner, name) in _owners().items()
    ]


@dataclass(frozen=True, slots=True)
class _Found:
    key: str
    source: str
    raw: object


def _from_flags(flags: Mapping[str, object]) -> Iterator[_Found]:
    for key, raw in flags.items():
        if raw is not None:
            yield _Found(key, key, raw)


def _from_environment(environ: Mapping[str, str]) -> Iterator[_Found]:
    known = {_variable(key): key for key in _owners()}
    for variable, raw in environ.items():
        # What a compose file leaves empty was not meant as a value.
        if variable in known and raw.strip():
            yield _Found(known[variable], variable, raw)
        elif variable.startswith(PREFIX) and variable not in (*known, FILE_VARIABLE):
            _refuse_misspelt(variable, known)


def _refuse_misspelt(variable: str, known: Iterable[str]) -> None:
    """ConfigError for a variable of one of our sections, or one that resembles a setting.

    Others are let be: a machine may well have a LONGSHORE_HOME of its own.
    """
    meant = _MEANT.get(variable, variable)
    suggestion = _suggestion(meant, known, prefix=PREFIX)
    ours = tuple(f"{PREFIX}{section.upper()}_" for section in _sections())
    if not _KUBERNETES.search(variable) and (suggestion or variable.startswith(ours)):
        raise ConfigError(f"the environment has an unknown setting {variable}{suggestion}")


def _from_file(path: Path, *, is_required: bool) -> Iterator[_Found]:
    for key, raw in _flat(_parsed(path, is_required=is_required)):
        if key not in _owners():
            raise ConfigError(f"{path} has an unknown key {key!r}{_suggestion(key, _owners())}")
        yield _Found(key, f"{key} in {path}", raw)


def _parsed(path: Path, *, is_required: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if is_required:
            raise ConfigError(f"there is no settings file {path}") from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def _flat(tables: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name, value in tables.items():
        if isinstance(value, dict):
            table = cast("dict[str, object]", value)
            yield from ((f"{name}.{key}", raw) for key, raw in table.items())
        else:
            yield name, value


def _suggestion(word: str, known: Iterable[str], *, prefix: str = "") -> str:
    """What was probably meant. What all words begin with makes none more alike."""
    names = [one.removeprefix(prefix) for one in known]
    close = get_close_matches(word.removeprefix(prefix), names, n=1, cutoff=0.8)
    return f"; did you mean {prefix}{close[0]}?" if close else ""


def _build(found: Mapping[str, _Found]) -> Settings:
    given: dict[type[Any], dict[str, Any]] = {}
    for key, one in found.items():
        owner, name = _owners()[key]
        kind = get_type_hints(owner)[name]
        try:
            given.setdefault(owner, {})[name] = _convert(name, kind, one.raw)
        except ValueError as error:
            raise ConfigError(f"{one.source}: {error}") from error
    sections = {name: kind(**given.get(kind, {})) for name, kind in _sections().items()}
    return Settings(**sections, **given.get(Settings, {}))


def _convert(name: str, kind: Any, raw: object) -> object:
    """`raw`, be it text or what TOML or a flag made of it, as a `kind`, or ValueError."""
    if isinstance(kind, types.UnionType):
        is_none = isinstance(raw, str) and raw.strip().lower() in ("", "none")
        return None if is_none else _convert(name, get_args(kind)[0], raw)
    if get_origin(kind) is tuple:
        parts = (
            [part for part in raw.split(",") if part.strip()] if isinstance(raw, str) else raw
        )
        if not isinstance(parts, list | tuple):
            raise ValueError(f"{raw!r} is not a list")
        listed = cast("Sequence[object]", parts)
        return tuple(_convert(name, get_args(kind)[0], part) for part in listed)
    if isinstance(raw, str):
        return _parse(name, kind, raw.strip())
    if isinstance(raw, bool) is not (kind is bool) or not isinstance(raw, kind):
        raise ValueError(f"{raw!r} is not {_NOUNS.get(kind, 'text')}")
    return raw


def _parse(name: str, kind: Any, text: str) -> object:
    if issubclass(kind, StrEnum):
        if text.lower() not in list(kind):
            raise ValueError(f"{text!r:.80} is none of {', '.join(kind)}")
        return kind(text.lower())
    if kind is str:
        return text
    if kind is timedelta:
        return units.duration(text)
    if kind is int and name.endswith("_bytes"):
        return units.size_bytes(text)
    if kind is int and re.fullmatch(r"-?[0-9]{1,15}", text):
        return int(text)
    if kind is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError(f"{text!r:.80} is not {_NOUNS[kind]}")


_NOUNS = {bool: "true or false", int: "a whole number", timedelta: "a duration such as 30s"}


def _written(value: object) -> str:
    """The default as one would write it oneself."""
    if isinstance(value, timedelta):
        return units.duration_text(value)
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[object, ...]", value)))
    return (
        "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def _variable(key: str) -> str:
    return PREFIX + key.replace(".", "_").upper()


@cache
def _owners() -> dict[str, tuple[type[Any], str]]:
    """By key, the class and field that hold it."""
    return {
        f"{section}.{one.name}".lstrip("."): (owner, one.name)
        for section, owner in {"": Settings, **_sections()}.items()
        for one in fields(owner)
        if section or one.name not in _sections()
    }


@cache
def _sections() -> dict[str, type[Any]]:
    return {
        one.name: one.default_factory
        for one in fields(Settings)
        if isinstance(one.default_factory, type)
    }


@cache
def _texts(owner: type[Any]) -> dict[str, str]:
    """By field, the docstring beneath it."""
    body = _classes(owner.__module__)[owner.__name__].body
    return {
        before.target.id: inspect.cleandoc(after.value.value)
        for before, after in pairwise(body)
        if isinstance(before, ast.AnnAssign)
        and isinstance(before.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}
