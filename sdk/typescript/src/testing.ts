/**
 * For the tests of applications, in Node: models that answer from a script, without a network and a key. The steps of a
 * script are described in `docs/model-server.md`; `record` and `replay` of an agent keep a whole session.
 *
 *     import { answers, calls, scripted } from "@agentd-embed/sdk/testing";
 *
 *     const model = await scripted(folder, calls("weather", { city: "Vienna" }), answers({ days: 3 }, Forecast));
 *     await using agent = await Agent.start({ ...model, tools: [weather] });
 */

import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";

import { isObject } from "./connection.js";
import { type Schema, valueOf } from "./schema.js";

/** The response of a model: its steps, and what it expects of the request. */
export interface ScriptedResponse {
  steps: unknown[];
  expect?: Record<string, unknown>;
}

/** A response, or a promise of one, as `answers` gives it. */
export type Scripted = ScriptedResponse | Promise<ScriptedResponse>;

/**
 * Writes a script to a folder, and returns the options of an agent whose model gives these responses, in this order, in
 * each thread. A request after the last one fails.
 */
export async function scripted(folder: string, ...responses: Scripted[]): Promise<{ offline: true; model: string }> {
  const all = await Promise.all(responses);
  all.forEach((response, at) => {
    if (isObject(response) && Array.isArray(response["steps"])) return;
    throw new TypeError(`\`responses[${at}]\` is no response: use \`says\`, \`answers\`, \`calls\` or \`fails\``);
  });
  const model = join(resolve(folder), "model-script.json");
  await writeFile(model, JSON.stringify({ responses: all }));
  return { offline: true, model };
}

/** A message. The options are those of the step, such as `phase`, `chunk_chars` and `chunk_delay_ms`. */
export function says(text: string, options: Record<string, unknown> = {}): ScriptedResponse {
  return { steps: [{ message: { ...options, text } }] };
}

/** A message that answers a schema. With the schema, rejects for a value that does not have its shape. */
export async function answers(value: unknown, output?: Schema): Promise<ScriptedResponse> {
  if (output !== undefined) await valueOf(output, JSON.parse(JSON.stringify(value)), "`value`");
  return says(JSON.stringify(value));
}

/** A call of a tool. */
export function calls(tool: string, args: Record<string, unknown> = {}): ScriptedResponse {
  return { steps: [{ function_call: { name: tool, arguments: args } }] };
}

/** A refused request. */
export function fails(status = 500, message = "scripted failure"): ScriptedResponse {
  return { steps: [{ error: { status, message } }] };
}

/** A response that is given only when the request fits, such as `{ tool_output_contains: "sunny" }`. */
export async function expecting(response: Scripted, conditions: Record<string, unknown>): Promise<ScriptedResponse> {
  const given = await response;
  return { ...given, expect: { ...given.expect, ...conditions } };
}
