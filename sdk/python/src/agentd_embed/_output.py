"""Structured output: the schema that is sent for an annotation, and the value out of an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import _schema
from ._strict import NotStrict, strict, without_nulls
from .errors import InvalidOutput


def schema_of(output: Any) -> dict[str, Any] | None:
    """The schema of the answer; None for a text. Raises :class:`TypeError` for what JSON has no counterpart of.

    One that is given as a mapping is sent as it is; that of a type is made strict, unless that would change its meaning.
    """
    if output is None or output is str:
        return None
    if isinstance(output, Mapping):
        return dict(output)
    schema = _schema.of_type(output)
    try:
        return strict(schema)
    except NotStrict:
        return schema


def parsed(output: Any, text: str) -> Any:
    """The answer in the shape that was asked for. Raises :class:`InvalidOutput`."""
    if output is None or output is str:
        return text
    try:
        value = json.loads(text)
        if isinstance(output, Mapping):
            return value
        return _schema.value_of(output, without_nulls(_schema.of_type(output), value))
    except ValueError as error:
        raise InvalidOutput(str(error), text) from error
