/** Functions that the model can call. */

import { isObject } from "./connection.js";
import type { DynamicToolCallParams, DynamicToolCallResponse, DynamicToolSpec } from "./protocol.js";
import { type Schema, type StandardSchema, jsonSchemaOf, valueOf } from "./schema.js";

/** What a function of the model gets: checked by a schema of a library, or as the model wrote it. */
export type Arguments<S> = S extends StandardSchema<infer T> ? T : Record<string, unknown>;

export interface ToolDefinition<S extends Schema> {
  name: string;
  /** Tells the model what the function does. */
  description: string;
  /** The schema of one object with all arguments: JSON Schema, or of a library such as zod. */
  parameters: S;
  /** What it throws is told to the model. */
  run(args: Arguments<S>): unknown;
}

/** A function with its name, its description and the schema of its arguments. */
export interface Tool {
  readonly name: string;
  /** As `thread/start` wants it. */
  spec(): DynamicToolSpec;
  /** Calls the function for the model. */
  answer(params: DynamicToolCallParams): Promise<DynamicToolCallResponse>;
}

/** Makes a function a tool. Throws a `TypeError` without a name, a description or a schema. */
export function tool<const S extends Schema>({ name, description, parameters, run }: ToolDefinition<S>): Tool {
  if (!name || !description) throw new TypeError("a tool needs a `name` and a `description` for the model");
  if (typeof run !== "function") throw new TypeError(`the tool \`${name}\` has no function \`run\``);
  const inputSchema = jsonSchemaOf(parameters, "input");
  return {
    name,
    spec: () => ({ name, description, inputSchema }),
    async answer({ arguments: given }) {
      try {
        if (!isObject(given)) throw new Error("the arguments are not an object");
        const result = await run((await valueOf(parameters, given, "arguments")) as Arguments<S>);
        return answer(typeof result === "string" ? result : (JSON.stringify(result) ?? "null"), true);
      } catch (error) {
        // The model decides what to do about it.
        return answer(String(error), false);
      }
    },
  };
}

function answer(text: string, success: boolean): DynamicToolCallResponse {
  return { contentItems: [{ type: "inputText", text }], success };
}
