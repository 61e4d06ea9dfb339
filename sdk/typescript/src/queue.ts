/** The events of turns on their way to whoever reads them. */

import type { AgentdError } from "./errors.js";
import type { TurnEvent } from "./events.js";
import type { Reader } from "./order.js";

/** The events of one thread, from the start of a turn on. */
export class EventQueue implements Reader {
  /** The turn that is read from it, once it has started. */
  turnId: string | undefined;
  readonly #waiting: (isWaiting: boolean) => void;
  #entries: (TurnEvent | AgentdError)[] = [];
  #wakers: (() => void)[] = [];

  constructor(waiting: (queue: EventQueue, isWaiting: boolean) => void) {
    this.#waiting = (isWaiting) => waiting(this, isWaiting);
  }

  push(entry: TurnEvent | AgentdError): void {
    this.#entries.push(entry);
    this.wake();
  }

  shift(): TurnEvent | AgentdError | undefined {
    return this.#entries.shift();
  }

  /** Resolves when there may be something to look at. */
  wait(): Promise<void> {
    this.#waiting(true);
    return new Promise((resolve) => this.#wakers.push(resolve));
  }

  wake(): void {
    const wakers = this.#wakers;
    this.#wakers = [];
    this.#waiting(false);
    for (const wake of wakers) wake();
  }
}

/** The queues by thread. One that its owner dropped collects no events. */
export class EventQueues {
  readonly #queues = new Map<string, Set<WeakRef<EventQueue>>>();
  /** Those that somebody waits for: only the queue itself holds who waits. */
  readonly #awaited = new Set<EventQueue>();
  /** What runs in a thread, whoever reads it. */
  readonly #running = new Map<string, Reader>();

  /** Threads with a turn that somebody may read, or whose end is awaited. */
  threads(): string[] {
    const threads = new Set([...this.#queues.keys(), ...this.#running.keys()]);
    return [...threads].filter((thread) => this.of(thread).length > 0);
  }

  /** What runs in a thread from now on, until the returned function is called. */
  occupy(thread: string, end: Reader): () => void {
    this.#running.set(thread, end);
    return () => this.#running.delete(thread);
  }

  of(thread: string): Reader[] {
    const references = this.#queues.get(thread);
    const running = this.#running.get(thread);
    const queues: Reader[] = running ? [running] : [];
    for (const reference of references ?? []) {
      const queue = reference.deref();
      if (queue) queues.push(queue);
      else references?.delete(reference);
    }
    if (references?.size === 0) this.#queues.delete(thread);
    return queues;
  }

  subscribe(thread: string): EventQueue {
    const queue = new EventQueue((it, isWaiting) => (isWaiting ? this.#awaited.add(it) : this.#awaited.delete(it)));
    const queues = this.#queues.get(thread) ?? new Set();
    this.#queues.set(thread, queues.add(new WeakRef(queue)));
    return queue;
  }

  unsubscribe(thread: string, queue: EventQueue): void {
    const queues = this.#queues.get(thread);
    for (const reference of queues ?? []) {
      if (reference.deref() === queue) queues?.delete(reference);
    }
    if (queues?.size === 0) this.#queues.delete(thread);
  }

  /** Ends every turn, or those of one thread. */
  fail(error: AgentdError, thread?: string): void {
    for (const each of thread === undefined ? this.threads() : [thread]) {
      for (const queue of this.of(each)) queue.push(error);
    }
  }
}
