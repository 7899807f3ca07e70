import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import msgspec
import pytest

from longshore.errors import ConfigError, LongshoreError, PayloadError
from longshore.signature import Signature


class Line(msgspec.Struct):
    sku: str
    price: float


@dataclass
class Address:
    street: str
    zip: int | None = None


class Colour(Enum):
    RED = "red"


class Client:
    """Nothing that JSON can carry."""


class Model:
    """Validates and writes itself, the way pydantic's models do."""

    __hash__ = None

    def __init__(self, number: int) -> None:
        self.number = number

    def model_dump(self, *, mode: str) -> dict[str, object]:
        return {"number": self.number, "mode": mode}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and other.number == self.number

    @classmethod
    def model_validate(cls, value: dict[str, Any]) -> "Model":
        if value["number"] < 0:
            raise ValueError("number is negative")
        return cls(value["number"])


def there_and_back(function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """Submit a call here, run it there."""
    here, there = Signature(function, "t"), Signature(function, "t")
    return there.run(there.decode(here.encode(args, kwargs)))


def test_a_call_runs_as_it_was_made():
    def plain(a, b=2):
        return (a, b)

    def positional_only(a, /, b=2):
        return (a, b)

    def keyword_only(a, *, b=2):
        return (a, b)

    def required_last(a=1, *, b):
        return (a, b)

    def nothing():
        return ()

    assert there_and_back(plain, 1) == (1, 2)
    assert there_and_back(plain, 1, 5) == (1, 5)
    assert there_and_back(plain, b=5, a=1) == (1, 5)
    assert there_and_back(positional_only, 1, b=5) == (1, 5)
    assert there_and_back(keyword_only, 1, b=5) == (1, 5)
    assert there_and_back(required_last, b=5) == (1, 5)
    assert there_and_back(nothing) == ()


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (datetime, datetime(2026, 1, 1, tzinfo=UTC)),
        (date, date(2026, 1, 1)),
        (timedelta, timedelta(hours=1)),
        (UUID, UUID(int=7)),
        (list[Line], [Line("a", 1.5)]),
        (Address, Address("Hafen 1")),
        (Colour, Colour.RED),
        (Literal["fast", "slow"], "slow"),
        (Decimal, Decimal("1.10")),
        (dict[int, str], {1: "one"}),
        (tuple[int, str], (1, "a")),
        (set[str], {"x"}),
        (bytes, b"\0\xff"),
        (Optional[Line], None),  # noqa: UP045
        (Model, Model(3)),
    ],
    ids=lambda given: str(given).partition(" object at")[0],
)
def test_an_annotated_argument_arrives_as_what_it_was(hint: Any, value: object):
    def function(x):
        return x

    function.__annotations__["x"] = hint

    assert there_and_back(function, value) == value


def test_arguments_without_annotation_carry_any_json():
    def function(a, b: object, c: Any, d: dict[str, object]):
        return (a, b, c, d)

    value = [1, 1.5, "x", None, True, {"k": []}]

    assert there_and_back(function, value, value, value, {"v": value}) == (
        value,
        value,
        value,
        {"v": value},
    )


def test_a_value_that_would_come_back_as_another_is_refused_without_an_annotation():
    def function(when): ...

    with pytest.raises(PayloadError, match=r"^payload\.when is a datetime, which is not JSON"):
        Signature(function, "t").encode((datetime(2026, 1, 1, tzinfo=UTC),), {})


@pytest.mark.parametrize(
    ("args", "kwargs", "complaint"),
    [
        ((), {}, "t: missing a required argument: 'user_id'"),
        ((1, "a", 2), {}, "t: too many positional arguments"),
        ((1,), {"user_id": 2}, "t: multiple values for argument 'user_id'"),
        ((1,), {"name_": "a"}, "t: got an unexpected keyword argument 'name_'"),
        (("7",), {}, "t: payload.user_id: expected `int`, got `str`"),
        ((True,), {}, "t: payload.user_id: expected `int`, got `bool`"),
        ((None,), {}, "t: payload.user_id: expected `int`, got `null`"),
        ((2**63,), {}, "payload.user_id is an integer of more than 64 bits"),
        ((1, "a\0"), {}, "payload.name has a NUL character"),
        ((1, object()), {}, "payload.name cannot travel: a object is not JSON"),
        (
            (1,),
            {"lines": [{"sku": "a"}]},
            "t: payload.lines[0]: object missing required field `price`",
        ),
        ((1,), {"lines": [Line("a", math.nan)]}, "payload.lines[0].price is NaN"),
        ((1,), {"at_least": 0}, "t: payload.at_least: expected `int` >= 1"),
        ((1,), {"model": Model(-1)}, "t: payload.model: number is negative"),
    ],
)
def test_a_call_that_could_not_run_is_refused(
    args: tuple[object, ...], kwargs: dict[str, object], complaint: str
):
    def function(
        user_id: int,
        name: str = "",
        *,
        lines: list[Line] = [],  # noqa: B006
        at_least: Annotated[int, msgspec.Meta(ge=1)] = 1,
        model: Model | None = None,
    ) -> None: ...

    with pytest.raises(PayloadError) as caught:
        Signature(function, "t").encode(args, kwargs)

    assert str(caught.value) == complaint


def test_a_positional_only_parameter_has_no_name_to_submit_by():
    def function(a, /): ...

    with pytest.raises(PayloadError, match="positional"):
        Signature(function, "t").encode((), {"a": 1})


def test_the_same_call_has_the_same_payload_however_it_is_written():
    def function(a: int, b: int = 2, c: int = 3): ...

    signature = Signature(function, "t")

    assert signature.encode((1, 5), {}) == b'{"a":1,"b":5}'
    assert signature.encode((), {"b": 5, "a": 1}) == b'{"a":1,"b":5}'


def test_a_payload_from_before_a_parameter_was_added_still_runs():
    marker: list[object] = []

    def older(a: int): ...
    def newer(a: int, b: str = "x", c: Client | None = None, d: list[object] = marker):
        return (a, b, c, d)

    signature = Signature(newer, "t")
    arguments = signature.run(signature.decode(Signature(older, "t").encode((1,), {})))

    assert arguments == (1, "x", None, marker)
    assert arguments[3] is marker


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (b'{"a":1,"gone":2}', "t: payload: object contains unknown field `gone`"),
        (b"{}", "t: payload: object missing required field `a`"),
        (b"[]", "t: payload: expected `object`, got `array`"),
        (b"{", "t: payload: input data was truncated"),
        (b'{"a":"\xff"}', "t: payload: 'utf-8' codec can't decode byte"),
    ],
)
def test_a_payload_the_function_does_not_take_is_a_payload_error(
    payload: bytes, complaint: str
):
    def function(a: Any): ...

    with pytest.raises(PayloadError) as caught:
        Signature(function, "t").decode(payload)

    assert str(caught.value).startswith(complaint)


def test_a_parameter_whose_default_is_none_takes_none():
    def function(a: int = None):  # noqa: RUF013
        return a

    assert there_and_back(function, None) is None
    assert there_and_back(function, 1) == 1


def test_what_cannot_be_a_task_is_refused_when_it_is_declared():
    def many(*args: int): ...
    def named(**kwargs: int): ...
    def method(self): ...
    def stream():
        yield 1

    async def async_stream():
        yield 1

    for function in (many, named, method, stream, async_stream):
        with pytest.raises(ConfigError, match="task 't'"):
            Signature(function, "t")


@pytest.mark.parametrize("hint", [Client, Callable[[], int], list[int] | tuple[int], "Nowhere"])
def test_a_parameter_that_cannot_travel_is_refused_before_the_first_submit(hint: Any):
    def function(client): ...

    function.__annotations__["client"] = hint

    with pytest.raises(ConfigError, match="task 't'"):
        Signature(function, "t").encode((1,), {})


def test_annotations_are_resolved_when_they_are_needed():
    def function(line):
        return line

    function.__annotations__["line"] = "Later"
    signature = Signature(function, "t")
    globals()["Later"] = Line

    assert signature.run(signature.decode(b'{"line":{"sku":"a","price":1}}')) == Line("a", 1)


def test_a_result_comes_back_as_the_function_is_annotated_to_return_it():
    def lines() -> list[Line]: ...
    def anything(): ...
    def nothing() -> None: ...
    def client() -> Client: ...

    assert Signature(lines, "t").decode_result(b'[{"sku":"a","price":1}]') == [Line("a", 1)]
    assert Signature(anything, "t").decode_result(b"[1]") == [1]
    assert Signature(nothing, "t").decode_result(None) is None
    with pytest.raises(LongshoreError, match="annotated to return"):
        Signature(lines, "t").decode_result(b"1")
