"""The routes of the contract's other calls, for Longshore's own processes elsewhere."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from longshore import paging
from longshore.api import caps
from longshore.api.problems import ProblemError, invalid, problem
from longshore.api.routing import Answer, Call, Caller, Nothing, Route
from longshore.api.service import Service
from longshore.api.sessions import telling
from longshore.api.slices import in_slices
from longshore.api.views import encode
from longshore.core import account
from longshore.core.account import DEFAULT_TENANT, NewKey, Tenant
from longshore.core.job import NewJob
from longshore.core.schedule import Schedule, declared
from longshore.core.view import JobFilter
from longshore.engine import Engine
from longshore.wire.methods import METHODS, Method

__all__ = ["ROUTES"]

_LARGEST = 2**62
_LARGEST_OF = {
    "delivery": 2**31 - 1,
    "priority": 2**15 - 1,
    "max_attempts": 2**15 - 1,
    "token": 2**63 - 1,
    "after": 2**63 - 1,
    "handle": 2**63 - 1,
    "positions": 2**63 - 1,
}
_IDS = frozenset({"job_id", "job_ids", "last_job"})
_LONGEST_TEXT = 100_000
_ID_BYTES = 16


def _handler(method: Method) -> Callable[[Call[Nothing, Nothing, Any]], Awaitable[Answer]]:
    names = method.request.__struct_fields__

    async def handle(call: Call[Nothing, Nothing, Any]) -> Answer:
        arguments = {name: getattr(call.body, name) for name in names}
        for name, value in arguments.items():
            async for one in in_slices(_items(value)):
                _verify(one, name)
        with telling():
            for value in arguments.values():
                async for one in in_slices(_items(value)):
                    _check(one)
            owned = await _owned(call.caller, arguments)
            if method.name == "submit":
                # Who it is, the key says, and not the one who asks.
                by = call.caller.name if call.service.tells_who else None
                owned["jobs"] = [replace(job, by=by) async for job in in_slices(owned["jobs"])]
            await _check_caps(call, method.name, owned)
            answer = await _carry_out(call.service, method.name, owned)
        if method.answer is None:
            return Answer(204)
        return Answer(200, encode(answer))

    handle.__doc__ = getattr(Engine, method.name).__doc__
    return handle


async def _check_caps(
    call: Call[Nothing, Nothing, Any], name: str, arguments: dict[str, Any]
) -> None:
    """Return if the caller's tenant may have what it asks for, else CapReachedError."""
    account, names = call.caller.account, call.service.queue_names
    if account is None:
        return
    if name == "submit":
        for job in arguments["jobs"]:
            caps.check_job(account, job)
        if await names.refused(account, {job.queue for job in arguments["jobs"]}):
            raise caps.queues_reached(account)
    elif name == "put_schedule":
        wanted = arguments["schedule"]
        await caps.check_schedule(call.service.engine, account, wanted)
        await names.check(account, wanted.queue)


async def _carry_out(service: Service, name: str, arguments: dict[str, Any]) -> Any:
    if name == "find":
        return await paging.find(service.engine, **arguments)
    if name == "submit":
        return await service.submit(**arguments)
    if name == "put_schedule":
        # When it is due follows from its times, and not from what a caller says.
        existing, now = arguments["seen"], await service.engine.now()
        wanted = declared(arguments["schedule"], now=now, existing=existing)
        return await service.engine.put_schedule(wanted, seen=existing)
    return await getattr(service.engine, name)(**arguments)


def _items(value: Any) -> Sequence[Any]:
    """The items of a list, which may be many; of anything else, the thing itself."""
    return cast("list[Any]", value) if isinstance(value, list) else (value,)


async def _owned(caller: Caller, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the caller's key allows them: about its own tenant only."""
    tenant = caller.tenant
    if tenant is None:
        return arguments
    owned: dict[str, Any] = {}
    for name, value in arguments.items():
        if isinstance(value, list):
            items = cast("list[Any]", value)
            owned[name] = [_own("", one, tenant) async for one in in_slices(items)]
        else:
            owned[name] = _own(name, value, tenant)
    return owned


def _own(name: str, value: Any, tenant: str) -> Any:
    match value:
        case NewJob() | Schedule():
            return replace(value, tenant=_mine(value.tenant, tenant))
        case JobFilter():
            return replace(value, tenant=_mine(value.tenant, tenant))
        case str() | None if name == "tenant":
            return _mine(value, tenant)
        case _:
            return value


def _mine(asked: str | None, tenant: str) -> str:
    # What names no tenant says `default`.
    if asked not in (None, DEFAULT_TENANT, tenant):
        raise ProblemError(problem("forbidden", "The key is of another tenant."))
    return tenant


def _check(value: Any) -> None:
    """Return if the core would accept it; jobs and schedules the engine itself checks."""
    match value:
        case Tenant():
            account.validate_tenant(value)
        case NewKey():
            account.validate_key(value)
        case _:
            pass


def _verify(value: Any, name: str) -> None:
    """Return if any store can keep it: numbers that fit, and text without NUL."""
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            _verify(getattr(value, field), field)
    elif isinstance(value, list | tuple):
        for one in cast("Sequence[Any]", value):
            _verify(one, name)
    elif fault := _fault(value, name):
        raise invalid(f"/{name}", fault)


def _fault(value: Any, name: str) -> str | None:
    match value:
        case int():
            largest = _LARGEST_OF.get(name, _LARGEST)
            return None if -largest <= value <= largest else "is too large a number"
        case str():
            is_fit = "\0" not in value and len(value) <= _LONGEST_TEXT
            return None if is_fit else "is too long, or has a NUL in it"
        case bytes():
            is_fit = name not in _IDS or len(value) == _ID_BYTES
            return None if is_fit else "is not sixteen bytes"
        case _:
            return None


def _jobs(method: Method) -> Callable[[Any], int] | None:
    return (lambda body: len(body.jobs)) if method.name == "submit" else None


ROUTES: tuple[Route[Any, Any, Any], ...] = tuple(
    Route(
        method="POST",
        path=method.path,
        name="engine" + method.name.title().replace("_", ""),
        handler=_handler(method),
        answers={204: None} if method.answer is None else {200: method.answer},
        problems=("not_found", "illegal_transition", "lease_lost", "cap_reached"),
        scope=method.scope,
        is_fleetwide=method.is_fleetwide,
        body=method.request,
        is_body_required=bool(method.request.__struct_fields__),
        is_large=True,
        jobs=_jobs(method),
    )
    for method in METHODS.values()
)
