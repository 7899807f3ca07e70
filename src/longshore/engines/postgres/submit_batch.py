"""Calls that want jobs stored, and how one comes apart."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from longshore.core.job import NewJob, Submitted, Verdict
from longshore.errors import InFlightError

__all__ = ["Call", "answer", "divide", "refuse", "unite"]


class Call(NamedTuple):
    """Someone awaits that these jobs are stored."""

    jobs: Sequence[NewJob]
    answer: "asyncio.Future[list[Submitted]]"
    until: float
    """When, by the loop's time, it has waited long enough for who holds its keys."""
    is_divisible: bool = False
    """Its jobs may be stored one without the other."""


def divide(call: Call, groups: Sequence[Sequence[int]]) -> list[Call]:
    """A call for each group of its jobs, which are told by their places."""
    make = call.answer.get_loop().create_future
    return [
        Call([call.jobs[place] for place in group], make(), call.until, len(group) > 1)
        for group in groups
    ]


def answer(calls: Sequence[Call], answers: list[Submitted]) -> None:
    """Tell each call what became of its jobs, of the answers for all of them."""
    begin = 0
    for one in calls:
        if not one.answer.done():
            one.answer.set_result(answers[begin : begin + len(one.jobs)])
        begin += len(one.jobs)


def refuse(calls: Sequence[Call], error: BaseException) -> None:
    """Tell all of them what went wrong."""
    for one in calls:
        if not one.answer.done():
            one.answer.set_exception(error)


async def unite(parts: Sequence[Call], places: Sequence[int], call: Call) -> None:
    """Answer for all parts: what became of their jobs, or what went wrong with one.

    The places are those of the parts' jobs in the call, in order. Where the call has its answer
    already, nobody waits for the parts.
    """
    every = asyncio.gather(*[one.answer for one in parts], return_exceptions=True)
    await asyncio.wait([every, call.answer], return_when=asyncio.FIRST_COMPLETED)
    if call.answer.done():
        every.cancel()
        return
    ends = every.result()
    answers: list[Submitted] = []
    for one, end in zip(parts, ends, strict=True):
        if isinstance(end, InFlightError):
            answers += [Submitted(job.id, Verdict.HELD) for job in one.jobs]
        elif isinstance(end, BaseException):
            refuse([call], end)
            return
        else:
            answers += end
    placed = dict(zip(places, answers, strict=True))
    answer([call], [placed[place] for place in range(len(call.jobs))])
