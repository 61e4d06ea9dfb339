/** What both platforms export, next to their `Agent`. */

export type { Approval, CallbackContext, CallbackFailure, Callbacks, Decision } from "./callbacks.js";
export * from "./errors.js";
export type { AnyNotification, ThreadEvent, ThreadReplaced, TurnEvent, TurnReplaced } from "./events.js";
export { type Input, image } from "./input.js";
export type * as protocol from "./protocol.js";
export type { JsonSchema, Schema, StandardSchema, ValueOf } from "./schema.js";
export type { Finding } from "./review.js";
export { type OnBusy, type OutputOf, type ReviewOptions, type RunOptions, Thread, type TurnOptions } from "./thread.js";
export { type Arguments, type Tool, type ToolContext, type ToolDefinition, tool } from "./tool.js";
export { type Result, Turn } from "./turn.js";
export type { Limits } from "./waiting.js";
