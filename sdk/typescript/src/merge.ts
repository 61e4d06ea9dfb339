/** Parts of one streamed text that nobody has read yet become one event. */

import type { ThreadEvent } from "./events.js";

const STREAMED = new Set([
  "item/agentMessage/delta",
  "item/commandExecution/outputDelta",
  "item/fileChange/outputDelta",
  "item/plan/delta",
  "item/reasoning/summaryTextDelta",
  "item/reasoning/textDelta",
]);

type Members = Record<string, unknown>;

/** Whether the second event goes on where the first one ends, in everything but the text the same. */
export function continues(first: ThreadEvent, second: ThreadEvent): boolean {
  if (first.method !== second.method || !STREAMED.has(first.method)) return false;
  const [before, after] = [first.params as unknown as Members, second.params as unknown as Members];
  if (typeof before["delta"] !== "string" || typeof after["delta"] !== "string") return false;
  const names = Object.keys(after);
  return (
    names.length === Object.keys(before).length && names.every((it) => it === "delta" || before[it] === after[it])
  );
}

/** A copy of the first event, to which the text of later ones can be added. */
export function copyOf(event: ThreadEvent): ThreadEvent {
  return { ...event, params: { ...event.params } } as ThreadEvent;
}

/** Adds the text of an event to a copy of the one before it, and returns its length. */
export function add(copy: ThreadEvent, event: ThreadEvent): number {
  const params = copy.params as unknown as Members;
  const delta = (event.params as unknown as Members)["delta"] as string;
  params["delta"] = (params["delta"] as string) + delta;
  if (event.cursor !== undefined) copy.cursor = event.cursor;
  return delta.length;
}
