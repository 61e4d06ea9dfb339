"""For the tests of applications: models that answer from a script, without a network and a key.

    from agentd_embed.testing import answers, calls, says, scripted

    with Agent(**scripted(tmp_path, calls("weather", city="Vienna"), answers(Forecast(days=3)))) as agent:
        ...

The steps of a script are described in docs/model-server.md. `record` and `replay` of an agent keep a whole session.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import os
from pathlib import Path
from typing import Any, Union

from ._schema import value_of

#: The response of a model: its steps, and what it expects of the request.
Response = dict[str, Any]


def scripted(folder: Union[str, os.PathLike[str]], *responses: Response, on_exhausted: str = "error") -> Any:
    """Arguments of an agent whose model gives these responses, in this order, in each thread.

    The script is written to `folder`. `on_exhausted` is what follows the last one: `error`, `repeat_last` or `restart`.
    """
    for at, each in enumerate(responses):
        if not isinstance(each, dict) or "steps" not in each:
            raise TypeError(f"`responses[{at}]` is no response: use `says`, `answers`, `calls` or `fails`")
    path = Path(folder).absolute() / "model-script.json"
    path.write_text(json.dumps({"responses": list(responses), "on_exhausted": on_exhausted}), encoding="utf-8")
    return {"offline": True, "model": str(path)}


def says(text: str, **options: Any) -> Response:
    """A message. `options` are those of the step, such as `phase`, `chunk_chars` and `chunk_delay_ms`."""
    return {"steps": [{"message": {"text": text, **options}}]}


def answers(value: Any, output: Any = None) -> Response:
    """A message that answers a schema: a dataclass, a pydantic model, or what JSON has, as `output` of a turn takes it.

    With `output`, raises :class:`ValueError` when the value does not have that shape.
    """
    plain = _plain(value)
    if output is not None:
        value_of(output, plain, "`value`")
    return says(json.dumps(plain))


def calls(tool: str, **arguments: Any) -> Response:
    """A call of a tool."""
    return {"steps": [{"function_call": {"name": tool, "arguments": _plain(arguments)}}]}


def fails(status: int = 500, message: str = "scripted failure") -> Response:
    """A refused request."""
    return {"steps": [{"error": {"status": status, "message": message}}]}


def expecting(response: Response, **conditions: Any) -> Response:
    """A response that is given only when the request fits, such as `tool_output_contains="sunny"`."""
    return {**response, "expect": {**response.get("expect", {}), **conditions}}


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {str(name): _plain(it) for name, it in value.items()}
    return [_plain(it) for it in value] if isinstance(value, (list, tuple)) else value
