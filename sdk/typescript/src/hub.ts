/**
 * The events of all threads on their way from the connection to their readers, and the ways to get those that a reader
 * does not have: from a position on, or the state in their place.
 */

import { type Params, isObject } from "./connection.js";
import { ConnectionLost } from "./errors.js";
import type { ThreadEvent } from "./events.js";
import { Flow } from "./flow.js";
import { Orders } from "./order.js";
import type { Thread, Turn } from "./protocol.js";
import { EventQueue, type Reader, Readers } from "./queue.js";
import { ThreadStates } from "./state.js";
import { SubAgents } from "./subagents.js";

/** What the hub needs of the session. */
export interface Server {
  readonly isAsking: boolean;
  /** Whether no request is answered any more. */
  readonly isOver: boolean;
  /** Whether the server leaves notifications out, so that their number is not known. */
  readonly hasOptOuts: boolean;
  pause(isPaused: boolean): void;
  cursorOf(threadId: string): string | undefined;
  subscribe(threadId: string, signal?: AbortSignal): Promise<void>;
  request(method: string, params: unknown, taken?: (result: unknown) => void): Promise<unknown>;
  keepCursor(threadId: string, result: unknown): void;
}

/** Events that the server sends again, for one reader alone: the others have them. */
interface Replay {
  queue: EventQueue;
  left: number;
  /** Whether one of them has arrived. */
  isBegun: boolean;
  /** The position after the last of them. */
  until: unknown;
  over(): void;
}

export class Hub {
  readonly states = new ThreadStates();
  readonly subAgents = new SubAgents(this.states);
  readonly readers = new Readers();
  readonly orders = new Orders();
  readonly flow: Flow;
  readonly #server: Server;
  readonly #replays = new Map<string, Replay>();
  /** One reader of a thread at a time asks for events. */
  readonly #asking = new Orders();
  readonly #filling = new WeakMap<EventQueue, Promise<void>>();
  #arrived = 0;

  constructor(server: Server) {
    this.#server = server;
    this.flow = new Flow(
      (isPaused) => server.pause(isPaused),
      () => server.isAsking || this.orders.isAwaited,
    );
  }

  /** Takes a notification; false if it was sent again for one reader. */
  notified(method: string, params: Params, cursor: string | undefined, size: number): boolean {
    const threadId = params["threadId"] ?? (isObject(params["thread"]) ? params["thread"]["id"] : undefined);
    if (typeof threadId !== "string") return true;
    const event = { method, params, ...(cursor !== undefined && { cursor }) } as unknown as ThreadEvent;
    const replay = cursor === undefined ? undefined : this.#replays.get(threadId);
    if (replay) {
      if ("threadId" in params) replay.queue.push(event, size);
      replay.left -= 1;
      replay.isBegun = true;
      // Where some are left out, the last one that is counted may be a new one.
      if (cursor === replay.until || (replay.left === 0 && !this.#server.hasOptOuts)) replay.over();
      return false;
    }
    this.subAgents.notified(method, params);
    if (!("threadId" in params)) return true;
    this.states.peek(threadId)?.note(event);
    this.#arrived += 1;
    for (const reader of this.readers.of(threadId)) reader.push(event, size, this.#arrived);
    return true;
  }

  /** The connection is lost: what is sent again has to be asked for once more. */
  interrupted(): void {
    for (const replay of [...this.#replays.values()]) {
      replay.queue.breakOff(false);
      replay.over();
    }
  }

  /** A queue of a thread's events from now on; of one turn, or of all. */
  subscribe(threadId: string, kind: "turn" | "thread"): EventQueue {
    const queue = this.queue(threadId, kind);
    this.readers.add(threadId, queue);
    return queue;
  }

  /** A queue of all events of a thread: from now on, or from a position on, which has to be filled first. */
  events(threadId: string, cursor: string | undefined): EventQueue {
    if (cursor === undefined) return this.subscribe(threadId, "thread");
    const queue = this.queue(threadId, "thread");
    queue.cursor = cursor;
    queue.breakOff(false);
    return queue;
  }

  /** A queue that gets nothing yet. */
  queue(threadId: string, kind: "turn" | "thread"): EventQueue {
    const queue = new EventQueue(this.flow, kind === "thread");
    queue.cursor = this.#server.cursorOf(threadId);
    return queue;
  }

  unsubscribe(threadId: string, queue: EventQueue): void {
    this.readers.remove(threadId, queue);
    queue.end();
  }

  /** Gets what a queue lacks after its position. Rejects when the thread cannot be resumed. */
  fill(threadId: string, queue: EventQueue): Promise<void> {
    const known = this.#filling.get(queue);
    if (known) return known;
    const filling = this.#fill(threadId, queue).finally(() => this.#filling.delete(queue));
    this.#filling.set(queue, filling);
    return filling;
  }

  /** The turn that runs in a thread, whoever started it, and a queue of its events that begins with what it is now. */
  async running(threadId: string): Promise<{ turn: Turn; queue: EventQueue } | undefined> {
    let found: { turn: Turn; queue: EventQueue } | undefined;
    await this.#resume(threadId, undefined, (result) => {
      const turns = turnsOf(result);
      this.states.peek(threadId)?.replaced(turns);
      const turn = turns.find((it) => it?.status === "inProgress" && Array.isArray(it.items));
      if (turn === undefined) return;
      const queue = this.subscribe(threadId, "turn");
      queue.turnId = turn.id;
      queue.push({ method: "turn/replaced", params: { threadId, turn }, ...cursorIn(result) });
      found = { turn, queue };
    });
    return found;
  }

  /** Tells the readers of a thread how things stand, when the events in between are not available. */
  replaced(threadId: string, result: Params): void {
    this.states.peek(threadId)?.replaced(turnsOf(result));
    this.#show(threadId, result, this.readers.of(threadId));
  }

  async #fill(threadId: string, queue: EventQueue): Promise<void> {
    for (;;) {
      this.readers.remove(threadId, queue);
      try {
        await this.#resume(threadId, queue.cursor, (result, release) => this.#filled(threadId, queue, result, release));
        return;
      } catch (error) {
        if (!(error instanceof ConnectionLost) || this.#server.isOver) throw error;
      }
    }
  }

  /** Asks for a thread from a position on. `taken` returns true when it releases the thread to the next one itself. */
  async #resume(
    threadId: string,
    cursor: string | undefined,
    taken: (result: Params, release: () => void) => boolean | void,
  ): Promise<void> {
    await this.#server.subscribe(threadId);
    const release = await this.#asking.take(threadId, undefined);
    let isKept = false;
    try {
      await this.#server.request("thread/resume", { threadId, ...(cursor && { eventCursor: cursor }) }, (result) => {
        isKept = taken(isObject(result) ? result : {}, release) === true;
      });
    } finally {
      if (!isKept) release();
    }
  }

  #filled(threadId: string, queue: EventQueue, result: Params, release: () => void): boolean {
    const { eventReplay: replay, eventCursor: until } = result;
    queue.goOn();
    if (!isObject(replay) || replay["type"] !== "replayed") {
      this.readers.add(threadId, queue);
      this.#show(threadId, result, [queue]);
      return false;
    }
    const left = Number(replay["events"]);
    if (!(left > 0)) {
      this.readers.add(threadId, queue);
      return false;
    }
    const over = () => {
      this.#replays.delete(threadId);
      if (!queue.hasGap) this.readers.add(threadId, queue);
      release();
    };
    const own: Replay = { queue, left, isBegun: false, until, over };
    this.#replays.set(threadId, own);
    if (this.#server.hasOptOuts) this.#bound(threadId, own);
    return true;
  }

  /**
   * Ends a replay whose number of events is not known: what the server sends after the answer to a later request is
   * new. When new events may have been given to its reader alone, the others ask for them.
   */
  #bound(threadId: string, replay: Replay): void {
    const end = () => {
      if (this.#replays.get(threadId) !== replay) return;
      const others = replay.isBegun ? this.readers.of(threadId) : [];
      for (const other of others) if (other instanceof EventQueue) other.breakOff(false);
      replay.over();
    };
    const taken = (result: unknown) => {
      if (this.#replays.get(threadId) === replay) this.#server.keepCursor(threadId, result);
      end();
    };
    this.#server.request("thread/resume", { threadId }, taken).catch(end);
  }

  #show(threadId: string, result: Params, readers: readonly Reader[]): void {
    const missing = readers.filter((reader) => !replace(reader, threadId, result));
    if (missing.length === 0) return;
    // The snapshot may hold the newest turns only.
    const gone = new ConnectionLost("the turn is no longer part of its thread");
    const taken = (read: unknown) => {
      for (const reader of missing) {
        if (!isObject(read) || !replace(reader, threadId, read)) reader.push(gone);
      }
    };
    this.#server.request("thread/read", { threadId, includeTurns: true }, taken).catch((error: unknown) => {
      const why = `the turn could not be read on a new connection: ${(error as Error).message}`;
      for (const reader of missing) reader.push(new ConnectionLost(why, { cause: error }));
    });
  }
}

/** Says how the turn of a reader stands, or its thread; false when the thread does not have the turn. */
function replace(reader: Reader, threadId: string, result: Params): boolean {
  const turns = turnsOf(result);
  if (reader.isOfThread) {
    const snapshot = isObject(result["eventReplay"]) ? result["eventReplay"] : {};
    const { fromTurnId = null, isComplete = true } = snapshot as { fromTurnId?: string | null; isComplete?: boolean };
    const params = { threadId, thread: result["thread"] as Thread, turns, fromTurnId, isComplete };
    reader.push({ method: "thread/replaced", params, ...cursorIn(result) });
    return true;
  }
  // Its turn has not started: the request failed with the connection.
  if (reader.turnId === undefined) {
    reader.loseSight?.();
    return true;
  }
  const turn = turns.find((it) => it?.id === reader.turnId && Array.isArray(it.items));
  if (turn) reader.push({ method: "turn/replaced", params: { threadId, turn }, ...cursorIn(result) });
  return turn !== undefined;
}

function turnsOf({ thread }: Params): Turn[] {
  return isObject(thread) && Array.isArray(thread["turns"]) ? (thread["turns"] as Turn[]) : [];
}

function cursorIn({ eventCursor }: Params): { cursor?: string } {
  return typeof eventCursor === "string" ? { cursor: eventCursor } : {};
}
