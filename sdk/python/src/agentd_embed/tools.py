"""Functions that the model can call."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _schema
from ._callbacks import called
from .types import DynamicToolCallParams, DynamicToolCallResponse, DynamicToolSpec


@dataclass(frozen=True)
class Tool:
    """A function with its name, its description and the schema of its parameters."""

    function: Callable[..., Any]
    name: str
    description: str
    schema: dict[str, Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def spec(self) -> DynamicToolSpec:
        """As `thread/start` wants it."""
        return {"name": self.name, "description": self.description, "inputSchema": self.schema}

    async def answer(self, params: DynamicToolCallParams) -> DynamicToolCallResponse:
        """Calls the function for the model. What it raises is told to the model."""
        try:
            arguments = self._arguments(params["arguments"])
            result = await called(self.function, **arguments)
            text = result if isinstance(result, str) else json.dumps(result, default=str)
        except Exception as error:  # The model decides what to do about it.
            return _answer(f"{type(error).__name__}: {error}", False)
        return _answer(text, True)

    def _arguments(self, given: Any) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise ValueError("the arguments are not an object")
        hints = typing.get_type_hints(self.function, include_extras=True)
        parameters = inspect.signature(self.function).parameters
        unknown = [name for name in given if name not in parameters]
        if unknown:
            raise ValueError(f"there is no parameter `{unknown[0]}`")
        for name, parameter in parameters.items():
            if name not in given and parameter.default is parameter.empty:
                raise ValueError(f"the parameter `{name}` is missing")
        return {name: _schema.value_of(hints[name], value, f"`{name}`") for name, value in given.items()}


def tool(function: Callable[..., Any]) -> Tool:
    """Makes a function a tool: its name, its docstring and its annotations tell the model what it does.

    Raises :class:`TypeError` for parameters without annotations, or with such as JSON has no counterpart of.
    """
    description = inspect.getdoc(function) or ""
    if not description:
        raise TypeError(f"{function.__name__} has no docstring, which tells the model what it does")
    return Tool(function, function.__name__, description, _schema.of_function(function))


def _answer(text: str, success: bool) -> DynamicToolCallResponse:
    return {"contentItems": [{"type": "inputText", "text": text}], "success": success}
