"""An event loop whose time is not real and whose order a seed decides.

Every callback belongs to an actor, which is found in its context. Each actor's callbacks run in
the order asyncio promises; whose turn it is, the seed decides. So actors behave like processes:
one that is killed runs nothing more, not even a `finally`, and one that is stopped runs what
came due meanwhile when it goes on.
"""

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, NoReturn

__all__ = ["ACTOR", "Actor", "SimLoop", "StandstillError"]


_TURN = 1e-6
_MOST_TURNS = 1_000_000


class StandstillError(RuntimeError):
    """Nothing runs, and nothing ever will."""


class Actor:
    """What would be a process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_stopped = False

    @property
    def is_able(self) -> bool:
        """It lives, and does not stand still."""
        return not (self.is_dead or self.is_stopped)


STAGE = Actor("stage")
"""Whatever belongs to nobody: the engine, the line, the director."""
ACTOR: ContextVar[Actor] = ContextVar("longshore_lab_actor", default=STAGE)


class _Turn:
    """A callback that is due."""

    __slots__ = ("args", "callback", "context", "handle")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
        handle: asyncio.Handle,
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.handle = handle


class _Nothing(selectors.BaseSelector):
    """Waits for nothing: a simulation has no sockets."""

    def __init__(self) -> None:
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, 0, events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class SimLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self, rng: Random) -> None:
        self._time = 0.0
        self._rng = rng
        self._queues: dict[Actor, deque[_Turn]] = {}
        self._timers: list[tuple[float, int, _Turn]] = []
        self._numbers = count()
        self.turns = 0
        """Callbacks that ran."""
        self.faults: list[dict[str, Any]] = []
        """What escaped from callbacks: a fault of the product, or of this simulator."""
        self._kept: list[asyncio.Task[Any]] = []
        super().__init__(_Nothing())
        self.set_task_factory(self._make_task)
        self.set_exception_handler(lambda _, context: self._complain(context))

    def time(self) -> float:
        """Seconds since the beginning of this world."""
        return self._time

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Queue it behind the other callbacks of its actor."""
        context = context or copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        self._queue(_Turn(callback, args, context, handle))
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Queue it when its time has come."""
        context = context or copy_context()
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        turn = _Turn(callback, args, context, timer)
        heappush(self._timers, (when, next(self._numbers), turn))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Queue it after a while."""
        return self.call_at(self._time + delay, callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:
        """A thread would be out of the seed's reach."""
        raise RuntimeError("a simulation has one thread")

    def resume(self, actor: Actor) -> None:
        """Let an actor that was stopped go on."""
        actor.is_stopped = False

    def forget(self) -> None:
        """Let go of all tasks, at the end of this world."""
        self._queues.clear()
        self._timers.clear()
        self._kept.clear()

    def _make_task(
        self, _: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
    ) -> asyncio.Task[Any]:
        """A task that is kept: one that is collected runs its `finally`; the dead do not."""
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=self, **options)
        object.__setattr__(task, "_log_destroy_pending", False)  # no public way to say so
        self._kept.append(task)
        return task

    def _queue(self, turn: _Turn) -> None:
        actor = turn.context.get(ACTOR, STAGE)
        if not actor.is_dead:
            queue = self._queues.get(actor)
            if queue is None:
                queue = self._queues[actor] = deque()
            queue.append(turn)

    def _run_once(self) -> None:
        """Run callbacks until asked to stop. Time jumps to the next timer when none is due."""
        while not vars(self)["_stopping"]:
            self._wake()
            able = [one for one, queue in self._queues.items() if queue and one.is_able]
            if able:
                self._run_turn(self._queues[self._rng.choice(able)].popleft())
            elif self._timers:
                self._time = max(self._time, self._timers[0][0])
            else:
                raise StandstillError("nothing is due and nobody will ever be called")

    def _wake(self) -> None:
        """Queue what has come due."""
        timers = self._timers
        while timers and timers[0][0] <= self._time:
            turn = heappop(timers)[2]
            if not turn.handle.cancelled():
                self._queue(turn)

    def _run_turn(self, turn: _Turn) -> None:
        self.turns += 1
        # Nothing takes no time at all: who waits until just before now would wait for ever.
        self._time += _TURN
        if self.turns > _MOST_TURNS:
            self.stop()  # there is no end to it
        elif not turn.handle.cancelled():
            try:
                turn.context.run(turn.callback, *turn.args)
            except Exception as fault:
                self._complain({"message": "a callback raised", "exception": fault})

    def _complain(self, context: dict[str, Any]) -> None:
        self.faults.append(context)
