"""Tasks: what `@app.task` makes of a function."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from typing import (
    Any,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import msgspec

from longshore.breakers import Breaker
from longshore.core import codec, ids, units
from longshore.core.backoff import Backoff, Jitter
from longshore.core.job import JobId, NewJob
from longshore.core.limit_settings import BreakerSettings
from longshore.core.poison import MAX_CRASHES
from longshore.errors import ConfigError, SubmitError
from longshore.handle import JobHandle
from longshore.options import Duration, Options, TaskOptions, Template, microseconds
from longshore.signature import Signature
from longshore.worker.registry import Execution, Handler, Hook

__all__ = ["AsyncTask", "Declaration", "Register", "Spec", "SyncTask", "Task"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class Declaration(TaskOptions, total=False):
    """What `@app.task` can say about a task, besides the options of its jobs."""

    name: str
    """The type name of its jobs; the function's own name unless given. Give one before you
    rename a function that has jobs in the queue.
    """
    execution: Literal["async", "thread", "process"]
    """Where it runs: on the event loop for `async def` and in a thread for `def`, unless given;
    with "process" in a child process of the worker, whichever of the two it is.
    """
    memory_limit: int | str
    """The most memory that a job with `execution="process"` may hold: bytes, or `512MiB`."""
    max_crashes: int
    """A job that was there when so many processes died, and alone in the last, is dead, for the
    reason poison; without it, what the worker allows, `worker.max_crashes`. One crash before
    that it runs in a child process. With 1 all jobs do.
    """
    retry_base: Duration
    """The delay after the first failure is twice this; it doubles with each. 250 ms."""
    retry_cap: Duration
    """No delay is longer. 60 s."""
    retry_jitter: Literal["none", "proportional", "full"]
    """How retries that failed together are spread: not, by ±25 % (unless given), or fully."""
    retry_delay: Callable[[int], Duration]
    """Decides alone: failures so far → the delay."""
    breaker: Breaker
    """When its jobs are no longer handed out, because they fail."""
    keep_result: bool
    """Whether what it returns is stored; True unless given."""


class Spec(msgspec.Struct, Generic[R_co], frozen=True, gc=False):
    """One job, ready to be submitted. Submitting it again stands for the same job.

    A struct because one is made for every job: a dataclass takes four times as long.
    """

    job: NewJob
    connection: object
    decode_result: Callable[[bytes | None], Any]

    @property
    def id(self) -> str:
        """The id the job will have, unless an earlier one stands for it."""
        return ids.text(self.job.id)


class Submitter(Protocol):
    """What a task needs of its app."""

    def new_id(self) -> JobId:
        """An id for one job."""
        ...

    async def submit_spec(self, spec: Spec[R]) -> JobHandle[R]:
        """Store the job durably."""
        ...


@dataclass(frozen=True, slots=True)
class Definition:
    """What all copies of a task share."""

    app: Submitter
    function: Callable[..., Any]
    signature: Signature
    execution: Execution
    backoff: Backoff
    retry_delay: Callable[[int], Duration] | None
    keep_result: bool
    breaker: BreakerSettings | None
    max_crashes: int | None
    memory_bytes: int | None
    on_cancelled: list[Hook]


class Task(Generic[P, R]):
    """A function that can be called here and now, or submitted to run on a worker."""

    def __init__(self, definition: Definition, template: Template) -> None:
        self._definition = definition
        self._template = template

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    @property
    def name(self) -> str:
        """The type name of its jobs."""
        return self._template.job.type

    @property
    def queue(self) -> str:
        """Where its jobs go."""
        return self._template.job.queue

    @property
    def execution(self) -> Execution:
        """Where it runs in a worker."""
        return self._definition.execution

    @property
    def breaker(self) -> BreakerSettings | None:
        """When its jobs are not to be handed out, as its code says."""
        return self._definition.breaker

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        return self._definition.function

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Store a job that will call the task with these arguments; durable on return.

        PayloadError, with nothing stored, if the task does not take them.
        """
        return await self._definition.app.submit_spec(self.spec(*args, **kwargs))

    def spec(self, *args: P.args, **kwargs: P.kwargs) -> Spec[R]:
        """The same job, not submitted yet: for `submit_many`, `app.sync` and schedules."""
        return self.spec_of(self._definition.signature.encode(args, kwargs))

    def spec_of(self, payload: bytes) -> Spec[R]:
        """The job of a payload that has been encoded or checked before."""
        template, definition = self._template, self._definition
        return Spec(
            template.fill(definition.app.new_id(), payload),
            template.connection,
            definition.signature.decode_result,
        )

    def read(self, payload: bytes) -> Spec[R]:
        """The job of a payload that came as JSON text, or PayloadError."""
        self._definition.signature.decode(codec.check(payload))
        return self.spec_of(payload)

    def using(self, **options: Unpack[Options]) -> Self:
        """The same task, with other options for what is submitted through it."""
        return type(self)(self._definition, self._template.using(options))

    def on_cancelled(self, function: Callable[P, T], /) -> Callable[P, T]:
        """Have this function called after a job of the task was cancelled while it ran.

        `@task.on_cancelled`, on a function that takes what the task takes, with or without
        `async`. It runs in the worker, for 10 seconds at most, once the queue has the job as
        cancelled; what it raises is logged. Not for jobs that were cancelled before they ran.
        """
        definition = self._definition
        run = definition.signature.caller(function)
        definition.on_cancelled.append(Hook(run, inspect.iscoroutinefunction(function)))
        return function

    def handler(self, *, max_crashes: int = MAX_CRASHES) -> Handler:
        """The task as a worker runs it. ConfigError if its annotations make no sense.

        `max_crashes` is for a task that does not say.
        """
        definition = self._definition
        delay = definition.retry_delay
        return Handler(
            type=self.name,
            decode=definition.signature.decode,
            run=definition.signature.run,
            execution=definition.execution,
            encode_result=codec.encode_result if definition.keep_result else _forget,
            backoff=definition.backoff,
            retry_delay=None
            if delay is None
            else lambda failures: microseconds(delay(failures)),
            max_crashes=definition.max_crashes or max_crashes,
            memory_bytes=definition.memory_bytes,
            is_async=inspect.iscoroutinefunction(definition.function),
            on_cancelled=tuple(definition.on_cancelled),
        )


class AsyncTask(Task[P, R]):
    """A task made of a coroutine function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        """Run the function here and now, as if it were no task."""
        return self._definition.function(*args, **kwargs)


class SyncTask(Task[P, R]):
    """A task made of a plain function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now, as if it were no task."""
        return self._definition.function(*args, **kwargs)


class Register:
    """Turns functions into tasks of one app: `@app.task`, or with options `@app.task(...)`."""

    def __init__(
        self, app: Submitter, keep: Callable[[Task[..., Any]], None], declaration: Declaration
    ) -> None:
        self._app = app
        self._keep = keep
        self._declaration = declaration

    # A coroutine function is also a plain function that returns a coroutine, so the second
    # overload would take it too; the first one is tried first.
    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def __call__(self, /, **declaration: Unpack[Declaration]) -> "Register": ...
    def __call__(
        self, function: Callable[..., Any] | None = None, /, **declaration: Any
    ) -> Any:
        """The function as a task; without one, the same decorator with these options."""
        if function is None:
            merged = cast("Declaration", {**self._declaration, **declaration})
            return Register(self._app, self._keep, merged)
        task = declare(self._app, function, self._declaration)
        self._keep(task)
        return task


def named(name: object, tasks: Mapping[str, Task[..., Any]]) -> Task[..., Any] | None:
    """The task of that name. A name that is no text, and may have no hash, is nobody's."""
    return tasks.get(name) if isinstance(name, str) else None


def declare(
    app: Submitter, function: Callable[..., Any], declaration: Declaration
) -> Task[..., Any]:
    """The function as a task, or ConfigError."""
    name = declaration.get("name") or _own_name(function)
    execution = _execution(function, name, declaration.get("execution"))
    try:
        template = Template.of(name).using(_job_options(declaration))
        backoff = _backoff(declaration)
        memory_bytes = _memory_bytes(declaration, execution)
        max_crashes = _max_crashes(declaration)
        breaker = declaration.get("breaker")
        stands = None if breaker is None else breaker.settings(name)
    except (SubmitError, ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"task {name!r}: {error}") from None
    definition = Definition(
        app=app,
        function=function,
        signature=Signature(function, name),
        execution=execution,
        backoff=backoff,
        retry_delay=declaration.get("retry_delay"),
        keep_result=declaration.get("keep_result", True),
        breaker=stands,
        max_crashes=max_crashes,
        memory_bytes=memory_bytes,
        on_cancelled=[],
    )
    is_async = inspect.iscoroutinefunction(function)
    task: Task[..., Any] = (AsyncTask if is_async else SyncTask)(definition, template)
    update_wrapper(cast("Callable[..., Any]", task), function)
    return task


def _job_options(declaration: Declaration) -> Options:
    own = Declaration.__annotations__.keys() - TaskOptions.__annotations__.keys()
    rest = {key: value for key, value in declaration.items() if key not in own}
    unfit = rest.keys() & (Options.__annotations__.keys() - TaskOptions.__annotations__.keys())
    if unfit:
        raise SubmitError(f"{min(unfit)} is for one job; use task.using({min(unfit)}=...)")
    return cast("Options", rest)


def _own_name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise ConfigError(f"{function!r} has no name of its own; give one: task(name=...)")
    return name


def _execution(function: Callable[..., Any], name: str, wish: str | None) -> Execution:
    is_async = inspect.iscoroutinefunction(function)
    if wish == "thread" and is_async:
        raise ConfigError(f"task {name!r}: an async function runs on the event loop")
    if wish is None:
        return Execution.ASYNC if is_async else Execution.THREAD
    try:
        return Execution(wish)
    except ValueError:
        raise ConfigError(
            f"task {name!r}: execution is {wish!r}; use async, thread or process"
        ) from None


def _backoff(declaration: Declaration) -> Backoff:
    usual = Backoff()
    base, cap = declaration.get("retry_base"), declaration.get("retry_cap")
    backoff = Backoff(
        base=usual.base if base is None else microseconds(base),
        cap=usual.cap if cap is None else microseconds(cap),
        jitter=Jitter(declaration.get("retry_jitter", usual.jitter)),
    )
    if backoff.base < 0 or backoff.cap < 0:
        raise ValueError("retry_base and retry_cap must not be negative")
    return backoff


def _memory_bytes(declaration: Declaration, execution: Execution) -> int | None:
    limit = declaration.get("memory_limit")
    if limit is None:
        return None
    if execution is not Execution.PROCESS:
        raise ValueError("a memory_limit is for execution='process'")
    size = units.size_bytes(limit) if isinstance(limit, str) else limit
    if size < 1:
        raise ValueError("memory_limit must be at least 1")
    return size


def _max_crashes(declaration: Declaration) -> int | None:
    most = declaration.get("max_crashes")
    if most is not None and most < 1:
        raise ValueError("max_crashes must be at least 1")
    return most


def _forget(_: object) -> None:
    """A result that nobody wants is not stored."""
