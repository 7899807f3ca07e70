"""Where a child process finds its tasks, and what is said when it cannot."""

import sys
import types

import pytest

from longshore import ConfigError, Longshore
from longshore.worker.app_locator import find_origin


def a_module(name: str, monkeypatch: pytest.MonkeyPatch, **names: object) -> None:
    module = types.ModuleType(name)
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, name, module)


def test_an_app_is_found_where_it_has_a_name(monkeypatch: pytest.MonkeyPatch):
    app = Longshore()
    a_module("shop", monkeypatch, queue=app)

    origin = find_origin(app, ["shop.tasks"])

    assert origin.place == "shop:queue"
    assert origin.modules == ("shop", "shop.tasks")
    assert (origin.script, origin.script_module) == (None, None)


def test_a_module_is_preferred_to_the_script(monkeypatch: pytest.MonkeyPatch):
    app = Longshore()
    a_module("a_long_name_of_a_module", monkeypatch, app=app)
    monkeypatch.setattr(sys.modules["__main__"], "app", app, raising=False)

    assert find_origin(app, []).place == "a_long_name_of_a_module:app"


def test_an_app_without_a_name_in_a_module_is_refused():
    app = Longshore()

    with pytest.raises(ConfigError, match="top level of a module"):
        find_origin(app, [])
