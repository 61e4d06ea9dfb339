/** A turn in progress, and what remains of it. */

import type { Budget } from "./budget.js";
import { isObject } from "./connection.js";
import {
  AgentdError,
  BudgetExceeded,
  ConnectionLost,
  InvalidOutput,
  TurnAborted,
  type TurnData,
  TurnFailed,
  TurnInterrupted,
  TurnProblem,
  TurnTimeout,
  withTurn,
} from "./errors.js";
import { type ThreadEvent, type TurnEvent, turnIdOf } from "./events.js";
import { type Input, partsOf } from "./input.js";
import type { ThreadItem, ThreadTokenUsage, TokenCost, TokenUsageBreakdown, Turn as TurnState } from "./protocol.js";
import { type EventQueue, GAP } from "./queue.js";
import { type Finding, reviewOf } from "./review.js";
import { type Schema, outputOf } from "./schema.js";
import type { ThreadState } from "./state.js";
import { type Piece, type TextKind, Transcript } from "./transcript.js";
import { Elapsed, type Limits, checkTimeout, isPlainAbort, within } from "./waiting.js";

/** A turn that has ended. */
export interface Result<T = string> {
  threadId: string;
  turnId: string;
  /** The agent's last message that is no commentary. */
  text: string;
  /** What the agent said on the way, its messages on lines of their own. */
  commentary: string;
  /** The same as it was asked for with `output`; the text without. */
  output: T;
  items: ThreadItem[];
  /** The tokens: `total` of the thread, `last` of the last request to the model. */
  usage: ThreadTokenUsage | undefined;
  /** The tokens of the turn. */
  turnUsage: TokenUsageBreakdown | undefined;
  /** Exact decimal numbers, such as `0.0125`, of the turn and the thread. Null where a price is not known. */
  cost: TokenCost | undefined;
  /** The text of a review. */
  review: string | undefined;
  /** The findings of a review. Undefined of servers that do not list them. */
  findings: Finding[] | undefined;
  turn: TurnState;
}

/** What a turn needs of its agent. */
export interface TurnHost {
  readonly interruptTimeout: number;
  request(method: string, params: unknown): Promise<unknown>;
  unsubscribe(threadId: string, queue: EventQueue): void;
  /** Gets the events that a queue lacks. */
  fill(threadId: string, queue: EventQueue): Promise<void>;
  broken(why: string): AgentdError;
}

/** What is known of a turn when it starts. */
export interface TurnStart {
  id: string;
  queue: EventQueue;
  state: ThreadState;
  budget?: Budget | undefined;
  output?: Schema | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * A turn in progress: an iterable of its events. Iterate or await its result; an event goes to one of them, but for
 * `text` and `commentary`, which can be read at the same time. Leaving an iteration early does not interrupt the turn.
 */
export class Turn<T = string> implements AsyncIterable<TurnEvent> {
  readonly id: string;
  readonly #host: TurnHost;
  readonly #queue: EventQueue;
  /** Holds what callbacks of the turn get. */
  protected readonly state: ThreadState;
  readonly #budget: Budget | undefined;
  readonly #output: Schema | undefined;
  readonly #signal: AbortSignal | undefined;
  readonly #transcript = new Transcript();
  /** Texts that arrived while only those of the other kind were read. */
  readonly #unread: Record<TextKind, string> = { answer: "", commentary: "" };
  /** Turns of other clients that it joined: their items are its own from then on. */
  readonly #joined = new Set<string>();
  readonly #aborted = () => void this.#giveUp();
  #hasBegun = false;
  #ended: TurnState | undefined;
  /** What every later call rejects with: no event arrives any more. */
  #failure: AgentdError | undefined;
  #givingUp: Promise<AgentdError> | undefined;

  /** Made by `Thread.turn`. */
  constructor(
    host: TurnHost,
    readonly threadId: string,
    { id, queue, state, budget, output, signal }: TurnStart,
  ) {
    this.id = id;
    this.#host = host;
    this.#queue = queue;
    this.state = state;
    this.#budget = budget;
    this.#output = output;
    this.#signal = signal;
    this.#signal?.addEventListener("abort", this.#aborted);
    if (this.#signal?.aborted) this.#aborted();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TurnEvent, void, undefined> {
    for (let next = await this.#next(); next?.event; next = await this.#next()) yield next.event;
  }

  /** The agent's answer as it is written; with `commentary` also what it says on the way, in the same order. */
  text({ commentary = false }: { commentary?: boolean } = {}): AsyncGenerator<string, void, undefined> {
    return this.#texts(commentary ? ["commentary", "answer"] : ["answer"]);
  }

  /** What the agent says on the way to its answer, as it is written. */
  commentary(): AsyncGenerator<string, void, undefined> {
    return this.#texts(["commentary"]);
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
      if (isAborted) throw this.#abortedWith(error, failure);
      throw withTurn(new TurnTimeout(`the turn took longer than ${timeout} ms; ${failure.message}`), this.#data());
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

  async *#texts(kinds: readonly TextKind[]): AsyncGenerator<string, void, undefined> {
    const isThere = () => kinds.some((kind) => this.#unread[kind] !== "");
    do {
      for (const kind of kinds) {
        const text = this.#unread[kind];
        this.#unread[kind] = "";
        if (text !== "") yield text;
      }
    } while (isThere() || (await this.#nextText(isThere)) || isThere());
  }

  /** Takes an event, and keeps its texts for those who read them; false at the end. */
  async #nextText(isEnough: () => boolean): Promise<boolean> {
    const next = await this.#next(isEnough);
    for (const [kind, text] of next?.pieces ?? []) this.#unread[kind] += text;
    // Who reads the other kind may wait for events.
    if ((next?.pieces.length ?? 0) > 0) this.#queue.wake();
    return next !== undefined;
  }

  async #drain(): Promise<void> {
    while (await this.#next());
  }

  /** The next event, or undefined at the end; without an event once `isEnough`. */
  async #next(isEnough?: () => boolean): Promise<{ event?: TurnEvent; pieces: Piece[] } | undefined> {
    while (!this.#ended) {
      if (isEnough?.()) return { pieces: [] };
      if (this.#queue.isTiring) {
        await this.#queue.rest();
        continue;
      }
      if (this.#failure) throw this.#thrown(this.#failure);
      const entry = this.#queue.shift();
      if (entry === undefined) await this.#queue.wait();
      else if (entry === GAP) await this.#fill();
      else if (entry instanceof AgentdError) this.#fail(entry);
      else if (this.#concerns(entry)) return { event: entry as TurnEvent, pieces: this.#take(entry as TurnEvent) };
    }
    return undefined;
  }

  async #fill(): Promise<void> {
    try {
      await this.#host.fill(this.threadId, this.#queue);
    } catch (error) {
      this.#fail(error instanceof AgentdError ? error : new ConnectionLost(String(error), { cause: error }));
    }
  }

  #data(): TurnData {
    return this.#transcript.data(this.threadId, this.id);
  }

  #thrown(failure: AgentdError): unknown {
    const signal = this.#signal;
    if (failure instanceof TurnInterrupted && signal?.aborted) return this.#abortedWith(signal.reason, failure);
    if (failure instanceof TurnProblem) return withTurn(failure, this.#data());
    // Each turn has an error of its own, with what it has done.
    if (failure instanceof ConnectionLost) {
      return withTurn(new ConnectionLost(failure.message, { cause: failure.cause ?? failure }), this.#data());
    }
    return failure;
  }

  /** What an abort rejects with: an error with what the turn has done, or the caller's own reason. */
  #abortedWith(reason: unknown, failure: AgentdError): unknown {
    if (!isPlainAbort(reason)) return reason;
    return withTurn(new TurnAborted(`the turn was aborted: ${failure.message}`, { cause: reason }), this.#data());
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

  #take(event: TurnEvent): Piece[] {
    if (event.method === "item/completed") this.#member(event, "item", "type");
    if (event.method === "thread/tokenUsage/updated") this.#member(event, "tokenUsage", "total");
    const pieces = this.#transcript.take(event);
    if (event.method === "turn/completed") {
      this.#end(this.#member(event, "turn", "status") as unknown as TurnState);
    } else if (event.method === "turn/replaced" && event.params.turn.status !== "inProgress") {
      this.#end(event.params.turn);
    }
    return pieces;
  }

  /** Whether an event is one of this turn, or of a turn that it joined, after it did. */
  #concerns(event: ThreadEvent): boolean {
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
    throw this.#thrown(failure);
  }

  async #finish(): Promise<Result<T>> {
    const turn = this.#ended as TurnState;
    const data = this.#data();
    const excess = turn.status === "completed" ? this.#budget?.verdict : this.#budget?.why;
    if (excess !== undefined) throw withTurn(new BudgetExceeded(excess), data);
    if (turn.status === "failed") throw withTurn(new TurnFailed(turn.error), data);
    if (turn.status === "interrupted") throw this.#thrown(new TurnInterrupted("the turn was interrupted"));
    const output = (await this.#parsed(data)) as T;
    return { ...data, ...reviewOf(data.items), output, turn };
  }

  async #parsed(data: TurnData): Promise<unknown> {
    if (this.#output === undefined) return data.text;
    try {
      return await outputOf(this.#output, JSON.parse(data.text));
    } catch (error) {
      throw withTurn(new InvalidOutput((error as Error).message, data.text, { cause: error }), data);
    }
  }
}
