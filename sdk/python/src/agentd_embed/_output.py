"""Structured output: the schema that is sent for an annotation, and the value out of an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import _schema
from .errors import InvalidOutput


def schema_of(output: Any) -> dict[str, Any] | None:
    """The schema of the answer; None for a text. Raises :class:`TypeError` for what JSON has no counterpart of."""
    if output is None or output is str:
        return None
    return dict(output) if isinstance(output, Mapping) else _schema.of_type(output)


def parsed(output: Any, text: str) -> Any:
    """The answer in the shape that was asked for. Raises :class:`InvalidOutput`."""
    if output is None or output is str:
        return text
    try:
        value = json.loads(text)
        return value if isinstance(output, Mapping) else _schema.value_of(output, value)
    except ValueError as error:
        raise InvalidOutput(str(error), text) from error
