"""An event loop whose time is not real and whose order a seed decides.

Every callback belongs to an actor, which is found in its context. Each actor's callbacks run in
the order asyncio promises; whose turn it is, the seed decides. So actors behave like processes:
one that is killed runs nothing more, not even a `finally`, and one that is stopped runs what
came due meanwhile when it goes on.
"""

import asyncio
import selectors
from bisect import insort
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, NoReturn

__all__ = ["ACTOR", "Actor", "SimLoop", "StandstillError"]


_TURN = 1e-6
_MOST_TURNS = 10_000_000
_FIRST_KEPT = 1_000


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


class _Turn(asyncio.TimerHandle):
    """A callback that is due, or will be: lighter than its like, for a world has thousands."""

    __slots__ = ("args", "callback", "context", "due", "is_cancelled")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
        due: float,
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.due = due
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.due


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
        self._draw = rng.getrandbits
        self._places: dict[Actor, int] = {}
        """Of the actors' queues, in the order of their first callbacks."""
        self._queues: list[deque[_Turn]] = []
        self._able: list[int] = []
        """The places of those whose turn it may be, in order."""
        self._timers: list[tuple[float, int, _Turn]] = []
        self._numbers = count()
        self.turns = 0
        """Callbacks that ran."""
        self.faults: list[dict[str, Any]] = []
        """What escaped from callbacks: a fault of the product, or of this simulator."""
        self._kept: list[asyncio.Task[Any]] = []
        self._keeps = _FIRST_KEPT
        """So many tasks are kept before those that are done are let go."""
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
        turn = _Turn(callback, args, context or copy_context(), self._time)
        self._queue(turn)
        return turn

    call_soon_threadsafe = call_soon

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Queue it when its time has come."""
        turn = _Turn(callback, args, context or copy_context(), when)
        heappush(self._timers, (when, next(self._numbers), turn))
        return turn

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

    def kill(self, actor: Actor) -> None:
        """Let an actor run nothing more."""
        actor.is_dead = True
        self._look_around()

    def stop_short(self, actor: Actor) -> None:
        """Let an actor stand still."""
        actor.is_stopped = True
        self._look_around()

    def resume(self, actor: Actor) -> None:
        """Let an actor that was stopped go on."""
        actor.is_stopped = False
        self._look_around()

    def forget(self) -> None:
        """Let go of all tasks, at the end of this world."""
        self._places.clear()
        self._queues.clear()
        self._able.clear()
        self._timers.clear()
        self._kept.clear()

    def _make_task(
        self, _: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
    ) -> asyncio.Task[Any]:
        """A task that is kept: one that is collected runs its `finally`; the dead do not."""
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=self, **options)
        object.__setattr__(task, "_log_destroy_pending", False)  # no public way to say so
        self._kept.append(task)
        if len(self._kept) > self._keeps:
            self._kept = [one for one in self._kept if _is_worth_keeping(one)]
            self._keeps = max(2 * len(self._kept), _FIRST_KEPT)
        return task

    def _queue(self, turn: _Turn) -> None:
        actor = turn.context.get(ACTOR, STAGE)
        if actor.is_dead:
            return
        place = self._places.get(actor)
        if place is None:
            place = self._places[actor] = len(self._queues)
            self._queues.append(deque())
        queue = self._queues[place]
        if not queue and not actor.is_stopped:
            insort(self._able, place)
        queue.append(turn)

    def _look_around(self) -> None:
        """See anew whose turn it may be."""
        self._able[:] = [
            place
            for actor, place in self._places.items()
            if self._queues[place] and actor.is_able
        ]

    def _run_once(self) -> None:
        """Run callbacks until asked to stop. Time jumps to the next timer when none is due."""
        able, timers, facts = self._able, self._timers, vars(self)
        while not facts["_stopping"]:
            while timers and timers[0][0] <= self._time:
                turn = heappop(timers)[2]
                if not turn.is_cancelled:
                    self._queue(turn)
            if able:
                self._run_turn()
            elif timers:
                self._time = timers[0][0]
            else:
                raise StandstillError("nothing is due and nobody will ever be called")

    def _run_turn(self) -> None:
        """Run the first callback of one of the able, as `Random.choice` would draw it."""
        able = self._able
        bits = len(able).bit_length()
        chosen = self._draw(bits)
        while chosen >= len(able):
            chosen = self._draw(bits)
        queue = self._queues[able[chosen]]
        turn = queue.popleft()
        if not queue:
            del able[chosen]
        self.turns += 1
        # Nothing takes no time at all: who waits until just before now would wait for ever.
        self._time += _TURN
        if self.turns > _MOST_TURNS:
            self.stop()  # there is no end to it
        elif not turn.is_cancelled:
            try:
                turn.context.run(turn.callback, *turn.args)
            except Exception as fault:
                self._complain({"message": "a callback raised", "exception": fault})

    def _complain(self, context: dict[str, Any]) -> None:
        self.faults.append(context)


def _is_worth_keeping(task: asyncio.Task[Any]) -> bool:
    """It has something left to run, or an exception to complain of that nobody asked for."""
    return not task.done() or bool(object.__getattribute__(task, "_log_traceback"))
