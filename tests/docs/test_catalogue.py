"""Every setting, error, event and task says what it is for."""

import re

from markdown import ROOT

from longshore import errors, settings
from longshore.client import Client, SyncClient
from longshore.core.account import Scope
from longshore.core.event import Name
from longshore.core.state import State, Verb
from longshore.tasks.builtin import BUILTIN
from longshore_lab.pages import remarks

DOCS = ROOT / "docs"


def test_every_setting_says_what_it_does():
    assert [one.key for one in settings.describe() if not one.text] == []


def test_every_error_says_what_it_means():
    kinds = [getattr(errors, name) for name in errors.__all__]

    assert [kind.__name__ for kind in kinds if not (kind.__doc__ or "").strip()] == []
    assert len({kind.code for kind in kinds}) == len(kinds)


def test_the_drawing_of_the_errors_has_every_error():
    assert [name for name in errors.__all__ if name not in (errors.__doc__ or "")] == []


def test_every_event_says_when_it_is_written():
    assert [one.value for one in Name if not remarks(Name).get(one.name)] == []


def test_every_state_and_verb_is_explained():
    page = (DOCS / "architecture" / "state-machine.md").read_text()
    words = (DOCS / "glossary.md").read_text()

    assert [state for state in State if f"| `{state}` |" not in page] == []
    assert [verb for verb in Verb if verb.replace("_", " ") not in page + words] == []


def test_every_builtin_task_has_its_section():
    page = (DOCS / "guides" / "built-in-tasks.md").read_text()

    assert [name for name in BUILTIN if f"\n## {name}\n" not in page] == []


def test_the_guide_of_the_http_client_names_each_method_and_no_other():
    page = (DOCS / "guides" / "http-client.md").read_text()
    rows = page.partition("## The methods")[2].partition("\n\n`submit_many`")[0]

    named = re.findall(r"`(\w+)`", rows)

    for kind in (Client, SyncClient):
        assert sorted(named) == sorted(name for name in dir(kind) if name[0].islower())


def test_every_scope_is_in_the_guides():
    for name in ("http-api.md", "tenants-and-keys.md"):
        page = (DOCS / "guides" / name).read_text()
        assert [scope for scope in Scope if f"| `{scope}` |" not in page] == []
