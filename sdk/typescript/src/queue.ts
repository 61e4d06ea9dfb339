/** The events of a thread on their way to a reader: a bounded list, which merges what is streamed. */

import type { AgentdError } from "./errors.js";
import { type ThreadEvent, turnIdOf } from "./events.js";
import { Fifo } from "./fifo.js";
import type { Flow } from "./flow.js";
import { add, continues, copyOf } from "./merge.js";
import { soon } from "./waiting.js";

/** Unread events, and their characters, of one reader: with more, the agent reads no more of the server. */
export const MOST_EVENTS = 4_096;
export const MOST_CHARACTERS = 8 << 20;
/** Milliseconds for which a reader that never waits may go on before timers and other work have their turn. */
const SLICE = 5;

/** Takes the events of a thread as they arrive. */
export interface Reader {
  /** The turn that it is about, once it has started; none for all events of a thread. */
  turnId: string | undefined;
  /** Whether it takes all events of the thread. */
  readonly isOfThread?: boolean;
  /** An event, its size in characters, and its place among all that arrived; or why there are no more. */
  push(entry: ThreadEvent | AgentdError, size?: number, order?: number): void;
  /** The events in between are gone before its turn was known. */
  loseSight?(): void;
}

/** In place of events that the queue no longer has: they have to be asked for, from `cursor` on. */
export const GAP = Symbol("gap");

interface Entry {
  value: ThreadEvent | AgentdError;
  size: number;
  order: number;
  /** A merged event is a copy; others belong to every reader. */
  isCopy: boolean;
}

export class EventQueue implements Reader {
  turnId: string | undefined;
  /** The position after the event that was taken last. */
  cursor: string | undefined;
  /** Counts what was taken, so that a reader that takes nothing is known. */
  taken = 0;
  /** The place of the event that was taken last among all that arrived; 0 if it arrived again for this queue. */
  order = 0;
  readonly #flow: Flow;
  readonly #entries = new Fifo<Entry>();
  #size = 0;
  #isFull = false;
  #hasGap = false;
  #isEnded = false;
  /** The newest use of tokens of the turn, which no snapshot has. */
  #usage: ThreadEvent | undefined;
  #began = 0;
  #wakers: (() => void)[] = [];

  constructor(
    flow: Flow,
    readonly isOfThread: boolean,
  ) {
    this.#flow = flow;
  }

  /** Whether it lacks events, which have to be asked for. */
  get hasGap(): boolean {
    return this.#hasGap;
  }

  /** Whether nothing reads it any more. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  push(value: ThreadEvent | AgentdError, size = 0, order = 0): void {
    if (this.#isEnded) return;
    if (this.#hasGap && !(value instanceof Error)) return this.#keepUsage(value);
    const last = this.#entries.last;
    if (last && !(last.value instanceof Error) && !(value instanceof Error) && continues(last.value, value)) {
      if (!last.isCopy) this.#entries.last = { ...last, value: copyOf(last.value), isCopy: true };
      const merged = this.#entries.last as Entry;
      const more = add(merged.value as ThreadEvent, value);
      merged.size += more;
      merged.order = order;
      this.#size += more;
    } else {
      this.#size += size;
      this.#entries.push({ value, size, order, isCopy: false });
    }
    if (!this.#isFull && (this.#entries.length >= MOST_EVENTS || this.#size >= MOST_CHARACTERS)) {
      this.#isFull = true;
      this.#flow.filled(this);
    }
    this.wake();
  }

  /** The next event, why there are no more, a gap to be filled, or nothing yet. */
  shift(): ThreadEvent | AgentdError | typeof GAP | undefined {
    const entry = this.#entries.shift();
    if (entry === undefined) return this.#hasGap ? GAP : undefined;
    this.taken += 1;
    this.#size -= entry.size;
    this.order = entry.order;
    if (!(entry.value instanceof Error)) this.cursor = entry.value.cursor ?? this.cursor;
    this.#makeRoom();
    return entry.value;
  }

  /** Nothing that arrives is kept until the gap is filled; with `isEmptied`, nor what is there. */
  breakOff(isEmptied: boolean): void {
    this.#hasGap = true;
    if (isEmptied) {
      for (let entry = this.#entries.shift(); entry; entry = this.#entries.shift()) {
        if (!(entry.value instanceof Error)) this.#keepUsage(entry.value);
      }
      this.#size = 0;
    }
    this.#makeRoom();
    this.wake();
  }

  /** What is missing follows now. */
  goOn(): void {
    this.#hasGap = false;
    if (this.#usage) this.push(this.#usage);
    this.#usage = undefined;
  }

  /** Whether its reader has gone on for so long that it has to `rest`. */
  get isTiring(): boolean {
    return this.#entries.length > 0 && performance.now() - this.#began > SLICE;
  }

  /** Lets the rest of the process go on. */
  async rest(): Promise<void> {
    await new Promise<void>((resolve) => soon(resolve));
    this.#began = performance.now();
  }

  /** Resolves when there may be something to look at. */
  wait(): Promise<void> {
    if (this.#entries.length > 0 || this.#hasGap) return Promise.resolve();
    this.#began = performance.now();
    this.#flow.awaits(this, true);
    return new Promise((resolve) => this.#wakers.push(resolve));
  }

  wake(): void {
    if (this.#wakers.length === 0) return;
    const wakers = this.#wakers;
    this.#wakers = [];
    this.#began = performance.now();
    this.#flow.awaits(this, false);
    for (const wake of wakers) wake();
  }

  /** Takes nothing any more: its reader is gone. */
  end(): void {
    this.#isEnded = true;
    this.close();
  }

  /** Ends the waits for room. */
  close(): void {
    this.#isFull = false;
    this.#flow.emptied(this);
  }

  #keepUsage(event: ThreadEvent): void {
    if (event.method !== "thread/tokenUsage/updated" || this.isOfThread || turnIdOf(event) !== this.turnId) return;
    this.#usage = event.cursor === undefined ? event : { ...event };
    // Its position says nothing of the events that are missing.
    delete this.#usage.cursor;
  }

  #makeRoom(): void {
    if (!this.#isFull || this.#entries.length > MOST_EVENTS / 4 || this.#size > MOST_CHARACTERS / 4) return;
    this.close();
  }
}

/** The readers by thread. A queue that its owner dropped collects no events. */
export class Readers {
  readonly #queues = new Map<string, Set<WeakRef<EventQueue>>>();
  /** What runs in a thread, whoever reads it. */
  readonly #running = new Map<string, Set<Reader>>();

  /** Threads with a turn that somebody may read, or whose end is awaited. */
  threads(): string[] {
    const threads = new Set([...this.#queues.keys(), ...this.#running.keys()]);
    return [...threads].filter((thread) => this.of(thread).length > 0);
  }

  /** Has what runs in a thread learn of its events, whoever reads them, until the returned function is called. */
  occupy(thread: string, end: Reader): () => void {
    const running = this.#running.get(thread) ?? new Set();
    this.#running.set(thread, running.add(end));
    return () => {
      running.delete(end);
      if (running.size === 0 && this.#running.get(thread) === running) this.#running.delete(thread);
    };
  }

  of(thread: string): Reader[] {
    const references = this.#queues.get(thread);
    const queues: Reader[] = [...(this.#running.get(thread) ?? [])];
    for (const reference of references ?? []) {
      const queue = reference.deref();
      if (queue) queues.push(queue);
      else references?.delete(reference);
    }
    if (references?.size === 0) this.#queues.delete(thread);
    return queues;
  }

  add(thread: string, queue: EventQueue): void {
    this.remove(thread, queue);
    // Its reader left while its events were asked for.
    if (queue.isEnded) return;
    const queues = this.#queues.get(thread) ?? new Set();
    this.#queues.set(thread, queues.add(new WeakRef(queue)));
  }

  remove(thread: string, queue: EventQueue): void {
    const queues = this.#queues.get(thread);
    for (const reference of queues ?? []) {
      if (reference.deref() === queue) queues?.delete(reference);
    }
    if (queues?.size === 0) this.#queues.delete(thread);
  }

  /** Ends every reader, or those of one thread. */
  fail(error: AgentdError, thread?: string): void {
    for (const each of thread === undefined ? this.threads() : [thread]) {
      for (const queue of this.of(each)) queue.push(error);
    }
  }
}
