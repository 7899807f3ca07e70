"""The schedules of an app: those that its code declares, and those that its store holds."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, Unpack

from longshore import schedule_options
from longshore.contract import Engine
from longshore.core.schedule import Schedule
from longshore.errors import ConfigError
from longshore.operations.backend import Backend
from longshore.operations.declarations import Declarations
from longshore.operations.schedule_documents import schedule_from
from longshore.schedule_options import Times
from longshore.task import Spec, Task

__all__ = ["Schedules"]

SomeTask = TypeVar("SomeTask", bound=Task[..., Any])


class Home(Protocol):
    """What schedules need of their app."""

    @property
    def backend(self) -> Backend:
        """The engine, or a service in front of one."""
        ...

    @property
    def engine(self) -> Engine:
        """The engine, or ConfigError while the app is not open."""
        ...


class Schedules:
    """Iterates over what the code declares; its methods act on what is stored.

    `put` is for schedules that come from data: a customer's wish, a row of a table. What the
    code declares is stored when the app starts to work.
    """

    def __init__(self, app: Home) -> None:
        self._app = app
        self._declared: dict[tuple[str, str], Schedule] = {}
        self._unused_decorators: set[Callable[..., Any]] = set()

    def __iter__(self) -> Iterator[Schedule]:
        return iter(self._declared.values())

    def __len__(self) -> int:
        return len(self._declared)

    async def put(self, name: str, spec: Spec[Any], **times: Unpack[Times]) -> Schedule:
        """Create a schedule now, or change the one of this name, without declaring it.

        With the same times it keeps its place; new times count from now. A pause stays.
        """
        wanted = schedule_options.recurring(name, spec, times)
        return schedule_from((await self._app.backend.put_schedule(wanted)).schedule)

    async def get(self, name: str, *, tenant: str = "default") -> Schedule:
        """The schedule as it is stored, or ScheduleNotFoundError."""
        return schedule_from(await self._app.backend.schedule(name, tenant=tenant))

    async def pause(self, name: str, *, tenant: str = "default") -> Schedule:
        """Stop firing it. Due times that pass meanwhile are skipped."""
        return schedule_from(await self._app.backend.pause_schedule(name, tenant=tenant))

    async def resume(self, name: str, *, tenant: str = "default") -> Schedule:
        """Fire it again, from the next due time on."""
        return schedule_from(await self._app.backend.resume_schedule(name, tenant=tenant))

    async def remove(self, name: str, *, tenant: str = "default") -> None:
        """Delete it, or ScheduleNotFoundError. Jobs that it fired stay."""
        await self._app.backend.delete_schedule(name, tenant=tenant)

    def declare(self, name: str, spec: Spec[Any], times: Times) -> Schedule:
        """What `app.schedule` does when it is given a job."""
        schedule = schedule_options.recurring(name, spec, times)
        self._declared[schedule.tenant, name] = schedule
        return schedule

    def decorator(self, name: str | None, times: Times) -> Callable[[SomeTask], SomeTask]:
        """What `@app.schedule` does to the task below it."""

        def declare_for(task: SomeTask) -> SomeTask:
            known = name or getattr(task, "name", "")
            spec = schedule_options.without_arguments(task, known)
            schedule = schedule_options.recurring(known, spec, times)
            # A module that is loaded again declares the same again.
            if self._declared.setdefault((schedule.tenant, known), schedule) != schedule:
                raise ConfigError(f"there are two schedules {known!r}; give one another name")
            self._unused_decorators.discard(declare_for)
            return task

        self._unused_decorators.add(declare_for)
        return declare_for

    async def store(self) -> None:
        """Bring the store up to what is declared."""
        if self._unused_decorators:
            raise ConfigError("app.schedule(...) without a spec must stand above a task")
        await self._app.backend.declare(Declarations(schedules=list(self)))
