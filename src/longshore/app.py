"""The front door: an app holds its tasks and schedules, and an engine while it is open."""

import asyncio
import inspect
import os
from collections.abc import (
    Callable,
    Collection,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby, islice
from typing import Any, Self, TypeVar, Unpack, cast, overload

import msgspec

from longshore import tracing
from longshore.contract import Engine, JobStore, TransactionalProducer
from longshore.core import codec, ids
from longshore.core.job import JobId, Submitted, Verdict
from longshore.core.poison import MAX_CRASHES
from longshore.core.schedule import Schedule
from longshore.errors import (
    ConfigError,
    ForbiddenError,
    IdempotencyError,
    IdTakenError,
    NotOverHttpError,
    PayloadError,
)
from longshore.handle import JobHandle
from longshore.observe.metrics import Metrics
from longshore.open_store import Opened, open_here
from longshore.operations.backend import Backend
from longshore.operations.declarations import Declarations
from longshore.options import Duration, Options, Template, microseconds
from longshore.queues import Queues
from longshore.runtime.clock import Clock, SystemClock
from longshore.runtime.ids import IdSource
from longshore.schedule_options import Times
from longshore.scheduler.service import Scheduler
from longshore.schedules import Schedules, SomeTask
from longshore.settings import Settings, load, packed, unpacked
from longshore.sync import Sync
from longshore.task import Register, Spec, Task, declare, named
from longshore.tasks.builtin import SYSTEM_QUEUES, SYSTEM_TYPES, builtins_of
from longshore.wire.address import is_service, keyed
from longshore.worker.app_locator import LogStyle, Origin, check_may_open, find_origin
from longshore.worker.keeper import KeeperOffer
from longshore.worker.registry import Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker

__all__ = ["Longshore"]

R = TypeVar("R")

_CHUNK = 1_000
"""Jobs per commit of `submit_many`: past this a larger batch is no faster, only rougher on
others who submit meanwhile."""


_BUILTIN_APP = "longshore.tasks.standalone"


class Longshore:
    """A set of tasks and the engine that keeps their jobs.

    `async with app:` opens the engine; a SQLite file is created and brought up to date.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Without `url`, settings decide: LONGSHORE_ENGINE_URL, longshore.toml, the default.

        `key` is the API key of a service, `https://host`; else LONGSHORE_KEY is.
        """
        self._url: str | None = url
        self._key: str | None = key
        self._settings: Settings | None = settings
        self._given_clock: Clock | None = clock
        self._clock = clock or SystemClock()
        self._ids = IdSource(self._clock)
        self._tasks: dict[str, Task[..., Any]] = {}
        self._opened: Opened | None = None
        self.task = Register(self, self._keep, {})
        """Decorator: `@app.task`, or with options `@app.task(queue="mail", max_attempts=8)`."""
        self.metrics = Metrics()
        """What this process counts: `app.metrics.text()` is a page for Prometheus."""
        self.sync = Sync(self)
        """The app for code that does not await."""
        self.queue = Queues(self)
        """What may run of a queue: `app.queue("mail", max_running=10, rate="100/s")`."""
        self.schedules = Schedules(self)
        """The schedules it declares; `put`, `pause` and the like for those in its store."""

    @property
    def settings(self) -> Settings:
        """As given, else as environment and file have them."""
        if self._settings is None:
            self._settings = load()
        return self._settings

    @property
    def url(self) -> str:
        """Where the engine is."""
        url = self._url or self.settings.engine.url
        if not self._is_remote:
            return url
        mine = self.settings
        return keyed(url, self._key or mine.key, plain_http=mine.plain_http)

    @property
    def _is_remote(self) -> bool:
        """Its store is reached through a service, over HTTP."""
        return is_service(self._url or self.settings.engine.url)

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """Its tasks by type name, the built-in ones included."""
        return {**self._builtins, **self._tasks}

    @property
    def _served(self) -> Mapping[str, Task[..., Any]]:
        """The tasks that a worker runs; over HTTP without those that need the store itself."""
        own = SYSTEM_TYPES if self._is_remote else frozenset[str]()
        return {name: task for name, task in self.tasks.items() if name not in own}

    async def __aenter__(self) -> Self:
        check_may_open()
        opened = self._opened
        if opened is None or opened.pid != os.getpid() or opened.loop.is_closed():
            opened = open_here(self.url, self._given_clock, self.metrics, self.settings.tracing)
            self._opened = opened
        if opened.loop is not asyncio.get_running_loop():
            raise ConfigError(
                "the app is open on another event loop; if app.sync opened it there, "
                "call app.sync.close() first"
            )
        opened.users += 1
        try:
            if opened.engine is not None and opened.engine.url.startswith("sqlite:"):
                await opened.engine.migrate(max_wait=0)
        except BaseException:
            await self._leave(opened)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._opened is not None:
            await self._leave(self._opened)

    @contextmanager
    def at(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
    ) -> Generator[Self]:
        """The same app and its tasks on another engine, inside the block.

        `settings` are for an app that was given none. For tests, and for whoever starts it.
        """
        if self._opened is not None:
            raise ConfigError("the app is open; it moves only while it is closed")
        home = self._url, self._settings, self._given_clock, self._clock
        self._url = url or self._url
        self._settings = self._settings or settings
        self._given_clock, self._clock = clock, clock or SystemClock()
        try:
            yield self
        finally:
            self._url, self._settings, self._given_clock, self._clock = home

    @contextmanager
    def _as_in_worker(self, origin: Origin) -> Generator[Self]:
        """The app with the engine and the settings of the worker whose child this is."""
        known = None if origin.settings is None else unpacked(origin.settings)
        with self.at(origin.url, settings=known):
            yield self

    @property
    def engine(self) -> Engine:
        """The engine; ConfigError while the app is not open, or open on a service."""
        engine = self._open.engine
        if engine is None:
            raise NotOverHttpError(
                f"{self._open.store.url} is a service in front of a store; app.engine is for "
                "an app that is given the store's own URL"
            )
        return engine

    @property
    def store(self) -> JobStore:
        """Where jobs are submitted and run: the engine, or a service in front of one."""
        return self._open.store

    @property
    def backend(self) -> Backend:
        """Answers all other questions: the engine, or a service in front of one."""
        return self._open.backend

    @property
    def _open(self) -> Opened:
        if self._opened is None:
            raise ConfigError("the app is not open; use `async with app:`, or app.sync")
        return self._opened

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop on which the app is open in this process, if it is."""
        opened = self._opened
        if opened is None or opened.pid != os.getpid() or not opened.loop.is_running():
            return None
        return opened.loop

    async def submit(
        self,
        type_name: str,
        payload: Mapping[str, object] | bytes | str = b"{}",
        **options: Unpack[Options],
    ) -> JobHandle[Any]:
        """Submit a job by its type name, also of a task that lives in another program.

        The payload is a mapping, or JSON text. It is checked against the task if the task is
        registered here.
        """
        return await self.submit_spec(self.spec(type_name, payload, **options))

    async def submit_many(self, specs: Iterable[Spec[R]]) -> list[JobHandle[R]]:
        """Submit many jobs, a thousand per commit; the handles are in the order of the specs.

        If it fails in the middle, send the same specs again: those that were stored are
        answered `repeated`. A conflict over an idempotency key, or an id that another
        tenant's job has, raises nothing here; it is that handle's verdict.
        """
        handles: list[JobHandle[R]] = []
        for _, group in groupby(specs, key=lambda spec: id(spec.connection)):
            while chunk := list(islice(group, _CHUNK)):
                answers = await self._store(chunk)
                handles += map(self._handle, chunk, answers)
        return handles

    def spec(
        self,
        type_name: str,
        payload: Mapping[str, object] | bytes | str = b"{}",
        **options: Unpack[Options],
    ) -> Spec[Any]:
        """What `submit` submits, for `submit_many` and schedules."""
        raw = payload.encode(errors="surrogatepass") if isinstance(payload, str) else payload
        if not isinstance(raw, Mapping | bytes):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller has a type checker
            raise PayloadError(f"payload is {type(raw).__name__}; it must be a mapping or JSON")
        task = named(type_name, self._tasks) or named(type_name, self._builtins)
        if task is not None:
            task = task.using(**options)
            return task.read(raw) if isinstance(raw, bytes) else task.spec(**raw)
        template = Template.of(type_name).using(options)
        checked = codec.check(raw) if isinstance(raw, bytes) else codec.encode(raw)
        return Spec(
            template.fill(self.new_id(), checked), template.connection, codec.decode_result
        )

    @overload
    def schedule(self, name: str, spec: Spec[Any], **times: Unpack[Times]) -> Schedule: ...
    @overload
    def schedule(
        self, name: str | None = None, **times: Unpack[Times]
    ) -> Callable[[SomeTask], SomeTask]: ...
    def schedule(
        self, name: str | None = None, spec: Spec[Any] | None = None, **times: Unpack[Times]
    ) -> Any:
        """Declare that a job is submitted again and again.

        `app.schedule("reports", report.spec("sales"), cron="0 6 * * *")` submits jobs like the
        spec's. Above `@app.task` it is a decorator: `@app.schedule(every=60)` submits the task
        without arguments, in a schedule of the task's name unless another is given. It is
        stored when the app starts to work; declaring it again changes it.
        """
        if spec is not None:
            return self.schedules.declare(name or "", spec, times)
        return self.schedules.decorator(name, times)

    async def store_schedules(self) -> None:
        """Store the declared schedules. Workers and schedulers do so when they start."""
        await self.schedules.store()

    async def declare(self) -> None:
        """Store what the code declares: queues, breakers, schedules. Workers do so at start."""
        breakers = {
            task.name: task.breaker for task in self.tasks.values() if task.breaker is not None
        }
        declared = Declarations(
            queues={one.queue: one.declared for one in self.queue},
            breakers=breakers,
            schedules=list(self.schedules),
        )
        if not declared:
            return
        try:
            await self.backend.declare(declared)
        except ForbiddenError as error:
            raise ForbiddenError(
                f"what the code declares (queues, breakers, schedules) was not stored: {error};"
                " start with an operator's key that has the scope declare beside its others"
            ) from None

    def with_queues(self, worker: WorkerSettings) -> WorkerSettings:
        """The settings of a worker that, unless it names queues, serves those of the tasks."""
        if worker.queues != WorkerSettings().queues:
            return worker
        # Of equal weight: none of them shall wait for another to be empty.
        names = {"default", *(task.queue for task in self._tasks.values())}
        if not self._is_remote:
            names.update(SYSTEM_QUEUES)
        return replace(worker, queues=tuple(f"{name}=1" for name in sorted(names)))

    def registry(
        self,
        child_logs: LogStyle | None = None,
        *,
        isolated: Collection[str] = (),
        max_crashes: int = MAX_CRASHES,
    ) -> Registry:
        """Its tasks as a worker runs them. ConfigError if one cannot be run.

        `child_logs` is how the worker's child processes log, if not as their code says.
        `isolated` are the types whose suspects run in such processes: those of the app only
        for a program that has set up nothing but what a child gets by importing the app.
        `max_crashes` is for tasks that do not say.
        """
        handlers = (task.handler(max_crashes=max_crashes) for task in self._served.values())
        traced = tracing.around(handlers, self.settings.tracing, self.settings.worker.name)
        origin = partial(self._origin, child_logs)
        return Registry(traced, origin=origin, isolated=isolated, builtin=self._builtin_types())

    async def work(
        self,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        until_idle: bool = False,
        horizon: Duration = 0.0,
        keeper: bool = False,
    ) -> None:
        """Run jobs and schedules in this process, until cancelled or, if so wished, idle.

        Idle means that nothing is ready or running, and nothing due within `horizon`. Without
        `queues`, those of the settings, else those of its tasks. For a service of its own use
        the command `longshore worker`, which also minds signals and processes. With `keeper`
        a process is started that keeps the lease while handlers block this one.
        """
        settings = self._worker_settings(queues, concurrency)
        async with self:
            # No child can set up what this program did before it began to work. The built-in
            # tasks need nothing of that.
            traits = self.store.traits
            if until_idle and not traits.maintenance:
                raise ConfigError(
                    "until_idle needs the store itself: over HTTP nobody tells what is due"
                )
            is_shared = traits.shared_between_processes
            registry = self.registry(
                isolated=self._builtin_types() if is_shared else (),
                max_crashes=settings.max_crashes,
            )
            worker = Worker(self.store, registry, settings, clock=self._clock)
            await self.declare()
            async with self._maintaining(worker, microseconds(settings.lease)):
                seconds = microseconds(horizon) / 1e6
                offer = self._keeper_offer() if keeper else None
                await worker.run(until_idle=until_idle, horizon=seconds, keeper=offer)

    def _maintaining(self, worker: Worker, lease: int) -> AbstractAsyncContextManager[object]:
        """Promotes, reclaims and fires beside the worker; a service does that for itself."""
        if self._open.engine is None:
            return nullcontext()
        return Scheduler(
            self._open.engine,
            keeping=self.settings.keeping,
            lease=lease,
            clock=self._clock,
            on_ready=lambda _: worker.nudge(),
        ).running()

    def job(self, job_id: str) -> JobHandle[Any]:
        """A handle for the job with this id, or ValueError if it is not an id."""
        return JobHandle(self, ids.parse(job_id))

    def new_id(self) -> JobId:
        """An id for one job."""
        return self._ids.make()

    async def submit_spec(self, spec: Spec[R]) -> JobHandle[R]:
        """Submit one prepared job. IdempotencyError if its key belongs to other content."""
        if spec.connection is None:
            (answer,) = await self.store.submit((spec.job,))
        else:
            (answer,) = await self._store([spec])
        return self._accepted(spec, answer)

    def submit_here(self, spec: Spec[R]) -> JobHandle[R]:
        """Submit inside the transaction of the spec's connection, without awaiting."""
        answers = self._transactional().submit_on(spec.connection, [spec.job])
        if not isinstance(answers, list):
            if isinstance(answers, Coroutine):
                answers.close()
            raise ConfigError("this connection must be awaited; use `await task.submit(...)`")
        return self._accepted(spec, answers[0])

    async def _store(self, specs: list[Spec[Any]]) -> list[Submitted]:
        jobs = [spec.job for spec in specs]
        connection = specs[0].connection
        if connection is None:
            return await self.store.submit(jobs)
        answers = self._transactional().submit_on(connection, jobs)
        return await answers if inspect.isawaitable(answers) else answers

    def _transactional(self) -> TransactionalProducer:
        store = self.store
        if not store.traits.transactional_submit:
            raise ConfigError(f"{store.url} cannot take jobs inside your own transaction")
        return cast("TransactionalProducer", store)

    def _accepted(self, spec: Spec[R], answer: Submitted) -> JobHandle[R]:
        if answer.verdict is Verdict.CONFLICT:
            raise IdempotencyError(spec.job.idempotency_key or "", ids.text(answer.id))
        if answer.verdict is Verdict.TAKEN:
            raise IdTakenError(ids.text(answer.id))
        return self._handle(spec, answer)

    def _handle(self, spec: Spec[R], answer: Submitted) -> JobHandle[R]:
        return JobHandle(self, answer.id, answer.verdict, spec.decode_result)

    @cached_property
    def _builtins(self) -> dict[str, Task[..., Any]]:
        found = builtins_of(self.settings, lambda: self.engine)
        return {
            name: declare(self, one.function, one.declaration) for name, one in found.items()
        }

    def _keeper_offer(self) -> KeeperOffer:
        if not self.store.traits.shared_between_processes:
            where = self.store.url
            raise ConfigError(f"a keeper is another process, and none can reach {where}")
        return KeeperOffer(url=self.url)

    def _worker_settings(
        self, queues: Sequence[str] | None, concurrency: int | None
    ) -> WorkerSettings:
        settings = self.with_queues(self.settings.worker)
        return replace(
            settings,
            queues=settings.queues if queues is None else tuple(queues),
            concurrency=settings.concurrency if concurrency is None else concurrency,
        )

    def _builtin_types(self) -> frozenset[str]:
        """The types of built-in tasks that the app has none of its own for."""
        return frozenset(self._builtins.keys() - self._tasks.keys())

    def _origin(self, logs: LogStyle | None, types: Collection[str]) -> Origin:
        is_private = not self.store.traits.shared_between_processes
        if self._builtin_types().issuperset(types):
            found = Origin(f"{_BUILTIN_APP}:app", (_BUILTIN_APP,))
        else:
            modules = {self._tasks[name].function.__module__ for name in types}
            found = find_origin(self, modules)
        return msgspec.structs.replace(
            found,
            url=self.url,
            is_private=is_private,
            logs=logs,
            settings=packed(self.settings),
        )

    def _keep(self, task: Task[..., Any]) -> None:
        other = self._tasks.get(task.name)
        if other is not None and _place(other) != _place(task):
            raise ConfigError(
                f"{_place(other)} and {_place(task)} are both registered as {task.name!r}; "
                "give one of them another name: task(name=...)"
            )
        self._tasks[task.name] = task

    async def _leave(self, opened: Opened) -> None:
        opened.users -= 1
        if opened.users == 0:
            if self._opened is opened:
                self._opened = None
            await opened.store.close()


def _place(task: Task[..., Any]) -> str:
    return f"{task.function.__module__}.{task.function.__qualname__}"
