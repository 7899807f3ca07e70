"""The service against its own document: a little of what the proof in tests/system asks."""

import json
from typing import Any

import pytest
from api_steps import asking
from hypothesis import HealthCheck, Phase, given, settings

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.encoding import encode
from longshore.api.openapi import document
from longshore.api.routes import ROUTES
from longshore.contract import Engine
from longshore.core.account import NewKey, Scope
from longshore.records import api_keys
from longshore.runtime.keys import mint

schemathesis = pytest.importorskip("schemathesis")

pytestmark = pytest.mark.slow

# To make requests for all of them takes longer than the rest of this folder.
SOME = {"submitJob", "submitJobs", "listJobs", "createSchedule", "replayDeadJobs", "createKey"}


def cases() -> list[Any]:
    """A request of each operation that the document allows, and one that it does not."""
    found: list[Any] = []
    schema = schemathesis.openapi.from_dict(json.loads(encode(document(ROUTES))))
    operations = [one.ok() for one in schema.get_all_operations()]
    chosen = [one for one in operations if one.definition.raw["operationId"] in SOME]
    assert len(chosen) == len(SOME)
    for operation in chosen:
        for mode in schemathesis.GenerationMode:

            @settings(
                max_examples=1,
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],
            )
            @given(operation.as_strategy(generation_mode=mode))
            def collect(case: Any) -> None:
                found.append(case)

            collect()
    return found


@pytest.mark.slow
async def test_every_answer_is_one_that_the_document_knows(memory: Engine):
    minted = mint()
    await api_keys.add(
        memory, NewKey(id=minted.id, digest=minted.digest, tenant=None, scopes=tuple(Scope))
    )
    told = document(ROUTES)
    async with asking(Application(Service(memory))) as client:
        for case in cases():
            request = case.as_transport_kwargs(base_url="http://localhost")
            request["headers"] = {
                **request["headers"],
                "Authorization": f"Bearer {minted.text}",
            }
            request.pop("cookies", None)
            answer = await client.request(**request)

            known = told["paths"][case.path][case.method.lower()]["responses"]
            assert answer.status_code < 500, (case, answer.text)
            assert str(answer.status_code) in known, (case, answer.text)
