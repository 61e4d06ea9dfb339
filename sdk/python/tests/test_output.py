"""Structured output: strict schemas with the members in their order, and null in place of a default."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Dict, List, Literal, Optional, Union

import pytest
from pydantic import BaseModel, Field

from agentd_embed import Agent, InvalidOutput
from agentd_embed._output import parsed, schema_of
from conftest import Scripted
from test_agent import message


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Part:
    name: str
    color: Color = Color.RED
    tags: List[str] = field(default_factory=list)


@dataclass
class Plan:
    reasoning: Annotated[str, "Think first"]
    parts: List[Part]
    answer: int = 42
    note: Optional[str] = "none given"


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Home(BaseModel):
    zebra: str
    pet: Union[Cat, Dog] = Field(discriminator="kind")
    others: List[Union[Cat, Dog]] = []
    parent: Optional["Home"] = None
    apple: int = 3


class Free(BaseModel):
    prices: Dict[str, float]
    name: str = "x"


def objects(schema: Any) -> list[dict[str, Any]]:
    """All objects in a schema."""
    if isinstance(schema, list):
        return [found for it in schema for found in objects(it)]
    if not isinstance(schema, dict):
        return []
    inner = [found for it in schema.values() for found in objects(it)]
    return [schema, *inner] if schema.get("type") == "object" else inner


@pytest.mark.parametrize("output", [Plan, Part, Home, Dog])
def test_schemas_of_types_are_strict_and_keep_their_order(output: Any) -> None:
    schema = schema_of(output)
    assert schema is not None
    found = objects(schema)
    assert found
    for each in found:
        assert each["additionalProperties"] is False and each["required"] == list(each["properties"])
    assert "default" not in json.dumps(schema) and "oneOf" not in json.dumps(schema)


def test_the_order_of_members_is_that_of_the_type() -> None:
    plan, home = schema_of(Plan), schema_of(Home)
    assert plan is not None and list(plan["properties"]) == ["reasoning", "parts", "answer", "note"]
    assert plan["properties"]["reasoning"] == {"type": "string", "description": "Think first"}
    assert plan["properties"]["answer"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    home_properties = home and list((home if "properties" in home else home["$defs"]["Home"])["properties"])
    assert home_properties == ["zebra", "pet", "others", "parent", "apple"]


def test_null_becomes_the_default() -> None:
    text = '{"reasoning":"r","parts":[{"name":"a","color":null,"tags":null}],"answer":null,"note":null}'
    assert parsed(Plan, text) == Plan("r", [Part("a")], 42, None)
    pets = '{"zebra":"z","pet":{"kind":"cat","lives":null},"others":null,"parent":null,"apple":null}'
    assert parsed(Home, pets) == Home(zebra="z", pet=Cat(), others=[], parent=None, apple=3)
    nested = json.dumps({**json.loads(pets), "parent": json.loads(pets), "others": [{"kind": "dog", "name": "Rex"}]})
    home = parsed(Home, nested)
    assert home.parent == Home(zebra="z", pet=Cat()) and home.others == [Dog(name="Rex")]


def test_what_has_no_strict_form_is_sent_as_it_is() -> None:
    assert schema_of(Free) == Free.model_json_schema()
    assert parsed(Free, '{"prices":{"a":1}}') == Free(prices={"a": 1.0})
    with pytest.raises(InvalidOutput):
        parsed(Free, '{"prices":{"a":"much"}}')
    assert schema_of(List[int]) == {"type": "array", "items": {"type": "integer"}}
    given = {"type": "object", "properties": {"a": {}}, "default": 1}
    assert schema_of(given) == given


def test_a_dataclass_that_contains_itself_is_refused() -> None:
    with pytest.raises(TypeError, match="contains itself"):
        schema_of(Node)


@dataclass
class Node:
    next: Optional["Node"]


def test_the_model_gets_the_strict_schema(scripted: Scripted) -> None:
    answer = '{"reasoning":"r","parts":[],"answer":null,"note":"n"}'
    expect = {"equals": {"/text/format/strict": True, "/text/format/schema/required": ["reasoning", "parts", "answer", "note"]}}
    loose = {"equals": {"/text/format/strict": False}}
    with Agent(**scripted([{"expect": expect, **message(answer)}, {"expect": loose, **message('{"prices":{}}')}])) as agent:
        thread = agent.thread()
        plan = thread.run("plan", output=Plan).output
        assert plan == Plan("r", [], 42, "n")
        assert thread.run("prices", output=Free).output == Free(prices={})
