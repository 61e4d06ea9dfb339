/** The events of turns, with their types. */

import type { TurnEventMethod } from "./methods.js";
import type { ServerNotifications, Turn } from "./protocol.js";

type Notification<M extends keyof ServerNotifications> = {
  [K in M]: { method: K; params: ServerNotifications[K] extends { params: infer P } ? P : never };
}[M];

/**
 * The connection was made again, and the server no longer had the events in between: what the turn is now
 * replaces what was known of it. Made by this package.
 */
export interface TurnReplaced {
  method: "turn/replaced";
  params: { threadId: string; turn: Turn };
}

/** A notification about a turn: `method` and `params` are those of the protocol. */
export type TurnEvent = Notification<TurnEventMethod> | TurnReplaced;

/** The turn that an event is about. */
export function turnIdOf(event: TurnEvent): unknown {
  const { turn, turnId } = event.params as { turn?: unknown; turnId?: unknown };
  return typeof turn === "object" && turn !== null ? (turn as { id?: unknown }).id : turnId;
}
