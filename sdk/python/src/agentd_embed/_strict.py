"""Strict schemas, as the hosted API takes them: every object lists all its members, requires them and has no others.

A member that has a default may be null in place of missing. What cannot be written so without another meaning, such as a
map with free keys, has no strict form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Keywords of objects and arrays that strict schemas do not have.
_UNKNOWN = {"allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties",
            "prefixItems", "propertyNames", "unevaluatedProperties", "contains"}  # fmt: skip


class NotStrict(Exception):
    """A schema has no strict form."""


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The strict form of a schema, with its members in their order. Raises :class:`NotStrict`."""
    made = _strict(schema)
    if made.get("type") != "object" and "$ref" not in made:
        raise NotStrict("the answer is not an object")
    return made


def without_nulls(schema: Mapping[str, Any], value: Any) -> Any:
    """A value of the strict form as one of the schema itself: members that are null in place of missing are left out."""
    return _relaxed(schema, value, schema)


def _strict(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or not set(schema) - {"description", "title", "default"}:
        raise NotStrict("a value of any kind")
    given = {name: it for name, it in schema.items() if name not in ("default", "discriminator")}
    if "oneOf" in given and "discriminator" in schema:
        # The choices exclude each other by one member.
        given = {("anyOf" if name == "oneOf" else name): it for name, it in given.items()}
    if len(given.get("allOf", ())) == 1:
        given = {**{name: it for name, it in given.items() if name != "allOf"}, **given["allOf"][0]}
    if _UNKNOWN & set(given):
        raise NotStrict(min(_UNKNOWN & set(given)))
    made = dict(given)
    for name in ("$defs", "definitions"):
        if name in given:
            made[name] = {key: _strict(it) for key, it in given[name].items()}
    if "anyOf" in given:
        made["anyOf"] = [_strict(it) for it in given["anyOf"]]
    if given.get("type") == "array":
        made["items"] = _strict(given.get("items"))
    if given.get("type") == "object":
        made.update(_strict_object(given))
    return made


def _strict_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    if schema.get("additionalProperties", False) is not False or not schema.get("properties"):
        raise NotStrict("an object with free keys")
    required = schema.get("required", ())
    properties = {
        name: _strict(it) if name in required else _nullable(_strict(it)) for name, it in schema["properties"].items()
    }
    return {"properties": properties, "required": list(properties), "additionalProperties": False}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if _takes_null(schema):
        return schema
    described: dict[str, Any] = {name: schema[name] for name in ("title", "description") if name in schema}
    inner = {name: it for name, it in schema.items() if name not in described}
    choices = inner["anyOf"] if set(inner) == {"anyOf"} else [inner]
    return {**described, "anyOf": [*choices, {"type": "null"}]}


def _takes_null(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind) or None in schema.get("enum", ()):
        return True
    return any(_takes_null(it) for it in schema.get("anyOf", ()))


def _relaxed(schema: Any, value: Any, root: Mapping[str, Any]) -> Any:
    schema = _resolved(schema, root)
    if isinstance(value, list):
        return [_relaxed(schema.get("items"), it, root) for it in value]
    if not isinstance(value, dict):
        return value
    properties = _properties_of(schema, value, root)
    if properties is None:
        return value
    members, required = properties
    return {
        name: _relaxed(members.get(name), it, root)
        for name, it in value.items()
        if it is not None or name in required or name not in members or _takes_null(_resolved(members[name], root))
    }


def _properties_of(
    schema: Mapping[str, Any], value: dict[str, Any], root: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Any] | None:
    """The members of the object that a value is, and which of them are required."""
    if isinstance(schema.get("properties"), Mapping):
        return schema["properties"], schema.get("required", ())
    for choice in [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        found = _properties_of(_resolved(choice, root), value, root)
        if found is not None and set(value) == set(found[0]) and _fits_constants(found[0], value):
            return found
    return None


def _fits_constants(members: Mapping[str, Any], value: dict[str, Any]) -> bool:
    for name, member in members.items():
        allowed = member.get("enum", [member["const"]] if "const" in member else None)
        if allowed is not None and value[name] is not None and value[name] not in allowed:
            return False
    return True


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    seen = 0
    while isinstance(schema, Mapping) and ("$ref" in schema or len(schema.get("allOf", ())) == 1) and seen < 100:
        seen += 1
        if "$ref" not in schema:
            schema = schema["allOf"][0]
            continue
        target: Any = root
        for part in str(schema["$ref"]).lstrip("#/").split("/"):
            target = target.get(part) if isinstance(target, Mapping) else None
        schema = target
    return schema if isinstance(schema, Mapping) else {}
