/**
 * What runs in a thread, one after the other: a turn or a compaction begins when the one before it, of the same agent,
 * has ended. Without that, the input of a second turn would join the first, which then has both answers.
 */

import { isObject } from "./connection.js";
import { AgentdError, ConnectionLost, TurnFailed, TurnInterrupted } from "./errors.js";
import { type ThreadEvent, turnIdOf } from "./events.js";
import type { ThreadTokenUsage, Turn as TurnState } from "./protocol.js";
import type { Reader } from "./queue.js";
import { within } from "./waiting.js";

/** Who has a thread for itself, by its id. */
export class Orders {
  readonly #last = new Map<string, Promise<void>>();
  #waiting = 0;

  /** Whether somebody waits for a thread. */
  get isAwaited(): boolean {
    return this.#waiting > 0;
  }

  /** Whether something of this agent runs in a thread, or waits for it. */
  isTaken(threadId: string): boolean {
    return this.#last.has(threadId);
  }

  /** Waits until nothing runs in a thread, and returns what lets the next begin. */
  async take(threadId: string, signal: AbortSignal | undefined): Promise<() => void> {
    const before = this.#last.get(threadId) ?? Promise.resolve();
    let release: () => void = () => undefined;
    const done = new Promise<void>((resolve) => (release = resolve));
    const last = before.then(() => done);
    this.#last.set(threadId, last);
    void last.then(() => {
      if (this.#last.get(threadId) === last) this.#last.delete(threadId);
    });
    this.#waiting += 1;
    try {
      await within(before, { signal });
    } catch (error) {
      release();
      throw error;
    } finally {
      this.#waiting -= 1;
    }
    return release;
  }
}

/** Learns of the end of a turn, whoever reads its events. */
export class TurnEnd implements Reader {
  turnId: string | undefined;
  readonly ended: Promise<void>;
  readonly #used: ((usage: ThreadTokenUsage) => void) | undefined;
  #end: () => void = () => undefined;

  /** `used` learns of the tokens that the turn has used. */
  constructor(used?: (usage: ThreadTokenUsage) => void) {
    this.#used = used;
    this.ended = new Promise((resolve) => (this.#end = resolve));
  }

  /** The turn does not run in this thread. */
  elsewhere(): void {
    this.#end();
  }

  push(entry: ThreadEvent | AgentdError): void {
    if (entry instanceof AgentdError || (this.turnId !== undefined && ends(entry, this.turnId))) return this.#end();
    if (entry.method !== "thread/tokenUsage/updated" || turnIdOf(entry) !== this.turnId) return;
    if (isObject(entry.params.tokenUsage)) this.#used?.(entry.params.tokenUsage);
  }
}

/**
 * Learns of the end of a compaction. The response to the request for it does not name its turn, which is told from
 * those of other clients by what it begins with.
 */
export class CompactionEnd implements Reader {
  turnId: string | undefined;
  /** Its turn, which may lack a status. Rejects when no more events come. */
  readonly ended: Promise<Partial<TurnState>>;
  /** Turns that began meanwhile, and of which no item says that they are something else. */
  readonly #candidates = new Set<unknown>();
  #end: (turn: Partial<TurnState>) => void = () => undefined;
  #fail: (error: AgentdError) => void = () => undefined;

  constructor() {
    this.ended = new Promise((resolve, reject) => {
      this.#end = resolve;
      this.#fail = reject;
    });
    // The request may fail, and nobody wait for it.
    this.ended.catch(() => undefined);
  }

  push(entry: ThreadEvent | AgentdError): void {
    if (entry instanceof AgentdError) return this.#fail(entry);
    const turnId = turnIdOf(entry);
    const { item, turn } = entry.params as { item?: unknown; turn?: unknown };
    if (entry.method === "turn/started") {
      this.#candidates.add(turnId);
    } else if (entry.method === "item/started") {
      if (!isObject(item) || item["type"] !== "contextCompaction") this.#candidates.delete(turnId);
      else if (this.#candidates.has(turnId)) this.turnId = turnId as string;
    } else if (this.#candidates.has(turnId) && ends(entry, turnId)) {
      this.#end(isObject(turn) ? turn : {});
    }
  }

  loseSight(): void {
    this.#fail(new ConnectionLost("the connection was lost, and whether the compaction has ended is unknown"));
  }
}

/** Throws what a compaction failed with. */
export function checkCompaction(turn: Partial<TurnState>): void {
  if (turn.status === "failed") throw new TurnFailed(turn.error ?? null);
  if (turn.status === "interrupted") throw new TurnInterrupted("the compaction was interrupted");
}

function ends(event: ThreadEvent, turnId: unknown): boolean {
  if (turnIdOf(event) !== turnId) return false;
  const turn: unknown = (event.params as { turn?: unknown }).turn;
  return (
    event.method === "turn/completed" ||
    (event.method === "turn/replaced" && isObject(turn) && turn["status"] !== "inProgress")
  );
}
