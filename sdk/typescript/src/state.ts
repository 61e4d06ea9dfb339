/** What an agent knows about its threads, for as long as somebody uses them. */

import { isObject } from "./connection.js";
import { type ThreadEvent, turnIdOf } from "./events.js";
import type { ThreadTokenUsage, Turn } from "./protocol.js";

export class ThreadState {
  /** The application's own value, for its callbacks. */
  context: unknown;
  /** The same of turns, where it differs. */
  readonly contexts = new Map<string, unknown>();
  /** All sub-agents below it by their threads, with the value of the turn that gave each its work last. */
  readonly agents = new Map<string, { nickname: unknown; user: unknown }>();
  /** The newest use of tokens. */
  usage: ThreadTokenUsage | undefined;
  /** Turns and compactions of this agent that wait for the thread, or for the server to start them. */
  starting = 0;
  /** Turns in progress, of every client. */
  readonly running = new Set<string>();
  /** The position after the newest event that an iteration of all events handed out. */
  cursor: string | undefined;
  #newest = 0;

  constructor(readonly id: string) {}

  get isBusy(): boolean {
    return this.starting > 0 || this.running.size > 0;
  }

  /** What is to be told to callbacks of a turn. */
  contextOf(turnId: unknown): unknown {
    return typeof turnId === "string" && this.contexts.has(turnId) ? this.contexts.get(turnId) : this.context;
  }

  /** An event was handed out; `order` is 0 for one that arrived again for an iteration. */
  handedOut(cursor: string | undefined, order: number): void {
    if (cursor === undefined || order < this.#newest) return;
    this.#newest = order;
    this.cursor = cursor;
  }

  note(event: ThreadEvent): void {
    const turnId = turnIdOf(event);
    if (typeof turnId !== "string") return;
    if (event.method === "turn/started") this.running.add(turnId);
    if (event.method === "turn/completed") this.running.delete(turnId);
    if (event.method === "thread/tokenUsage/updated" && isObject(event.params.tokenUsage)) {
      this.usage = event.params.tokenUsage;
    }
  }

  /** The turns are as a response has them. */
  replaced(turns: readonly Turn[]): void {
    this.running.clear();
    for (const turn of turns) if (turn?.status === "inProgress") this.running.add(turn.id);
  }
}

/** The states by thread. One that nobody holds is forgotten. */
export class ThreadStates {
  readonly #states = new Map<string, WeakRef<ThreadState>>();
  readonly #dropped = new FinalizationRegistry<string>((id) => {
    if (this.#states.get(id)?.deref() === undefined) this.#states.delete(id);
  });

  of(id: string): ThreadState {
    const known = this.peek(id);
    if (known) return known;
    const state = new ThreadState(id);
    this.#states.set(id, new WeakRef(state));
    this.#dropped.register(state, id);
    return state;
  }

  peek(id: string): ThreadState | undefined {
    return this.#states.get(id)?.deref();
  }
}
