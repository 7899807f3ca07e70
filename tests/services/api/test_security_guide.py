"""Each line of the tables in the guide on security is checked, or names its test."""

import ast
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_steps import asking
from attack_steps import SECRET, a_key, bearing, plant

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.routes import ROUTES
from longshore.contract import Engine
from longshore.core import ids
from longshore.core.account import Scope
from longshore.operations import deliveries
from longshore.records import schedules
from longshore.testing.factories import DAY, a_job, a_schedule
from longshore.testing.manual import ManualWorker, a_worker

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "guides" / "security.md"
_TABLE = re.compile(r"<!-- table: (\w+) -->\n\n((?:\|.*\n)+)")
_API = "tests/services/api/test_"
_ATTACK = f"{_API}attack.py::test_"
_KEYS = f"{_API}api_keys.py::test_"
_LIMITS = f"{_API}api_limits.py::test_"
_CAPS = f"{_API}api_caps.py::test_"


def tables(kind: str) -> list[list[list[str]]]:
    """The rows of the page's tables of this kind, each a list of cells; the head first."""
    found = _TABLE.findall(PAGE.read_text())
    return [
        [
            [cell.strip() for cell in line.strip("|\n").split("|")]
            for line in text.splitlines()
            if not line.startswith("|---")
        ]
        for name, text in found
        if name == kind
    ]


EVERY = {"type": "t", "every_seconds": 60}
BOUNDED = "?follow=false&from_start=true"
DEEDS: dict[str, list[tuple[str, str, Any]]] = {
    "submit jobs": [
        ("POST", "/v1/jobs", {"type": "t"}),
        ("POST", "/v1/jobs:batch", {"jobs": [{"type": "t"}]}),
    ],
    "read jobs with their payloads, results and failures": [
        ("GET", "/v1/jobs", None),
        ("GET", "/v1/jobs/{dead}", None),
        ("GET", "/v1/dead", None),
        ("GET", "/v1/dead/{dead}", None),
    ],
    "read the attempts of a job, and why it waits": [
        ("GET", "/v1/jobs/{dead}/attempts", None),
        ("GET", "/v1/jobs/{ready}/explain", None),
    ],
    "follow events": [
        ("GET", f"/v1/events{BOUNDED}", None),
        ("GET", "/v1/jobs/{ended}/stream", None),
    ],
    "see queues that have its jobs, with their settings": [
        ("GET", "/v1/queues", None),
        ("GET", "/v1/queues/{queue}", None),
    ],
    "see the jobs of an ordering key": [
        ("GET", "/v1/lines", None),
        ("GET", "/v1/queues/{queue}/line?key=a", None),
    ],
    "read figures, and what is slow": [
        ("GET", "/stats", None),
        ("GET", "/v1/autoscale", None),
        ("GET", "/v1/slow", None),
    ],
    "read schedules with their payloads": [
        ("GET", "/v1/schedules", None),
        ("GET", "/v1/schedules/{schedule}", None),
        ("GET", "/v1/schedules/{schedule}/preview", None),
        ("POST", "/v1/schedules:preview", {"every_seconds": 60}),
    ],
    "see webhooks and their deliveries, without secrets": [
        ("GET", "/v1/webhooks", None),
        ("GET", "/v1/webhooks/{webhook}", None),
        ("GET", "/v1/webhooks/{webhook}/deliveries", None),
    ],
    "cancel or retry jobs, and get their documents": [
        ("POST", "/v1/jobs/{ready}:cancel", {}),
        ("POST", "/v1/jobs/{ready}:retry", None),
        ("POST", "/v1/jobs:cancel", {"ids": ["{ready}"]}),
        ("POST", "/v1/jobs:retry", {"ids": ["{ready}"]}),
    ],
    "replay or delete dead jobs": [
        ("POST", "/v1/dead:replay", {"filter": {}, "dry_run": True}),
        ("POST", "/v1/dead:purge", {"filter": {}, "dry_run": True}),
        ("POST", "/v1/dead/{dead}:replay", None),
        ("DELETE", "/v1/dead/{other}", None),
    ],
    "let a blocked ordering key go on": [
        ("POST", "/v1/lines:release", {"queue": "default", "key": "a"}),
    ],
    "create, change, run and delete schedules": [
        ("POST", "/v1/schedules", {"name": "{key}", **EVERY}),
        ("PUT", "/v1/schedules/put{key}", EVERY),
        ("PATCH", "/v1/schedules/{schedule}", {"is_paused": True}),
        ("POST", "/v1/schedules/{schedule}:pause", None),
        ("POST", "/v1/schedules/{schedule}:resume", None),
        ("POST", "/v1/schedules/{schedule}:run", None),
        ("DELETE", "/v1/schedules/{schedule}", None),
    ],
    "create, change and delete webhooks, and replace their secrets": [
        ("POST", "/v1/webhooks", {"url": "https://8.8.4.4/"}),
        ("PATCH", "/v1/webhooks/{webhook}", {"description": "d"}),
        ("POST", "/v1/webhooks/{webhook}:rotate", {}),
        ("POST", "/v1/webhooks/{webhook}:test", None),
        ("POST", "/v1/webhooks/{webhook}/deliveries/{delivery}:replay", None),
        ("DELETE", "/v1/webhooks/{webhook}", None),
    ],
    "pause queues or types, and change queues or circuit breakers": [
        ("POST", "/v1/queues/q:pause", {}),
        ("POST", "/v1/queues/q:resume", {}),
        ("POST", "/v1/types/other:pause", None),
        ("POST", "/v1/types/other:resume", None),
        ("PATCH", "/v1/queues/q", {"settings": {"max_depth": 9}}),
        ("PATCH", "/v1/breakers/other", {"failures": 9}),
        ("POST", "/v1/breakers/other:reset", None),
    ],
    "send a worker home, or forget a consumer": [
        ("POST", "/v1/workers/{token}:drain", None),
        ("DELETE", "/v1/consumers/nobody", None),
    ],
    "see workers, pauses, breakers, consumers, metrics or findings": [
        ("GET", "/v1/workers", None),
        ("GET", "/v1/pauses", None),
        ("GET", "/v1/breakers", None),
        ("GET", "/v1/breakers/other", None),
        ("GET", "/v1/consumers", None),
        ("GET", "/v1/quarantined", None),
        ("GET", "/v1/broken-records", None),
        ("GET", "/v1/doctor", None),
        ("GET", "/metrics", None),
    ],
    "declare queues, breakers and schedules of an app": [
        ("PUT", "/v1/declarations", {"queues": {"q": {"max_depth": 9}}}),
    ],
    "run jobs as a remote worker": [
        ("POST", "/v1/sessions", {"worker": "w", "queues": ["none"], "types": ["t"]}),
        *(
            ("POST", f"/v1/sessions/1:{verb}", body)
            for verb, body in {
                "exchange": {"number": 1},
                "renew": {},
                "wait": {"seconds": 0},
                "keep": None,
                "held": None,
                "bury": {},
                "attempts": {"job_id": "{ready}"},
                "waiting": None,
            }.items()
        ),
        ("GET", "/v1/sessions/1", None),
        ("DELETE", "/v1/sessions/1", None),
    ],
    "read the audit log": [
        ("GET", "/v1/audit", None),
        ("GET", "/v1/audit/head", None),
        ("GET", "/v1/audit/entries", None),
    ],
    "manage tenants and keys": [
        ("GET", "/v1/tenants", None),
        ("POST", "/v1/tenants", {"name": "{key}"}),
        ("GET", "/v1/tenants/evil", None),
        ("PATCH", "/v1/tenants/evil", {"weight": 2}),
        ("DELETE", "/v1/tenants/{key}", None),
        ("GET", "/v1/keys", None),
        ("POST", "/v1/keys", {"tenant": "evil", "scopes": ["read"]}),
        ("POST", "/v1/keys/{key}:rotate", {}),
        ("DELETE", "/v1/keys/{key}", None),
    ],
}
"""By line, the requests that it is about: method, path and body, with names in braces."""
_MAY = {200, 201, 202, 204, 409}
"""409: the state of the job forbids it, and so it was looked at."""
_MISSING = {404, 410}

LINES = {
    "A key with `declare`, `work` or `admin` is never a tenant's.": (
        f"{_ATTACK}a_tenants_key_cannot_be_made_to_declare_work_or_administer"
    ),
    "A key is shown once, and the store has a digest of it.": (
        f"{_KEYS}keys_are_made_rotated_and_revoked_over_http"
    ),
    "A key that was revoked, has expired or belongs to a disabled tenant is refused like one "
    "that never was.": f"{_KEYS}keys_that_are_no_good_are_refused_alike",
    "A revoked key is refused by every process within five seconds.": (
        f"{_KEYS}a_revoked_key_is_refused_within_seconds"
    ),
    "A stream ends within ten seconds of its key.": (
        f"{_API}api_stream_keys.py::test_a_stream_ends_within_ten_seconds_of_its_key"
    ),
    "Wrong keys make further wrong keys from their address wait, and never a good one.": (
        f"{_KEYS}wrong_keys_of_an_address_never_lock_out_a_valid_one"
    ),
    "`Longshore-Tenant` with a tenant's key names its own tenant or is refused.": (
        f"{_ATTACK}a_tenants_key_cannot_speak_for_another"
    ),
    "`Longshore-Tenant` with a tenant that does not exist is refused.": (
        f"{_KEYS}a_tenant_that_is_not_there_cannot_be_spoken_for"
    ),
    "Ids of another tenant's jobs among one's own refuse the whole request, as unknown ids "
    "do.": f"{_ATTACK}ids_of_another_tenant_among_ones_own_are_refused_whole",
    "An id that another tenant's job has is taken, and nothing is told of that job.": (
        f"{_API}api_submit.py::test_nothing_is_told_of_another_tenants_job_whose_id_is_submitted"
    ),
    "Unique, ordering and idempotency keys are each tenant's own.": (
        f"{_ATTACK}keys_and_ids_of_another_tenant_change_nothing_of_a_submit"
    ),
    "A job names as victims of a crash only jobs of its own tenant.": (
        "tests/unit/test_poison.py::"
        "test_a_worker_that_died_names_to_no_job_those_of_another_tenant"
    ),
    "Whoever takes the id of a deleted job hears nothing of that job.": (
        f"{_ATTACK}whoever_takes_the_id_of_a_deleted_job_hears_nothing_of_that_job"
    ),
    "A name of a queue is not told to tenants that have no job in it.": (
        f"{_ATTACK}names_of_queues_in_which_a_tenant_has_no_job_are_not_told"
    ),
    "Queues whose names begin with `longshore.` are refused to tenants.": (
        f"{_CAPS}queues_that_longshore_itself_uses_are_refused_to_tenants"
    ),
    "A narrow key is handed no job of another queue or type.": (
        f"{_ATTACK}a_narrow_workers_key_is_never_handed_another_job"
    ),
    "A session belongs to its key, and to every other key it is one that is over.": (
        f"{_API}api_sessions.py::test_another_keys_session_looks_like_none"
    ),
    "A session settles only what it holds: for any other claim nothing changes.": (
        f"{_ATTACK}a_worker_forges_nothing_for_jobs_that_it_does_not_hold"
    ),
    "A session reads the history of jobs that it holds, and of no other.": (
        f"{_API}api_sessions.py::"
        "test_a_session_tells_the_history_of_what_it_holds_and_of_nothing_else"
    ),
    "No session is handed deliveries of webhooks.": (
        f"{_API}api_sessions.py::test_deliveries_of_webhooks_are_handed_to_no_remote_worker"
    ),
    "A `work` key reaches no other route.": (
        f"{_ATTACK}a_workers_key_reaches_nothing_but_its_sessions"
    ),
    "No route promotes, fires, reclaims or prunes, or gives out webhook secrets.": (
        f"{_ATTACK}no_verb_of_an_engine_is_served"
    ),
    "A service that listens on more than this machine asks for a key from the start.": (
        f"{_KEYS}every_route_but_those_that_tell_of_the_service_needs_a_key"
    ),
    "A web page is refused, and so is a request by another name of the machine.": (
        f"{_API}api_gates.py::test_without_keys_no_web_page_may_ask_anything"
    ),
    "What a proxy passes on is refused.": f"{_KEYS}what_a_proxy_passes_on_needs_a_key",
    "From the first key on every process asks for one, within a second.": (
        f"{_KEYS}the_first_key_closes_other_processes_within_a_second"
    ),
    "A service that had a key never opens again.": (
        f"{_KEYS}a_service_that_had_a_key_never_opens_again"
    ),
    "Queues, schedules, webhooks, keys, tags and streams have "
    "[caps](tenants-and-keys.md#caps).": (
        f"{_CAPS}a_tenant_has_no_more_webhooks_keys_and_tags_than_its_caps"
    ),
    "Queues of schedules count before they have jobs.": (
        f"{_CAPS}queues_of_schedules_count_before_they_have_jobs"
    ),
    "The payloads of a tenant's schedules have 16 MiB together at most.": (
        f"{_CAPS}payloads_of_a_tenants_schedules_are_bounded_all_together"
    ),
    "All processes together accept no more jobs than a tenant's rate.": (
        f"{_KEYS}processes_together_do_not_exceed_a_quota"
    ),
    "Bodies that have not been answered take a bounded number of bytes, per process and per "
    "tenant.": f"{_LIMITS}the_bodies_of_one_tenant_leave_room_for_those_of_others",
    "Answers that were not read take a bounded number of bytes, per process and per "
    "tenant.": f"{_LIMITS}answers_that_are_not_read_take_a_bounded_number_of_bytes",
    "Few pages of jobs are read at once, and fewer for one tenant.": (
        f"{_LIMITS}few_pages_of_jobs_are_read_at_once_and_fewer_of_one_tenant"
    ),
    "Connections beyond the cap are answered and closed, and health checks are served.": (
        f"{_LIMITS}connections_beyond_the_cap_are_answered_503_and_the_health_routes_200"
    ),
    "A request with many jobs does not hold up the others.": (
        f"{_LIMITS}a_request_with_many_jobs_does_not_hold_up_the_others"
    ),
    "A stream of many events does not hold up the others.": (
        f"{_LIMITS}events_of_large_batches_do_not_hold_up_the_others"
    ),
    "A payload that would break a list is stored by no route.": (
        f"{_ATTACK}a_payload_that_would_break_a_list_is_stored_by_no_route"
    ),
    "Schedules beyond the calendar are refused, and stop nobody's.": (
        f"{_ATTACK}schedules_with_times_beyond_the_calendar_stop_nobodys"
    ),
    "No body, parameter, name or header makes the service fail.": (
        f"{_ATTACK}no_body_makes_a_route_fail"
    ),
    "Failures of one tenant alone open no circuit breaker that others share.": (
        "tests/unit/test_breaker.py::"
        "test_failures_of_one_tenant_alone_do_not_open_it_while_another_has_outcomes"
    ),
    "Queries of webhook URLs and `whsec_` secrets are in no log, event or failure.": (
        "tests/services/test_webhooks.py::"
        "test_neither_the_query_of_an_endpoint_nor_its_secret_is_told_to_anyone"
    ),
    "The secret of a webhook is shown when it is made or replaced, and never again.": (
        "tests/services/cli/test_cli_over_http_webhooks.py::"
        "test_a_secret_is_shown_by_what_makes_it_and_nowhere_else"
    ),
    "A webhook that leads to a private, loopback or link-local address is refused when it is "
    "made.": (
        f"{_API}api_webhooks.py::"
        "test_a_url_that_leads_inward_is_refused_unless_the_settings_allow_its_network"
    ),
    "A webhook is delivered, and signed, only for its own tenant.": (
        "tests/services/test_webhooks.py::"
        "test_an_endpoint_that_is_gone_or_fails_for_long_is_disabled"
    ),
    "`email.send` sends only as an allowed sender.": (
        "tests/services/test_task_email.py::"
        "test_a_job_of_another_tenant_sends_only_as_the_worker_unless_the_worker_allows_more"
    ),
    "A client sends its key over plain `http` to a public address only if told to.": (
        "tests/services/test_plain_http.py::"
        "test_a_key_is_not_sent_to_a_public_address_in_the_clear"
    ),
    "A new SQLite file can be read and written by its owner alone.": (
        "tests/engines/test_sqlite_permissions.py::"
        "test_the_files_have_the_mode_that_the_url_says_whatever_the_umask"
    ),
    "The metrics port answers only to names that it knows.": (
        "tests/services/test_observe.py::"
        "test_the_metrics_port_answers_only_to_names_of_its_machine"
    ),
}
"""The test of each line. It is in this repository and breaks when the line is not true."""


def test_every_line_of_the_guide_has_a_test():
    lines = [row[0] for table in tables("lines") for row in table[1:]]

    assert sorted(lines) == sorted(LINES)
    for line, place in LINES.items():
        path, _, name = place.partition("::")
        found = ast.walk(ast.parse((ROOT / path).read_text()))
        names = {
            one.name for one in found if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in names, line


def test_the_tables_of_callers_have_every_scope_every_deed_and_every_route():
    (tenants,), (operators,) = tables("tenant"), tables("operator")
    asked = {(method, pattern_of(path)) for deed in DEEDS.values() for method, path, _ in deed}
    protected = {
        (route.method, pattern_of(route.path)) for route in ROUTES if route.scope is not None
    }

    assert tenants[0] == ["what", "`submit`", "`read`", "`operate`"]
    assert operators[0] == ["what", "no key", *(f"`{scope}`" for scope in Scope)]
    assert [row[0] for row in tenants[1:]] == list(DEEDS)
    assert [row[0] for row in operators[1:]] == list(DEEDS)
    assert protected <= asked


def pattern_of(path: str) -> str:
    """The path with a mark in the place of each name."""
    bare = path.partition("?")[0]
    for folder in ("queues", "types", "breakers", "consumers", "sessions", "tenants"):
        bare = re.sub(rf"(/v1/{folder}/)[^/:]+", r"\1*", bare)
    return re.sub(r"(put)?\{\w+\}", "*", bare)


CALLERS = ["tenant-submit", "tenant-read", "tenant-operate"]
CALLERS += [f"operator-{scope}" for scope in Scope]


@pytest.mark.parametrize("caller", CALLERS)
async def test_whoever_calls_may_do_what_its_column_says_and_nothing_else(
    engine: Engine, caller: str
):
    whose, _, scope = caller.partition("-")
    await plant(engine)
    both = Things(engine, "evil"), Things(engine, "victim")
    (table,) = tables(whose)
    column = table[0].index(f"`{scope}`")
    key = await a_key(engine, Scope(scope), tenant="evil" if whose == "tenant" else None)

    async with asking(Application(Service(engine), is_local=False)) as client:
        for row in table[1:]:
            await check(client, both, row[0], row[column], bearing(key))


async def test_before_the_first_key_every_line_is_allowed(engine: Engine):
    (table,) = tables("operator")

    async with asking(Application(Service(engine))) as client:
        for row in table[1:]:
            assert row[1] == "all"
            for method, path, body in DEEDS[row[0]]:
                places = dict.fromkeys(_PLACES, "019a8a6e-7c00-7000-8000-000000000000")
                sent = filled(body, places)
                if (method, path) == ("POST", "/v1/keys"):
                    continue  # it would end what is tested here
                answer = await client.request(
                    method, path.format(**places | {"token": "1"}), json=sent
                )
                assert answer.status_code not in (401, 403), (method, path)
                assert answer.status_code < 500, (method, path)


class Things:
    """New things of a tenant, for one request to do what it likes with."""

    def __init__(self, engine: Engine, tenant: str) -> None:
        self._engine = engine
        self._tenant = tenant
        self._worker: ManualWorker | None = None
        self._token = 0

    async def make(self) -> dict[str, str]:
        """The ids and names of new ones."""
        engine, tenant = self._engine, self._tenant
        if self._worker is None:
            self._worker = await a_worker(
                engine, queues=[f"q.{tenant}"], types=["t"], lease=600_000_000
            )
            idle = await engine.open_session(
                worker="w", queues=["none"], types=["t"], lease=600_000_000
            )
            self._token = idle.token
        fields: dict[str, Any] = {"tenant": tenant, "type": "t", "queue": f"q.{tenant}"}
        if tenant == "victim":
            fields |= {"payload": b'{"secret":"%s"}' % SECRET.encode()}
        await engine.submit([a_job(**fields) for _ in range(3)])
        dead, other, ended = await self._worker.claim(3)
        await self._worker.kill(dead)
        await self._worker.kill(other)
        await self._worker.succeed(ended)
        waiting = a_job(**fields, delay=DAY)
        await engine.submit([waiting])
        schedule = a_schedule(name=f"s.{tenant}", tenant=tenant, every=DAY)
        await schedules.put(engine, schedule)
        url = f"https://8.8.8.8/{tenant}"
        _, endpoint = await deliveries.create(engine, tenant=tenant, url=url)
        message = deliveries.Message(endpoint.id, "msg_1", "job.dead", "")
        delivery = deliveries.delivery_job(a_job().id, endpoint, message)
        await engine.submit([delivery])
        await engine.change("cancel", [delivery.id], reason="to be replayed")
        key = await a_key(engine, Scope.READ, tenant=tenant)
        return {
            "dead": ids.text(dead.id),
            "other": ids.text(other.id),
            "ended": ids.text(ended.id),
            "ready": ids.text(waiting.id),
            "queue": fields["queue"],
            "schedule": schedule.name,
            "webhook": endpoint.id,
            "delivery": ids.text(delivery.id),
            "key": key.id,
            "token": str(self._token),
        }


async def check(
    client: httpx.AsyncClient,
    both: tuple[Things, Things],
    deed: str,
    cell: str,
    headers: dict[str, str],
) -> None:
    """Ask for all that the line says, for the key's own tenant and for the other."""
    evil, victim = both
    for method, path, body in DEEDS[deed]:
        own, others = await evil.make(), await victim.make()
        answers: list[httpx.Response] = []
        for tenant, places in (("evil", own), ("victim", others)):
            # A schedule has a name for each tenant: an operator says whose it means.
            named = {"longshore-tenant": tenant} if cell == "all" else {}
            answer = await client.request(
                method,
                path.format(**places),
                json=filled(body, places),
                headers={**headers, **named},
            )
            answers.append(answer)
        statuses = [one.status_code for one in answers]
        where = f"{deed}: {method} {path}: {statuses} {answers[0].text[:300]}"
        is_named = path.format(**own) != path.format(**others) or filled(body, own) != filled(
            body, others
        )
        if cell == "no":
            assert statuses == [403, 403], where
        elif "/sessions/1" in path or "nobody" in path or path == "/v1/tenants/{key}":
            # There is no such thing, and the caller is told so.
            assert set(statuses) <= {*_MISSING, 204}, where
        elif cell == "all":
            assert set(statuses) <= _MAY, where
        else:
            assert cell == "own", where
            assert statuses[0] in _MAY, where
            assert SECRET not in answers[1].text, where
            if is_named and "{key}" not in path + str(body) and "/line" not in path:
                assert statuses[1] == 404, where


_PLACES = (
    "ready",
    "dead",
    "other",
    "ended",
    "queue",
    "schedule",
    "webhook",
    "delivery",
    "key",
)


def filled(body: Any, places: dict[str, str]) -> Any:
    """The document with names in their places."""
    match body:
        case str():
            return body.format(**places)
        case list():
            return [filled(one, places) for one in body]
        case dict():
            return {name: filled(value, places) for name, value in body.items()}
        case _:
            return body
