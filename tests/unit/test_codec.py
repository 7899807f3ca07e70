import json
import math
from datetime import UTC, datetime
from enum import IntEnum, StrEnum

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longshore.core import codec
from longshore.core.job import JobId, NewJob
from longshore.errors import PayloadError

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20
)


def nested(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def a_job(**changes: object) -> NewJob:
    fields = {"id": JobId(bytes(16)), "type": "mail", "payload": b'{"to":1,"cc":2}'}
    return NewJob(**(fields | changes))


@settings(max_examples=25)  # values that nest take long to make
@given(st.dictionaries(TEXT, VALUES))
def test_what_went_in_comes_out(arguments: dict[str, object]):
    payload = codec.encode(arguments)

    assert codec.decode(payload) == arguments
    assert json.loads(payload) == arguments
    assert codec.check(payload) == payload


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"items": [0, 1, 2, {"price": math.nan}]}, "payload.items[3].price is NaN"),
        ({"far": -math.inf}, "payload.far is infinite"),
        ({"n": 2**63}, "payload.n is an integer of more than 64 bits"),
        ({"n": [-(2**63) - 1]}, "payload.n[0] is an integer of more than 64 bits"),
        ({"words": "a\0b"}, "payload.words has a NUL character"),
        ({"words": "\ud800"}, "payload.words has a lone surrogate"),
        ({"a b": {"\ud800": 1}}, "payload['a b']['\\ud800'] has a lone surrogate"),
        ({"a": {1: 2}}, "payload.a[1] is under a key that is not a string"),
        (
            {"when": datetime(2026, 1, 1, tzinfo=UTC)},
            "payload.when is a datetime, which is not JSON",
        ),
        ({"a": {1, 2}}, "payload.a is a set, which is not JSON"),
        ({"raw": b"x"}, "payload.raw is a bytes, which is not JSON"),
    ],
)
def test_what_json_cannot_carry_is_refused_by_its_place(
    arguments: dict[str, object], complaint: str
):
    with pytest.raises(PayloadError) as caught:
        codec.encode(arguments)

    assert str(caught.value) == complaint


def test_the_limits_themselves_are_allowed():
    edges = {"low": -(2**63), "high": 2**63 - 1, "small": 5e-324, "wide": "\U0010ffff"}

    assert codec.decode(codec.encode(edges)) == edges
    assert codec.decode(codec.encode(nested(32))) == nested(32)


def test_a_payload_of_33_levels_is_refused():
    with pytest.raises(PayloadError, match=r"\.a is deeper than 32 levels"):
        codec.encode(nested(33))


def test_a_payload_that_contains_itself_is_refused():
    loop: list[object] = []
    loop.append(loop)

    with pytest.raises(PayloadError, match="deeper"):
        codec.encode({"loop": loop})


def test_a_payload_over_its_size_is_refused():
    with pytest.raises(PayloadError, match="payload has 1048577 bytes; the limit is 1048576"):
        codec.encode({"a": "x" * (codec.MAX_BYTES - 7)})

    assert len(codec.encode({"a": "x" * (codec.MAX_BYTES - 8)})) == codec.MAX_BYTES


def test_a_subclass_of_a_scalar_travels_as_the_scalar():
    class Safe(str):
        __slots__ = ()

    class Count(int):
        __slots__ = ()

    class Colour(StrEnum):
        RED = "red"

    class Size(IntEnum):
        BIG = 9

    arguments = {"a": Safe("x"), "b": Count(3), "c": Colour.RED, "d": Size.BIG}

    assert codec.encode(arguments) == b'{"a":"x","b":3,"c":"red","d":9}'


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (b"", "refused"),
        (b"[1]", "not a JSON object"),
        (b'"x"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"a":1} x', "refused"),
        (b'{"a":NaN}', "refused"),
        (b'{"a":-Infinity}', "refused"),
        (b'{"a":1e999}', "refused"),
        (b'{"a":9223372036854775808}', r"payload\.a is an integer of more than 64 bits"),
        (b'{"a":' + b"9" * 100_000 + b"}", "refused"),
        (b'{"a":"\\u0000"}', "NUL"),
        (b'{"\\u0000":1}', "NUL"),
        (b'{"a":"\\ud800"}', "refused"),
        (b'{"a":"\xed\xa0\x80"}', "not UTF-8"),
        (b'{"a":"\xff"}', "not UTF-8"),
        (b"\xef\xbb\xbf{}", "refused"),
        ('{"a":1}'.encode("utf-16"), "refused"),
        (b'{"a":1,"a":1}', "the key 'a' twice"),
        (b'{"x":[{"a":1,"\\u0061":1}]}', "the key 'a' twice"),
        (b'{"a":' * 33 + b"1" + b"}" * 33, "deeper than 32"),
        (b"[" * 500_000, "deeper than 32"),
        (b'{"a":"' + b"x" * codec.MAX_BYTES + b'"}', "the limit is 1048576"),
    ],
)
def test_json_text_that_may_not_be_stored_is_refused(raw: bytes, complaint: str):
    with pytest.raises(PayloadError, match=complaint):
        codec.check(raw)


@given(st.binary())
def test_no_bytes_get_past_the_gate_but_json_objects(raw: bytes):
    try:
        codec.check(raw)
    except PayloadError:
        return

    assert isinstance(json.loads(raw.decode()), dict)


def test_the_gate_keeps_the_text_as_it_is():
    raw = b' { "b" : 1.50, "a": "\\u00e9" } '

    assert codec.check(raw) == raw


def test_a_result_may_be_any_value_that_can_be_written_as_json():
    class Receipt(msgspec.Struct):
        at: datetime
        lines: dict[int, float]

    receipt = Receipt(datetime(2026, 1, 1, tzinfo=UTC), {1: 2.5})

    assert codec.encode_result(None) is None
    assert codec.encode_result([1, "a"]) == b'[1,"a"]'
    assert codec.encode_result(receipt) == b'{"at":"2026-01-01T00:00:00Z","lines":{"1":2.5}}'
    assert codec.decode_result(None) is None
    assert codec.decode_result(b'[1,"a"]') == [1, "a"]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (object(), "result cannot travel: a object is not JSON"),
        ([math.nan], r"result\[0\] is NaN"),
        ("x" * codec.MAX_BYTES, "result has 1048578 bytes"),
    ],
)
def test_a_result_that_cannot_be_kept_is_refused(value: object, complaint: str):
    with pytest.raises(PayloadError, match=complaint):
        codec.encode_result(value)


def test_a_fingerprint_sees_what_the_job_asks_for_and_nothing_else():
    first = codec.fingerprint(a_job())
    same = [
        a_job(id=JobId(b"1" * 16)),
        a_job(trace="00-1-1-01"),
        a_job(idempotency_key="k", fingerprint=b"x"),
        a_job(payload=b' {"cc": 2, "to": 1} '),
    ]
    other = [
        a_job(type="post"),
        a_job(payload=b'{"to":1,"cc":3}'),
        a_job(queue="slow"),
        a_job(tenant="acme"),
        a_job(priority=1),
        a_job(delay=1),
        a_job(run_at=1),
        a_job(max_attempts=1),
        a_job(timeout=None),
        a_job(unique_key="u"),
        a_job(ordering_key="o"),
        a_job(tags=("t",)),
    ]

    assert len(first) == 16
    assert {codec.fingerprint(job) for job in same} == {first}
    assert len({codec.fingerprint(job) for job in other} | {first}) == len(other) + 1


def test_a_fingerprint_is_the_same_in_every_release():
    """Keys outlive an upgrade: a repeated request must still be known afterwards."""
    job = a_job(queue="mail", priority=2, tags=("a", "b"))

    assert codec.fingerprint(job).hex() == "c772eec0aea0ca9b4ea63030aa55ad48"
