"""JSON Schema of annotations, for tools and for structured output, and values out of JSON."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from typing import Any, Literal, Union, cast

from ._context import is_context

#: The origins of unions; `X | Y` has one of its own from Python 3.10 on.
_UNIONS: tuple[Any, ...] = (Union, getattr(types, "UnionType", Union))
#: Dataclasses whose schema is being made, each inside the one before.
_open: list[Any] = []
_SIMPLE: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def of_type(annotation: Any) -> dict[str, Any]:
    """The schema of an annotation.

    Raises :class:`TypeError` for one that JSON has no counterpart of.
    """
    if annotation is Any or annotation is inspect.Parameter.empty:
        return {}
    if annotation is None or annotation is type(None):
        return {"type": "null"}
    if annotation in _SIMPLE:
        return {"type": _SIMPLE[annotation]}
    model: Any = getattr(annotation, "model_json_schema", None)
    if callable(model):
        schema: Any = model()
        return cast(dict[str, Any], schema)
    if dataclasses.is_dataclass(annotation):
        return of_dataclass(annotation)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return {"enum": [member.value for member in annotation]}
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in _UNIONS:
        return {"anyOf": [of_type(argument) for argument in arguments]}
    if origin is typing.Annotated:
        texts = [text for text in arguments[1:] if isinstance(text, str)]
        described = {"description": texts[0]} if texts else {}
        return {**of_type(arguments[0]), **described}
    if annotation is list or origin is list:
        return {"type": "array", "items": of_type(arguments[0]) if arguments else {}}
    if annotation is dict or origin is dict:
        if arguments and arguments[0] is not str:
            raise TypeError(f"{annotation!r}: the keys of a JSON object are texts")
        values = of_type(arguments[1]) if arguments else {}
        return {"type": "object", "additionalProperties": values or True}
    raise TypeError(f"{annotation!r} has no counterpart in JSON: use a dataclass, list, dict or Literal")


def of_dataclass(kind: Any) -> dict[str, Any]:
    """The schema of a dataclass, with its members in their order. Those without a default are required."""
    if kind in _open:
        raise TypeError(f"{kind!r} contains itself, which only a pydantic model or a JSON Schema can express")
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    _open.append(kind)
    try:
        properties = {field.name: of_type(hints[field.name]) for field in fields}
    finally:
        _open.pop()
    return {
        "type": "object",
        "properties": properties,
        "required": [field.name for field in fields if not _has_default(field)],
        "additionalProperties": False,
    }


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def of_function(function: Any) -> dict[str, Any]:
    """The schema of a function's parameters."""
    hints = typing.get_type_hints(function, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{function.__name__}: `{name}` cannot be given by name")
        if name not in hints:
            raise TypeError(f"{function.__name__}: `{name}` has no annotation")
        if is_context(hints[name]):
            continue
        properties[name] = of_type(hints[name])
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def value_of(annotation: Any, value: Any, where: str = "the answer") -> Any:
    """A value of the annotated type out of what JSON has for it.

    Raises :class:`ValueError` that says where it does not fit.
    """

    def wrong(wanted: str) -> ValueError:
        return ValueError(f"{where} is {value!r:.80}, not {wanted}")

    if annotation is Any or annotation is inspect.Parameter.empty:
        return value
    if annotation is None or annotation is type(None):
        if value is not None:
            raise wrong("null")
        return None
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if annotation in _SIMPLE:
        if not isinstance(value, annotation) or (isinstance(value, bool) and annotation is not bool):
            raise wrong(_SIMPLE[annotation])
        return value
    validate = getattr(annotation, "model_validate", None)
    if callable(validate):
        return validate(value)
    if dataclasses.is_dataclass(annotation):
        if not isinstance(value, dict):
            raise wrong("an object")
        hints = typing.get_type_hints(annotation, include_extras=True)
        given: dict[str, Any] = {}
        for field in dataclasses.fields(annotation):
            if not field.init:
                continue
            if field.name in value:
                given[field.name] = value_of(hints[field.name], value[field.name], f"{where}.{field.name}")
            elif not _has_default(field):
                raise ValueError(f"{where} has no `{field.name}`")
        return cast(Any, annotation)(**given)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        try:
            return annotation(value)
        except ValueError as error:
            raise wrong(f"one of {[member.value for member in annotation]}") from error
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        if value not in arguments:
            raise wrong(f"one of {list(arguments)}")
        return value
    if origin in _UNIONS:
        for argument in arguments:
            try:
                return value_of(argument, value, where)
            except ValueError:
                continue
        raise wrong(str(annotation))
    if origin is typing.Annotated:
        return value_of(arguments[0], value, where)
    if annotation is list or origin is list:
        if not isinstance(value, list):
            raise wrong("a list")
        inner = arguments[0] if arguments else Any
        return [value_of(inner, item, f"{where}[{at}]") for at, item in enumerate(value)]
    if annotation is dict or origin is dict:
        if not isinstance(value, dict):
            raise wrong("an object")
        inner = arguments[1] if arguments else Any
        return {key: value_of(inner, item, f"{where}.{key}") for key, item in value.items()}
    raise TypeError(f"{annotation!r} has no counterpart in JSON")
