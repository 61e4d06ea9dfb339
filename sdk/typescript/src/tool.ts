/** Functions that the model can call. */

import type { CallbackContext } from "./callbacks.js";
import { isObject } from "./connection.js";
import { ToolError } from "./errors.js";
import type { DynamicToolCallParams, DynamicToolCallResponse, DynamicToolSpec } from "./protocol.js";
import { type Schema, type StandardSchema, jsonSchemaOf, valueOf } from "./schema.js";

/** What a function of the model gets: checked by a schema of a library, or as the model wrote it. */
export type Arguments<S> = S extends StandardSchema<infer T> ? T : Record<string, unknown>;

/** Where a call of a tool belongs. */
export interface ToolContext extends CallbackContext {
  turnId: string;
  /** The id of the call. */
  callId: string;
}

export interface ToolDefinition<S extends Schema> {
  name: string;
  /** Tells the model what the function does. */
  description: string;
  /** The schema of one object with all arguments: JSON Schema, or of a library such as zod. */
  parameters: S;
  /**
   * The model gets what it returns: a text, or anything else as JSON. The text of a `ToolError` that it throws is
   * reported to the model; other errors are logged, and the model learns that the tool failed. `context.signal` is
   * aborted when the turn ends.
   */
  run(args: Arguments<S>, context: ToolContext): unknown;
}

/** A function with its name, its description and the schema of its arguments. */
export interface Tool {
  readonly name: string;
  /** As `thread/start` wants it. */
  spec(): DynamicToolSpec;
  /** Calls the function for the model. */
  answer(params: DynamicToolCallParams, context: ToolContext): Promise<DynamicToolCallResponse>;
}

/** Makes a function a tool. Throws a `TypeError` without a name, a description or a schema. */
export function tool<const S extends Schema>({ name, description, parameters, run }: ToolDefinition<S>): Tool {
  if (!name || !description) throw new TypeError("a tool needs a `name` and a `description` for the model");
  if (typeof run !== "function") throw new TypeError(`the tool \`${name}\` has no function \`run\``);
  const inputSchema = jsonSchemaOf(parameters, "input");
  return {
    name,
    spec: () => ({ name, description, inputSchema }),
    async answer({ arguments: given }, context) {
      let args: Arguments<S>;
      try {
        if (!isObject(given)) throw new Error("the arguments are not an object");
        args = (await valueOf(parameters, given, "arguments")) as Arguments<S>;
      } catch (error) {
        // The model decides what to do about it.
        return toolAnswer(String(error), false);
      }
      try {
        const result = await run(args, context);
        return toolAnswer(typeof result === "string" ? result : (JSON.stringify(result) ?? "null"), true);
      } catch (error) {
        if (error instanceof ToolError) return toolAnswer(error.message, false);
        throw error;
      }
    },
  };
}

/** An answer as the protocol has it. */
export function toolAnswer(text: string, success: boolean): DynamicToolCallResponse {
  return { contentItems: [{ type: "inputText", text }], success };
}
