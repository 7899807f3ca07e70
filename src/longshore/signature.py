"""A function's parameters as a payload, and a payload as a call of the function.

What `submit` accepts is what a worker can decode: arguments are written, read back through the
same struct the worker uses, and refused before anything is stored. Parameters with a default
may be missing from a payload, so adding one never breaks jobs that are already queued.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast, get_type_hints

import msgspec
from msgspec.inspect import CustomType, type_info
from msgspec.structs import astuple

from longshore.core import codec
from longshore.errors import ConfigError, LongshoreError, PayloadError

__all__ = ["Signature"]

_EMPTY = inspect.Parameter.empty
_SCALARS: frozenset[Any] = frozenset((bool, int, float, str))
_VARIADIC = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


class Signature:
    """How one function's arguments and result travel.

    Annotations are resolved at the first use, when every name they mention is defined.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self._name = name
        self._parameters = _parameters(function, name)
        keyword_only = inspect.Parameter.KEYWORD_ONLY
        self._positional = tuple(p.name for p in self._parameters if p.kind != keyword_only)
        self._names = tuple(p.name for p in self._parameters)
        self._has_positional_only = any(
            p.kind == inspect.Parameter.POSITIONAL_ONLY for p in self._parameters
        )

    def encode(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bytes:
        """The payload of a call with these arguments, or PayloadError if it could not run."""
        wire = self._wire
        if kwargs and tuple(kwargs) == self._names[len(args) :]:
            values = (*args, *kwargs.values())
        else:
            values = args
        # Plain values of the very types that are annotated need not be read back.
        if tuple(map(type, values)) == wire.plain and all(map(codec.is_fine, values)):
            return codec.pack(wire.sent(*values))
        return self._encode_checked(args, kwargs, wire)

    def _encode_checked(
        self, args: Sequence[object], kwargs: Mapping[str, object], wire: "_Wire"
    ) -> bytes:
        named = self._named(args, kwargs) if args or self._has_positional_only else kwargs
        if not all(map(codec.is_fine, named.values())):
            named = self._written(named, wire)
        try:
            payload = codec.pack(wire.sent(**named))
        except TypeError:
            self._refuse_misfit(args, kwargs)
            raise
        wire.decode(payload)
        return payload

    @property
    def decode(self) -> Callable[[bytes], Any]:
        """Turns a payload into what `run` takes, or raises PayloadError."""
        return self._wire.decode

    @property
    def run(self) -> Callable[[Any], Any]:
        """Calls the function with what `decode` returned."""
        return self._wire.run

    @property
    def decode_result(self) -> Callable[[bytes | None], Any]:
        """Turns a stored result into what the function is annotated to return."""
        return self._wire.decode_result

    def caller(self, function: Callable[..., Any]) -> Callable[[Any], Any]:
        """Like `run`, for another function that takes the same; ConfigError if it does not."""
        theirs = inspect.signature(function).parameters.values()
        ours = self._parameters
        if [(one.name, one.kind) for one in theirs] != [(one.name, one.kind) for one in ours]:
            names = ", ".join(one.name for one in ours)
            raise ConfigError(f"task {self._name!r}: its hooks take ({names}), as it does")
        return _caller(function, self._parameters)

    def _named(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Mapping[str, object]:
        named = dict(zip(self._positional, args, strict=False))
        if len(args) > len(named) or self._has_positional_only:
            self._refuse_misfit(args, kwargs)
        if kwargs:
            if not named.keys().isdisjoint(kwargs):
                self._refuse_misfit(args, kwargs)
            named.update(kwargs)
        return named

    def _refuse_misfit(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """PayloadError in Python's own words, if a call with these arguments cannot be made."""
        try:
            inspect.signature(self._function).bind(*args, **kwargs)
        except TypeError as error:
            raise PayloadError(f"{self._name}: {error}") from None

    def _written(self, named: Mapping[str, object], wire: "_Wire") -> Mapping[str, object]:
        plain = {
            name: value
            if codec.is_fine(value) or name in wire.unannotated
            else codec.written(value, f"payload.{name}")
            for name, value in named.items()
        }
        codec.verify(plain)
        return plain

    @cached_property
    def _wire(self) -> "_Wire":
        hints = _hints(self._function, self._name)
        received = _received(self._name, self._parameters, hints)
        return _Wire(
            sent=_sent(self._name, self._parameters),
            plain=_plain(self._parameters, hints),
            unannotated=frozenset(p.name for p in self._parameters if p.name not in hints),
            decode=_reader(self._name, received),
            run=_caller(self._function, self._parameters),
            decode_result=_result_reader(self._name, hints.get("return", Any)),
        )


@dataclass(frozen=True, slots=True)
class _Wire:
    sent: Callable[..., msgspec.Struct]
    """Names the arguments in the order of the parameters; defaults are not stored."""
    plain: tuple[type, ...] | None
    """The types of the parameters, if each is one scalar type and may be given by place."""
    unannotated: frozenset[str]
    decode: Callable[[bytes], Any]
    run: Callable[[Any], Any]
    decode_result: Callable[[bytes | None], Any]


def _parameters(function: Callable[..., Any], name: str) -> tuple[inspect.Parameter, ...]:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"task {name!r} yields; a task returns once")
    try:
        parameters = tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ConfigError(f"task {name!r} has no signature to read: {error}") from None
    for one in parameters:
        if one.kind in _VARIADIC:
            raise ConfigError(
                f"task {name!r} takes {_VARIADIC[one.kind]}{one.name}; name every parameter"
            )
    if parameters and parameters[0].name == "self":
        raise ConfigError(f"task {name!r} takes self; a task is a function, not a method")
    return parameters


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(inspect.unwrap(function), include_extras=True)
    except NameError as error:
        raise ConfigError(
            f"task {name!r} has an annotation that cannot be resolved: {error}; "
            "import or define it at module level, and not only for type checkers"
        ) from None


def _sent(name: str, parameters: Sequence[inspect.Parameter]) -> Callable[..., msgspec.Struct]:
    fields = [
        (one.name, Any) if one.default is _EMPTY else (one.name, Any, msgspec.UNSET)
        for one in parameters
    ]
    kinds = {one.kind for one in parameters}
    is_strict = inspect.Parameter.KEYWORD_ONLY in kinds
    return msgspec.defstruct(name, fields, kw_only=is_strict, gc=False)


def _plain(
    parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]
) -> tuple[type, ...] | None:
    ways = {one.kind for one in parameters}
    types = tuple(hints.get(one.name) for one in parameters)
    if ways == {inspect.Parameter.POSITIONAL_OR_KEYWORD} and _SCALARS.issuperset(types):
        return cast("tuple[type, ...]", types)
    return None


def _received(
    name: str, parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]
) -> type[msgspec.Struct]:
    fields: list[Any] = []
    for one in parameters:
        hint = hints.get(one.name, Any)
        if one.default is _EMPTY:
            _refuse_custom(name, one.name, hint)
            fields.append((one.name, hint))
        else:
            hint = hint | None if one.default is None and hint is not Any else hint
            fields.append((one.name, hint, _default(one.default)))
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True, gc=False)


def _default(value: object) -> object:
    """The very object that Python would pass, also where it is mutable."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return msgspec.field(default_factory=lambda: value)


def _refuse_custom(name: str, parameter: str, hint: Any) -> None:
    try:
        info = type_info(hint)
    except TypeError as error:
        raise ConfigError(f"task {name!r}, parameter {parameter!r}: {error}") from None
    if isinstance(info, CustomType) and not (
        info.cls is object or hasattr(info.cls, "model_validate")
    ):
        raise ConfigError(
            f"task {name!r}, parameter {parameter!r}: a {info.cls.__qualname__} cannot travel "
            "as JSON; pass what it takes to find or build one"
        )


def _decoder(kind: Any, name: str) -> Callable[[bytes], Any]:
    try:
        return msgspec.json.Decoder(kind, dec_hook=_built).decode
    except TypeError as error:
        raise ConfigError(f"task {name!r}: {error}") from None


def _built(kind: type[Any], value: object) -> object:
    """A model that validates itself, as pydantic's do; anything else is left as it came."""
    validate = getattr(kind, "model_validate", None)
    return value if validate is None else validate(value)


def _reader(name: str, received: type[msgspec.Struct]) -> Callable[[bytes], Any]:
    decode = _decoder(received, name)

    def read(payload: bytes) -> Any:
        try:
            return decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PayloadError(f"{name}: {_place(error)}") from None

    return read


def _place(error: Exception) -> str:
    words, _, place = str(error).partition(" - at `$")
    return f"payload{place.rstrip('`')}: {words[:1].lower()}{words[1:]}"


def _caller(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter]
) -> Callable[[Any], Any]:
    names = [p.name for p in parameters if p.kind == inspect.Parameter.KEYWORD_ONLY]
    if not parameters:
        return lambda _: function()
    if not names:
        return lambda arguments: function(*astuple(arguments))
    split = len(parameters) - len(names)

    def call(arguments: Any) -> Any:
        values = astuple(arguments)
        return function(*values[:split], **dict(zip(names, values[split:], strict=True)))

    return call


def _result_reader(name: str, hint: Any) -> Callable[[bytes | None], Any]:
    try:
        decode = _decoder(hint, name)
    except ConfigError:
        # A result that JSON cannot describe still comes back, as plain JSON.
        return codec.decode_result

    def read(raw: bytes | None) -> Any:
        try:
            return None if raw is None else decode(raw)
        except msgspec.ValidationError as error:
            raise LongshoreError(
                f"the result of {name} is not what it is annotated to return: {error}"
            ) from None

    return read
