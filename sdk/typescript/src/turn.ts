/** A turn in progress, and what remains of it. */

import { isObject } from "./connection.js";
import { AgentdError, ConnectionLost, InvalidOutput, TurnFailed, TurnInterrupted, TurnTimeout } from "./errors.js";
import { type TurnEvent, turnIdOf } from "./events.js";
import { type Input, partsOf } from "./input.js";
import type { ThreadItem, ThreadTokenUsage, Turn as TurnState } from "./protocol.js";
import type { EventQueue } from "./queue.js";
import { type Schema, valueOf } from "./schema.js";
import { Elapsed, type Limits, checkTimeout, within } from "./waiting.js";

/** A turn that has ended. */
export interface Result<T = string> {
  /** The agent's last message. */
  text: string;
  /** The same as it was asked for with `output`; the text without. */
  output: T;
  items: ThreadItem[];
  usage: ThreadTokenUsage | undefined;
  turn: TurnState;
}

/** What a turn needs of its agent. */
export interface TurnHost {
  readonly interruptTimeout: number;
  request(method: string, params: unknown): Promise<unknown>;
  unsubscribe(threadId: string, queue: EventQueue): void;
  broken(why: string): AgentdError;
}

/**
 * A turn in progress: an iterable of its events. Iterate or await its result; an event goes to one of them.
 * Leaving an iteration early does not interrupt the turn.
 */
export class Turn<T = string> implements AsyncIterable<TurnEvent> {
  readonly #host: TurnHost;
  readonly #queue: EventQueue;
  readonly #output: Schema | undefined;
  readonly #signal: AbortSignal | undefined;
  readonly #items = new Map<string, ThreadItem>();
  /** Turns of other clients that it joined: their items are its own from then on. */
  readonly #joined = new Set<string>();
  readonly #aborted = () => void this.#giveUp();
  #hasBegun = false;
  #usage: ThreadTokenUsage | undefined;
  #ended: TurnState | undefined;
  /** What every later call rejects with: no event arrives any more. */
  #failure: AgentdError | undefined;
  #givingUp: Promise<AgentdError> | undefined;

  /** Made by `Thread.turn`. */
  constructor(
    host: TurnHost,
    readonly threadId: string,
    readonly id: string,
    queue: EventQueue,
    options: { output?: Schema | undefined; signal?: AbortSignal | undefined },
  ) {
    this.#host = host;
    this.#queue = queue;
    queue.turnId = id;
    this.#output = options.output;
    this.#signal = options.signal;
    this.#signal?.addEventListener("abort", this.#aborted);
    if (this.#signal?.aborted) this.#aborted();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TurnEvent, void, undefined> {
    while (!this.#ended) {
      if (this.#failure) throw this.#thrown(this.#failure);
      const event = this.#queue.shift();
      if (event === undefined) await this.#queue.wait();
      else if (event instanceof AgentdError) this.#fail(event);
      else if (this.#takes(event)) yield event;
    }
  }

  /** The agent's messages as they are written. */
  async *text(): AsyncGenerator<string, void, undefined> {
    const written = new Map<string, number>();
    for await (const event of this) {
      for (const [item, text] of textsOf(event, written)) {
        written.set(item, (written.get(item) ?? 0) + text.length);
        yield text;
      }
    }
  }

  /** Awaits the end. Interrupts the turn after `timeout` milliseconds, and when the signal is aborted. */
  async result(limits: Limits = {}): Promise<Result<T>> {
    checkTimeout("timeout", limits.timeout);
    return this.resultWithin(limits, limits.timeout);
  }

  /** @internal `timeout` is what was asked for, of which some is used up. */
  async resultWithin(limits: Limits, timeout: number | undefined): Promise<Result<T>> {
    try {
      await within(this.#drain(), limits);
    } catch (error) {
      const isAborted = limits.signal?.aborted && error === limits.signal.reason;
      if (!isAborted && !(error instanceof Elapsed)) throw error;
      const failure = this.#failure ?? (await this.#giveUp());
      if (isAborted) throw error;
      throw new TurnTimeout(`the turn took longer than ${timeout} ms; ${failure.message}`);
    }
    return this.#finish();
  }

  /** Adds a message to the turn. */
  async steer(message: Input): Promise<void> {
    const input = partsOf(message);
    await this.#host.request("turn/steer", { threadId: this.threadId, expectedTurnId: this.id, input });
  }

  /** Ends the turn. */
  async interrupt(): Promise<void> {
    await this.#host.request("turn/interrupt", { threadId: this.threadId, turnId: this.id });
  }

  async #drain(): Promise<void> {
    for await (const _ of this);
  }

  #thrown(failure: AgentdError): unknown {
    return failure instanceof TurnInterrupted && this.#signal?.aborted ? this.#signal.reason : failure;
  }

  /** Interrupts the turn, and returns what later calls reject with. Takes a bounded time. */
  #giveUp(): Promise<AgentdError> {
    return (this.#givingUp ??= this.#interruptInTime());
  }

  async #interruptInTime(): Promise<AgentdError> {
    if (this.#ended || this.#failure) return this.#failure ?? new TurnInterrupted("the turn has ended");
    let failure = new TurnInterrupted("the turn was interrupted");
    this.#stop();
    try {
      await within(this.interrupt(), { timeout: this.#host.interruptTimeout });
    } catch (error) {
      if (error instanceof ConnectionLost || error instanceof Elapsed) {
        const why = error.message || `no answer within ${this.#host.interruptTimeout} ms`;
        failure = new TurnInterrupted(`the server did not confirm that it interrupted the turn: ${why}`);
      }
      // Otherwise the turn has ended meanwhile.
    }
    this.#fail(failure);
    return failure;
  }

  #fail(error: AgentdError): void {
    this.#failure ??= error;
    this.#stop();
    this.#queue.wake();
  }

  #stop(): void {
    this.#signal?.removeEventListener("abort", this.#aborted);
    this.#host.unsubscribe(this.threadId, this.#queue);
  }

  #takes(event: TurnEvent): boolean {
    if (!this.#concerns(event)) return false;
    if (event.method === "item/completed") {
      const item = this.#member(event, "item", "type") as unknown as ThreadItem;
      this.#items.set(item.id, item);
    } else if (event.method === "thread/tokenUsage/updated") {
      this.#usage = this.#member(event, "tokenUsage", "total") as unknown as ThreadTokenUsage;
    } else if (event.method === "turn/completed") {
      this.#end(this.#member(event, "turn", "status") as unknown as TurnState);
    } else if (event.method === "turn/replaced") {
      for (const item of event.params.turn.items) this.#items.set(item.id, item);
      if (event.params.turn.status !== "inProgress") this.#end(event.params.turn);
    }
    return true;
  }

  /** Whether an event is one of this turn, or of a turn that it joined, after it did. */
  #concerns(event: TurnEvent): boolean {
    const { method } = event;
    const turnId = turnIdOf(event);
    if (turnId === this.id) {
      this.#hasBegun ||= method === "turn/started" || method === "turn/replaced";
      return true;
    }
    if (typeof turnId !== "string" || ["turn/started", "turn/completed", "turn/replaced"].includes(method)) return false;
    // A thread runs one turn: what begins now in another one is the answer to both.
    const begins = method === "item/started" || method === "item/agentMessage/delta";
    if (this.#hasBegun && begins) this.#joined.add(turnId);
    return this.#joined.has(turnId);
  }

  #end(turn: TurnState): void {
    this.#ended = turn;
    this.#stop();
    this.#queue.wake();
  }

  #member(event: TurnEvent, name: string, needed: string): Record<string, unknown> {
    const value = (event.params as unknown as Record<string, unknown>)[name];
    if (isObject(value) && needed in value) return value;
    const what = `\`${event.method}\` has no \`${name}\` with a \`${needed}\``;
    const failure = this.#host.broken(`the server wrote what is not the protocol: ${what}`);
    this.#fail(failure);
    throw failure;
  }

  async #finish(): Promise<Result<T>> {
    const turn = this.#ended as TurnState;
    if (turn.status === "failed") throw new TurnFailed(turn.error);
    if (turn.status === "interrupted") throw new TurnInterrupted("the turn was interrupted");
    const items = [...this.#items.values()];
    const text = items.findLast((item) => item.type === "agentMessage")?.text ?? "";
    return { text, output: (await parsed(this.#output, text)) as T, items, usage: this.#usage, turn };
  }
}

/** What an event adds to the agent's messages, by the id of the item. */
function textsOf(event: TurnEvent, written: ReadonlyMap<string, number>): [string, string][] {
  if (event.method === "item/agentMessage/delta") return [[event.params.itemId, String(event.params.delta)]];
  // A replay holds a message that was completed meanwhile without its deltas.
  const items = event.method === "item/completed" ? [event.params.item] : [];
  if (event.method === "turn/replaced") items.push(...event.params.turn.items);
  return items
    .filter((item) => item.type === "agentMessage")
    .map((item): [string, string] => [item.id, item.text.slice(written.get(item.id) ?? 0)])
    .filter(([, text]) => text !== "");
}

async function parsed(output: Schema | undefined, text: string): Promise<unknown> {
  if (output === undefined) return text;
  try {
    return await valueOf(output, JSON.parse(text), "the answer");
  } catch (error) {
    throw new InvalidOutput((error as Error).message, text, { cause: error });
  }
}
