"""The client that awaits and the one that does not offer the same."""

import inspect
from typing import Any

import pytest

from longshore.client import Client, SyncClient
from longshore.operations.backend import EngineBackend


def methods(kind: type[Any]) -> dict[str, list[str]]:
    """By name, the parameters of each public method, with their defaults."""
    return {
        name: [_plain(one) for one in parameters.values()]
        for name, function in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
        for parameters in [inspect.signature(function).parameters]
    }


def _plain(parameter: inspect.Parameter) -> str:
    default = "a function" if inspect.isfunction(parameter.default) else parameter.default
    return str(parameter.replace(annotation=parameter.empty, default=default))


def test_both_clients_have_the_same_methods():
    assert methods(SyncClient) == methods(Client)


@pytest.mark.parametrize("name", sorted(methods(EngineBackend)))
def test_what_is_done_on_an_engine_is_done_by_a_client_with_the_same_arguments(name: str):
    assert methods(Client)[name] == methods(EngineBackend)[name]
