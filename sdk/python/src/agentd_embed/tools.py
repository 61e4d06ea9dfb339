"""Functions that the model can call."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _schema
from ._context import is_context

if TYPE_CHECKING:
    from .types import DynamicToolSpec


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

    def arguments(self, given: Any) -> dict[str, Any]:
        """The arguments of a call of the model. Raises :class:`ValueError` that says what is wrong with them."""
        if not isinstance(given, dict):
            raise ValueError("the arguments are not an object")
        hints = typing.get_type_hints(self.function, include_extras=True)
        named = inspect.signature(self.function).parameters.items()
        parameters = {name: it for name, it in named if not is_context(it.annotation)}
        unknown = [name for name in given if name not in parameters]
        if unknown:
            raise ValueError(f"there is no parameter `{unknown[0]}`")
        for name, parameter in parameters.items():
            if name not in given and parameter.default is parameter.empty:
                raise ValueError(f"the parameter `{name}` is missing")
        return {name: _schema.value_of(hints[name], value, f"`{name}`") for name, value in given.items()}

    @staticmethod
    def text_of(result: Any) -> str:
        """The result of a call as the model gets it: a text as it is, and everything else as JSON."""
        return result if isinstance(result, str) else json.dumps(result, default=str)


def tool(function: Callable[..., Any]) -> Tool:
    """Makes a function a tool: its name, its docstring and its annotations tell the model what it does.

    A parameter with the annotation :class:`ToolContext` gets the context of the call and is no part of the schema.
    Raises :class:`TypeError` for parameters without annotations, or with such as JSON has no counterpart of.
    """
    if not callable(function):
        raise TypeError(f"`tool` takes a function, not {type(function).__name__}")
    name = getattr(function, "__name__", type(function).__name__)
    description = inspect.getdoc(function) or ""
    if not description:
        raise TypeError(f"{name} has no docstring, which tells the model what it does")
    return Tool(function, name, description, _schema.of_function(function))
