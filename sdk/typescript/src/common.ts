/** What both platforms export, beside their `Agent`. */

export type { Approval, Callbacks, Decision } from "./callbacks.js";
export * from "./errors.js";
export type { TurnEvent, TurnReplaced } from "./events.js";
export { type Input, image } from "./input.js";
export type * as protocol from "./protocol.js";
export type { JsonSchema, Schema, StandardSchema, ValueOf } from "./schema.js";
export { type OutputOf, type RunOptions, Thread, type TurnOptions } from "./thread.js";
export { type Arguments, type Tool, type ToolDefinition, tool } from "./tool.js";
export { type Result, Turn } from "./turn.js";
export type { Limits } from "./waiting.js";
