/**
 * When the agent reads of the server: not while a reader has as many unread events as it may. A reader that takes
 * nothing must not stop the others for ever: its events are dropped, and it asks for them again when it goes on.
 */

import type { EventQueue } from "./queue.js";

/** Milliseconds in which a full reader has to take an event: while somebody waits for the connection, and else. */
const PATIENCE = 1_000;
const PATIENCE_ALONE = 10_000;
/** Milliseconds between looks at full readers. */
const INTERVAL = 250;

interface Full {
  queue: WeakRef<EventQueue>;
  taken: number;
  since: number;
}

export class Flow {
  readonly #pause: (isPaused: boolean) => void;
  readonly #isAsking: () => boolean;
  #full: Full[] = [];
  /** Those that somebody waits for: only the queue itself holds who waits. */
  readonly #awaited = new Set<EventQueue>();
  #timer: ReturnType<typeof setInterval> | undefined;

  /** `isAsking` is true while a request or a turn of this agent waits for the server. */
  constructor(pause: (isPaused: boolean) => void, isAsking: () => boolean) {
    this.#pause = pause;
    this.#isAsking = isAsking;
  }

  get isPaused(): boolean {
    return this.#full.length > 0;
  }

  awaits(queue: EventQueue, isWaiting: boolean): void {
    if (isWaiting) this.#awaited.add(queue);
    else this.#awaited.delete(queue);
  }

  filled(queue: EventQueue): void {
    this.#full.push({ queue: new WeakRef(queue), taken: queue.taken, since: performance.now() });
    if (this.#full.length > 1) return;
    this.#timer = setInterval(() => this.#look(), INTERVAL);
    this.#pause(true);
  }

  emptied(queue: EventQueue): void {
    this.#keep(({ queue: it }) => it.deref() !== queue);
  }

  /** Nothing is read any more. */
  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    const now = performance.now();
    const patience = this.#awaited.size > 0 || this.#isAsking() ? PATIENCE : PATIENCE_ALONE;
    for (const full of [...this.#full]) {
      const queue = full.queue.deref();
      if (queue !== undefined && queue.taken !== full.taken) Object.assign(full, { taken: queue.taken, since: now });
      else if (queue !== undefined && now - full.since >= patience) queue.breakOff(true);
    }
    this.#keep(({ queue }) => queue.deref() !== undefined);
  }

  #keep(isFull: (full: Full) => boolean): void {
    const wasPaused = this.isPaused;
    this.#full = this.#full.filter(isFull);
    if (!wasPaused || this.isPaused) return;
    clearInterval(this.#timer);
    this.#pause(false);
  }
}
