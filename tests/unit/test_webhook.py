"""Webhooks: signatures by the standard's own vector, who hears of what, and when again."""

import json
import random

import pytest

from longshore.core import webhook
from longshore.core.event import Event, Name
from longshore.core.job import JobId
from longshore.core.webhook import Endpoint, Secret
from longshore.errors import ConfigError

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ENDPOINT = Endpoint(
    id="wh_" + "0" * 24,
    tenant="acme",
    url="https://example.com/",
    secrets=(Secret(SECRET),),
    created_at=100,
)


def an_event(**changes: object) -> Event:
    facts = {
        "id": "7.1",
        "name": Name.SUCCEEDED,
        "at": 200,
        "job_id": JobId(bytes(range(16))),
        "queue": "mail",
        "type": "email.send",
        "tenant": "acme",
        "details": {},
    }
    return Event(**{**facts, **changes})  # pyright: ignore[reportArgumentType]  # as given


def test_a_signature_is_that_of_the_standard():
    made = webhook.sign(
        SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}'
    )

    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert SECRET not in repr(ENDPOINT)


def test_secrets_overlap_for_as_long_as_was_said():
    other = webhook.secret_text(bytes(32))
    both = webhook.rotated(ENDPOINT, other, grace=50, now=1_000)

    def signatures(now: int) -> int:
        return len(webhook.headers(both, "msg_1", "{}", now=now)["webhook-signature"].split())

    assert (signatures(1_049), signatures(1_050)) == (2, 1)
    assert webhook.rotated(ENDPOINT, other, grace=0, now=1_000).secrets == (Secret(other),)


def test_no_secret_outlives_what_was_promised_of_it():
    texts = [webhook.secret_text(bytes([number]) * 32) for number in range(9)]
    first = webhook.rotated(ENDPOINT, texts[0], grace=50, now=1_000)
    second = webhook.rotated(first, texts[1], grace=500, now=1_010)
    third = webhook.rotated(second, texts[2], grace=500, now=1_100)
    many = ENDPOINT
    for text in texts:
        many = webhook.rotated(many, text, grace=500, now=1_000)

    assert second.secrets == (Secret(texts[1]), Secret(texts[0], 1_510), Secret(SECRET, 1_050))
    assert [one.text for one in third.secrets] == [texts[2], texts[1], texts[0]]
    assert [one.text for one in many.secrets] == texts[:3:-1]


@pytest.mark.parametrize(
    ("filters", "changes", "is_told"),
    [
        ({}, {}, True),
        ({}, {"name": Name.PROGRESS}, False),
        ({}, {"tenant": "rival"}, False),
        ({}, {"at": 99}, False),
        ({}, {"type": webhook.TASK}, False),
        ({"disabled": "410"}, {}, False),
        ({"events": ("job.d*",)}, {}, False),
        ({"events": ("job.*",)}, {"name": Name.PROGRESS}, True),
        ({"queues": ("web",)}, {}, False),
        ({"types": ("email.send",)}, {}, True),
    ],
)
def test_an_endpoint_hears_of_what_it_wants(
    filters: dict[str, object], changes: dict[str, object], is_told: bool
):
    endpoint = webhook.replace(ENDPOINT, **filters)

    assert webhook.fits(endpoint, an_event(**changes)) is is_told


def test_a_message_stays_below_twenty_kilobytes():
    small = json.loads(webhook.body_of(an_event(details={"reason": "x"})))
    large = webhook.body_of(an_event(details={"payload": "x" * 30_000}))

    assert (small["type"], small["timestamp"]) == (
        "job.succeeded",
        "1970-01-01T00:00:00.000200Z",
    )
    assert small["data"]["details"] == {"reason": "x"}
    assert len(large) < 20_000
    assert json.loads(large)["data"]["is_truncated"] is True


def test_attempts_follow_the_standard_schedule():
    rng = random.Random(1)
    seconds = [webhook.delay(attempt, rng.random()).total_seconds() for attempt in range(1, 10)]
    least = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]

    assert all(low <= wait <= 1.2 * low for low, wait in zip(least, seconds, strict=True))
    assert webhook.ATTEMPTS == 10


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "ftp://example.com/"},
        {"url": "https://user@example.com/"},
        {"url": "https://example.com/\r\nx"},
        {"url": "https:///x"},
        {"events": ("job.unheard",)},
        {"secrets": ()},
        {"secrets": (Secret("whsec_AAAA"),)},
        {"id": "x"},
        {"queues": ("a b",)},
    ],
)
def test_an_endpoint_that_makes_no_sense_is_refused(changes: dict[str, object]):
    with pytest.raises(ConfigError):
        webhook.validate(webhook.replace(ENDPOINT, **changes))


def test_who_is_refused_often_asks_less_often():
    waits = [webhook.refused_delay(n, 0.5).total_seconds() for n in (0, 1, 7, 500)]

    assert waits == [5, 10, 40, 40]
    assert webhook.refused_delay(0, 0.0).total_seconds() == 2
