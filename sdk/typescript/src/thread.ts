/** A conversation with the agent. */

import { TurnTimeout } from "./errors.js";
import { type Input, partsOf } from "./input.js";
import type {
  Thread as ThreadRecord,
  ThreadRollbackParams,
  ThreadRollbackResponse,
  TurnStartParams,
} from "./protocol.js";
import type { EventQueue } from "./queue.js";
import { type Schema, type ValueOf, jsonSchemaOf } from "./schema.js";
import { type Result, Turn, type TurnHost } from "./turn.js";
import { Elapsed, type Limits, checkTimeout, within } from "./waiting.js";

/** The parameters of `turn/start`, and what this package adds. */
export type TurnOptions<S extends Schema | undefined = undefined> = Partial<
  Omit<TurnStartParams, "threadId" | "input">
> & {
  /** What the answer shall be: a JSON Schema, or a schema of a library such as zod. */
  output?: S;
  /** Interrupts the turn when it is aborted; what waits for the turn rejects with its reason. */
  signal?: AbortSignal | undefined;
};

export type RunOptions<S extends Schema | undefined = undefined> = TurnOptions<S> & {
  /** Milliseconds after which the turn is interrupted. */
  timeout?: number | undefined;
};

/** What an answer is: as `output` has it, or the text. */
export type OutputOf<S> = S extends Schema ? ValueOf<S> : string;

/** What a thread needs of its agent. */
export interface ThreadHost extends TurnHost {
  subscribe(threadId: string): EventQueue;
  /** Waits until nothing runs in a thread, and returns what lets the next begin. */
  takeThread(threadId: string, signal: AbortSignal | undefined): Promise<() => void>;
  startTurn(params: TurnStartParams, release: () => void, signal: AbortSignal | undefined): Promise<string>;
  compact(threadId: string, release: () => void): Promise<void>;
}

export class Thread {
  readonly #host: ThreadHost;

  /** Made by `Agent.thread`. */
  constructor(
    host: ThreadHost,
    readonly id: string,
  ) {
    this.#host = host;
  }

  /**
   * Starts a turn, once the turn or compaction that this agent started before it in the thread has ended, also when
   * nobody reads that one; `Turn.steer` adds to a turn that runs. A function of the agent that the running turn waits
   * for, such as a tool, must not wait for a turn of the same thread. A turn that another client runs in the thread is
   * not waited for: the new turn joins it, and has its events from then on.
   */
  async turn<S extends Schema | undefined = undefined>(
    message: Input,
    options: TurnOptions<S> = {},
  ): Promise<Turn<OutputOf<S>>> {
    const { output, signal, ...params } = options;
    if (output !== undefined) params.outputSchema ??= jsonSchemaOf(output, "output");
    const start = { ...params, threadId: this.id, input: partsOf(message) };
    const release = await this.#host.takeThread(this.id, signal);
    const queue = this.#host.subscribe(this.id);
    try {
      const id = await this.#host.startTurn(start, release, signal);
      return new Turn<OutputOf<S>>(this.#host, this.id, id, queue, { output, signal });
    } catch (error) {
      this.#host.unsubscribe(this.id, queue);
      throw error;
    }
  }

  /** Runs a turn to its end. It is interrupted after `timeout` milliseconds, and when the signal is aborted. */
  async run<S extends Schema | undefined = undefined>(
    message: Input,
    options: RunOptions<S> = {},
  ): Promise<Result<OutputOf<S>>> {
    const { timeout, ...rest } = options;
    checkTimeout("timeout", timeout);
    const began = Date.now();
    const late = new AbortController();
    const signal = rest.signal ? AbortSignal.any([rest.signal, late.signal]) : late.signal;
    const starting = this.turn<S>(message, { ...rest, signal } as TurnOptions<S>);
    let turn: Turn<OutputOf<S>>;
    try {
      turn = await within(starting, { timeout });
    } catch (error) {
      if (!(error instanceof Elapsed)) throw error;
      const failure = new TurnTimeout(
        `the server did not start the turn within ${timeout} ms, or an earlier one of the thread still runs`,
      );
      late.abort(failure);
      await starting.catch(() => undefined);
      throw failure;
    }
    const left = timeout === undefined ? undefined : Math.max(0, timeout - (Date.now() - began));
    const limits: Limits = { timeout: left, signal: rest.signal };
    return turn.resultWithin(limits, timeout);
  }

  /** Moves the thread out of the list. */
  async archive(): Promise<void> {
    await this.#host.request("thread/archive", { threadId: this.id });
  }

  /** Moves the thread back into the list. */
  async unarchive(): Promise<void> {
    await this.#host.request("thread/unarchive", { threadId: this.id });
  }

  /** Sets the thread's title. */
  async rename(name: string): Promise<void> {
    await this.#host.request("thread/name/set", { threadId: this.id, name });
  }

  /** The stored thread with its turns. */
  async read(): Promise<ThreadRecord> {
    const result = await this.#host.request("thread/read", { threadId: this.id, includeTurns: true });
    return (result as { thread: ThreadRecord }).thread;
  }

  /**
   * Summarizes the history, so that it takes less of the model's context, in a turn of its own, and waits for its end.
   * Like a turn, it begins once the one before it has ended.
   */
  async compact(): Promise<void> {
    const release = await this.#host.takeThread(this.id, undefined);
    await this.#host.compact(this.id, release);
  }

  /** Removes the last turns. The options are those of `thread/rollback`, such as `restoreFiles`. */
  async rollback(
    numTurns: number,
    options: Omit<ThreadRollbackParams, "threadId" | "numTurns"> = {},
  ): Promise<ThreadRollbackResponse> {
    const params = { ...options, threadId: this.id, numTurns };
    return (await this.#host.request("thread/rollback", params)) as ThreadRollbackResponse;
  }
}
