/**
 * Messages that have arrived, on their way to whatever takes them: a slice at a time, so that timers and other work of
 * the process run in between, and none while their readers are full.
 */

import { Fifo } from "./fifo.js";
import { soon } from "./waiting.js";

/** Milliseconds of a slice. */
const SLICE = 5;
/** Characters that wait, above which the transport reads no more, and below which it reads again. */
const HIGH = 1 << 18;
const LOW = 1 << 16;
/** Most characters that wait where a transport cannot stop reading, as in a browser. */
export const LONGEST_WAIT = 64 << 20;

export interface Outlet {
  take(text: string): void;
  /** The transport has ended, and every message was taken. */
  ended(why: string): void;
  /** Reads no more, or reads again. */
  hold(isHeld: boolean): void;
  /** More waits than may, although the transport was asked to stop. */
  overflowed(): void;
}

export class Inbox {
  readonly #outlet: Outlet;
  readonly #texts = new Fifo<string>();
  #length = 0;
  #why: string | undefined;
  #isScheduled = false;
  #isPaused = false;
  #isHeld = false;
  #isClosed = false;

  constructor(outlet: Outlet) {
    this.#outlet = outlet;
  }

  push(text: string): void {
    if (this.#isClosed) return;
    this.#texts.push(text);
    this.#length += text.length;
    if (this.#length > LONGEST_WAIT + HIGH && this.#texts.length > 1) this.#outlet.overflowed();
    this.#holdIfNeeded();
    this.#schedule();
  }

  end(why: string): void {
    if (this.#isClosed) return;
    this.#why ??= why;
    this.#schedule();
  }

  /** Takes no message until `isPaused` is false again. */
  pause(isPaused: boolean): void {
    this.#isPaused = isPaused && !this.#isClosed;
    this.#holdIfNeeded();
    this.#schedule();
  }

  /** Drops what waits and what follows. */
  close(): void {
    this.#isClosed = true;
    this.#texts.clear();
    this.#length = 0;
    this.pause(false);
  }

  #holdIfNeeded(): void {
    const isHeld = this.#isPaused || this.#length > (this.#isHeld ? LOW : HIGH);
    if (isHeld === this.#isHeld) return;
    this.#isHeld = isHeld;
    this.#outlet.hold(isHeld);
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isPaused) return;
    this.#isScheduled = true;
    soon(() => this.#run());
  }

  #run(): void {
    this.#isScheduled = false;
    const end = performance.now() + SLICE;
    try {
      while (!this.#isPaused && performance.now() < end) {
        const text = this.#texts.shift();
        if (text === undefined) break;
        this.#length -= text.length;
        this.#outlet.take(text);
      }
    } finally {
      this.#holdIfNeeded();
      if (this.#texts.length > 0) this.#schedule();
      else if (this.#why !== undefined && !this.#isPaused && !this.#isClosed) this.#outlet.ended(this.#why);
    }
  }
}
