/** The events of turns and threads, with their types. */

import type { TurnEventMethod } from "./methods.js";
import type { ServerNotifications, Thread, Turn } from "./protocol.js";

/** The position after an event among those of its thread, for `Thread.events`. Absent where the server gives none. */
interface Positioned {
  cursor?: string;
}

type ParamsOf<M extends keyof ServerNotifications> = ServerNotifications[M] extends { params: infer P } ? P : never;

type Notification<M extends keyof ServerNotifications> = {
  [K in M]: Positioned & { method: K; params: ParamsOf<K> };
}[M];

/** The notifications whose parameters name a thread. */
type ThreadEventMethod = {
  [K in keyof ServerNotifications]: "threadId" extends keyof ParamsOf<K> ? K : never;
}[keyof ServerNotifications];

/**
 * The server no longer had the events in between: what the turn is now replaces what was known of it. Made by this
 * package.
 */
export interface TurnReplaced extends Positioned {
  method: "turn/replaced";
  params: { threadId: string; turn: Turn };
}

/**
 * The server no longer had the events in between: `turns` replace the turn `fromTurnId` and all later ones or, where
 * that is null, everything that was known of the thread. With `isComplete` false they are the newest ones only:
 * `Thread.read` has all. Made by this package.
 */
export interface ThreadReplaced extends Positioned {
  method: "thread/replaced";
  params: { threadId: string; thread: Thread; turns: Turn[]; fromTurnId: string | null; isComplete: boolean };
}

/** A notification about a turn: `method` and `params` are those of the protocol. */
export type TurnEvent = Notification<TurnEventMethod> | TurnReplaced;

/** A notification about a thread, or a turn of it. */
export type ThreadEvent = Notification<ThreadEventMethod | TurnEventMethod> | TurnReplaced | ThreadReplaced;

/** Any notification of the server. */
export type AnyNotification = {
  [K in keyof ServerNotifications]: Positioned & {
    method: K;
    params: ServerNotifications[K] extends { params?: infer P } ? P : never;
  };
}[keyof ServerNotifications];

/** The turn that an event is about. */
export function turnIdOf(event: ThreadEvent): unknown {
  const { turn, turnId } = event.params as { turn?: unknown; turnId?: unknown };
  return typeof turn === "object" && turn !== null ? (turn as { id?: unknown }).id : turnId;
}
