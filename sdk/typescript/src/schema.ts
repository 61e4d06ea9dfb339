/** JSON Schema of what a caller describes in another way, and the check of values against it. */

import { isObject } from "./connection.js";
import { restored, strictOf } from "./strict.js";

/** A schema as JSON. Values are not checked against it here. */
export type JsonSchema = { readonly [key: string]: unknown };

interface Issue {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
}

type Checked<T> = { readonly value: T; readonly issues?: undefined } | { readonly issues: ReadonlyArray<Issue> };

/** A schema of a library such as zod: of the interface Standard Schema, which checks values. */
export interface StandardSchema<T = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Checked<T> | Promise<Checked<T>>;
    readonly types?: { readonly input: unknown; readonly output: T } | undefined;
  };
}

export type Schema = JsonSchema | StandardSchema;

/** What a value of the schema is, once it is checked. */
export type ValueOf<S> = S extends StandardSchema<infer T> ? T : unknown;

type Side = "input" | "output";

/** The schema as JSON: of what goes into the check, or of what comes out. Throws a `TypeError` without one. */
export function jsonSchemaOf(schema: Schema, side: Side): JsonSchema {
  if (!isStandard(schema)) {
    if (!isObject(schema)) throw new TypeError("a schema is a JSON Schema, or has `toJSONSchema`");
    return schema;
  }
  const { toJSONSchema } = schema as { toJSONSchema?: unknown };
  const { jsonSchema } = schema["~standard"] as { jsonSchema?: Record<Side, (options: object) => unknown> };
  let found: unknown;
  if (typeof toJSONSchema === "function") found = toJSONSchema.call(schema, { io: side });
  else if (jsonSchema !== undefined) found = jsonSchema[side]({ target: "draft-2020-12" });
  if (!isObject(found)) {
    throw new TypeError(`a schema of ${schema["~standard"].vendor} has no \`toJSONSchema\`: use a later version of it`);
  }
  return found;
}

/**
 * The schema of an answer as JSON. One of a library is made strict where its meaning allows that; a JSON Schema stays
 * what it is. The members are in the order of the schema.
 */
export function outputSchemaOf(schema: Schema): JsonSchema {
  const json = jsonSchemaOf(schema, "input");
  return (isStandard(schema) ? strictOf(json) : undefined) ?? json;
}

/** The value as the schema has it. Throws an `Error` that says where it does not fit. */
export async function valueOf(schema: Schema, value: unknown, where: string): Promise<unknown> {
  if (!isStandard(schema)) return value;
  const checked = await schema["~standard"].validate(value);
  if (checked.issues === undefined) return checked.value;
  const places = checked.issues.map(({ message, path = [] }) => {
    const keys = path.map((it) => String(typeof it === "object" ? it.key : it));
    return `${[where, ...keys].join(".")}: ${message}`;
  });
  throw new Error(places.join("; "));
}

function isStandard(schema: Schema): schema is StandardSchema {
  const kind = typeof schema;
  return (kind === "object" || kind === "function") && schema !== null && "~standard" in schema;
}

/** An answer of the model as the schema has it. Throws as `valueOf` does. */
export async function outputOf(schema: Schema, answer: unknown): Promise<unknown> {
  if (!isStandard(schema)) return answer;
  const json = jsonSchemaOf(schema, "input");
  return valueOf(schema, strictOf(json) === undefined ? answer : restored(json, answer), "the answer");
}
