"""The route of what is usually wrong with a queue and its store."""

from typing import Any

from longshore.api.encoding import encode
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.core.account import Scope
from longshore.operations import doctor
from longshore.operations.findings import Diagnosis

__all__ = ["ROUTES"]


async def examine(call: Call[Nothing, Nothing, Nothing]) -> Answer:
    """Check everything that is usually wrong, as `longshore doctor` does. Changes nothing."""
    service = call.service
    diagnosis = await doctor.examine(
        service.engine,
        service.retention,
        local_now=service.clock.now(),
        place="the service's machine",
    )
    return Answer(200, encode(diagnosis))


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/v1/doctor",
        name="getDiagnosis",
        handler=examine,
        scope=Scope.READ,
        is_fleetwide=True,
        answers={200: Diagnosis},
    ),
)
