/**
 * Strict schemas: those that providers hold an answer to while it is written. Every member is required, and none else
 * may be there; a member that may be left out becomes one that may be null.
 */

import { isObject } from "./connection.js";
import type { JsonSchema } from "./schema.js";

type Node = Record<string, unknown>;

/** Keywords that a strict schema may have, besides those that are handled here. */
const KEYWORDS = new Set([
  "$schema",
  "const",
  "description",
  "enum",
  "exclusiveMaximum",
  "exclusiveMinimum",
  "format",
  "maxItems",
  "maximum",
  "minItems",
  "minimum",
  "multipleOf",
  "pattern",
  "title",
  "type",
]);

/** Deeper references are not followed. */
const DEEPEST = 32;

class NotStrict extends Error {}

/** The same schema made strict; undefined where that would change which answers it allows. */
export function strictOf(schema: JsonSchema): JsonSchema | undefined {
  if (schema["type"] !== "object") return undefined;
  try {
    return strict(schema as Node, schema as Node);
  } catch (error) {
    if (error instanceof NotStrict) return undefined;
    throw error;
  }
}

/** An answer to the strict form as one to the schema: without the members whose null means that they are left out. */
export function restored(schema: JsonSchema, value: unknown): unknown {
  return restore(schema as Node, schema as Node, value);
}

function strict(root: Node, given: Node): Node {
  const made: Node = {};
  for (const [name, value] of Object.entries(given)) {
    if (name === "properties") made[name] = propertiesOf(root, given);
    else if (name === "items") made[name] = strict(root, nodeOf(value));
    else if (name === "anyOf") made[name] = listOf(value).map((it) => strict(root, nodeOf(it)));
    else if (name === "$defs" || name === "definitions") {
      made[name] = Object.fromEntries(Object.entries(nodeOf(value)).map(([key, it]) => [key, strict(root, nodeOf(it))]));
    } else if (name === "$ref") {
      if (typeof value !== "string" || !value.startsWith("#")) throw new NotStrict();
      made[name] = value;
    } else if (KEYWORDS.has(name)) made[name] = value;
    // The value in place of an absent member is filled in when the answer is read.
    else if (name === "additionalProperties" ? value !== false : name !== "required" && name !== "default") {
      throw new NotStrict();
    }
  }
  const isObjects = typesOf(given).includes("object");
  if (isObjects !== "properties" in given) throw new NotStrict();
  if (!isObjects) return made;
  return { ...made, required: Object.keys(nodeOf(made["properties"])), additionalProperties: false };
}

function propertiesOf(root: Node, given: Node): Node {
  const properties = nodeOf(given["properties"]);
  const required = listOf(given["required"] ?? []);
  if (required.some((name) => !(String(name) in properties))) throw new NotStrict();
  const members = Object.entries(properties).map(([name, it]): [string, Node] => {
    const member = strict(root, nodeOf(it));
    if (required.includes(name) || takesNull(root, nodeOf(it))) return [name, member];
    const { description, ...rest } = member;
    return [name, { ...(description !== undefined && { description }), anyOf: [rest, { type: "null" }] }];
  });
  return Object.fromEntries(members);
}

function restore(root: Node, schema: Node, value: unknown): unknown {
  const node = resolved(root, schema);
  const branches = Array.isArray(node["anyOf"]) ? node["anyOf"].filter(isObject) : [];
  const branch = branches.find((it) => fits(root, it, value));
  if (branch !== undefined) return restore(root, branch, value);
  if (Array.isArray(value)) {
    const { items } = node;
    return isObject(items) ? value.map((it) => restore(root, items, it)) : value;
  }
  const { properties } = node;
  if (!isObject(value) || !isObject(properties)) return value;
  const required = Array.isArray(node["required"]) ? node["required"] : [];
  const members = Object.entries(value)
    .filter(([name, it]) => {
      const member = properties[name];
      return it !== null || required.includes(name) || !isObject(member) || takesNull(root, member);
    })
    .map(([name, it]): [string, unknown] => {
      const member = properties[name];
      return [name, isObject(member) ? restore(root, member, it) : it];
    });
  return Object.fromEntries(members);
}

/** Whether a value is meant by a branch: by its type, its constants and its members. */
function fits(root: Node, schema: Node, value: unknown): boolean {
  const node = resolved(root, schema);
  if ("const" in node && node["const"] !== value) return false;
  if (Array.isArray(node["enum"]) && !node["enum"].includes(value)) return false;
  if (Array.isArray(node["anyOf"])) return node["anyOf"].some((it) => isObject(it) && fits(root, it, value));
  const types = typesOf(node);
  if (types.length > 0 && !types.some((type) => isOfType(type, value))) return false;
  const { properties } = node;
  if (!isObject(value) || !isObject(properties)) return true;
  const isConstant = (member: unknown) => isObject(member) && ("const" in member || "enum" in member);
  return (
    Object.keys(value).every((name) => name in properties) &&
    Object.entries(properties).every(([name, it]) => !isConstant(it) || value[name] === null || fits(root, it as Node, value[name]))
  );
}

function takesNull(root: Node, schema: Node): boolean {
  return fits(root, schema, null);
}

function isOfType(type: unknown, value: unknown): boolean {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isObject(value);
  if (type === "integer") return Number.isInteger(value);
  return typeof value === type;
}

/** What a reference stands for. */
function resolved(root: Node, schema: Node): Node {
  let node = schema;
  for (let depth = 0; typeof node["$ref"] === "string" && depth < DEEPEST; depth++) {
    const path = node["$ref"].split("/").slice(1);
    let found: unknown = root;
    for (const part of path) {
      const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
      found = isObject(found) ? found[name] : undefined;
    }
    if (!isObject(found)) return {};
    node = found;
  }
  return node;
}

function typesOf(node: Node): unknown[] {
  return node["type"] === undefined ? [] : [node["type"]].flat();
}

function nodeOf(value: unknown): Node {
  if (!isObject(value)) throw new NotStrict();
  return value;
}

function listOf(value: unknown): unknown[] {
  if (!Array.isArray(value)) throw new NotStrict();
  return value;
}
