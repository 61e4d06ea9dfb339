/** A conversation with the agent. */

import { Budget } from "./budget.js";
import { check, checkGiven } from "./checks.js";
import { InvalidRequest, ThreadBusy, TurnTimeout } from "./errors.js";
import type { ThreadEvent } from "./events.js";
import { follow } from "./follow.js";
import { type Input, partsOf } from "./input.js";
import type {
  QueuedSubmission,
  ReviewStartParams,
  ReviewTarget,
  Thread as ThreadRecord,
  ThreadForkParams,
  ThreadGoal,
  ThreadGoalSetParams,
  ThreadQueueListResponse,
  ThreadRollbackParams,
  ThreadRollbackResponse,
  ThreadSearchOccurrence,
  ThreadSearchOccurrencesResponse,
  ThreadTokenUsage,
  Turn as TurnState,
  TurnStartParams,
} from "./protocol.js";
import type { EventQueue } from "./queue.js";
import { type Schema, type ValueOf, outputSchemaOf } from "./schema.js";
import type { ThreadState } from "./state.js";
import { type Result, Turn, type TurnHost } from "./turn.js";
import { Elapsed, type Limits, checkTimeout, within } from "./waiting.js";

/** What a new turn does while one is in progress in its thread. */
export type OnBusy =
  /** Waits for the turns of this agent, and joins one of another client. */
  | "wait"
  /** Adds the message to the turn in progress, whoever started it, and follows that. */
  | "join"
  /** Rejects with `ThreadBusy`. */
  | "error";

interface Limited {
  /** Interrupts the turn when it is aborted; what waits for the turn rejects with an `AbortError` or its reason. */
  signal?: AbortSignal | undefined;
  /** The most that the turn may cost, in the currency of the server (US dollars). */
  maxCost?: number | string | undefined;
  /** The application's own value for callbacks of this turn, in place of the thread's. */
  context?: unknown;
  /** What happens while a turn is in progress; `wait`. */
  onBusy?: OnBusy | undefined;
}

/** The parameters of `turn/start`, and what this package adds. */
export type TurnOptions<S extends Schema | undefined = undefined> = Partial<
  Omit<TurnStartParams, "threadId" | "input">
> &
  Limited & {
    /** What the answer shall be: a JSON Schema, or a schema of a library such as zod. */
    output?: S;
  };

export type RunOptions<S extends Schema | undefined = undefined> = TurnOptions<S> & {
  /** Milliseconds after which the turn is interrupted. */
  timeout?: number | undefined;
};

/** The parameters of `review/start`, and what this package adds. */
export type ReviewOptions = Partial<Omit<ReviewStartParams, "threadId" | "target">> & Omit<Limited, "onBusy">;

/** What an answer is: as `output` has it, or the text. */
export type OutputOf<S> = S extends Schema ? ValueOf<S> : string;

/** A request that starts a turn. */
export interface Start {
  method: "turn/start" | "review/start" | "thread/queue/start";
  params: { threadId: string };
  state: ThreadState;
  release: () => void;
  signal: AbortSignal | undefined;
  budget: Budget | undefined;
  /** The application's value for callbacks, if the turn has one of its own. */
  context: { value: unknown } | undefined;
}

/** A turn that has started, in its thread. */
export interface Started {
  id: string;
  threadId: string;
  queue: EventQueue;
  state: ThreadState;
}

/** What a thread needs of its agent. */
export interface ThreadHost extends TurnHost {
  /** A queue of the events of a thread: from now on, or from a position on, from where they have to be asked for. */
  events(threadId: string, cursor: string | undefined): EventQueue;
  /** Subscribes to a thread again, if a lost connection was. */
  attach(threadId: string): Promise<void>;
  running(threadId: string): Promise<{ turn: TurnState; queue: EventQueue } | undefined>;
  /** Waits until nothing runs in a thread, and returns what lets the next begin. */
  takeThread(state: ThreadState, signal: AbortSignal | undefined): Promise<() => void>;
  startTurn(start: Start): Promise<Started>;
  /** Keeps a turn that is in progress within a budget. */
  watch(threadId: string, turnId: string, budget: Budget): void;
  compact(threadId: string, release: () => void): Promise<void>;
  fork(threadId: string, params: Omit<ThreadForkParams, "threadId">): Promise<Thread>;
}

export class Thread {
  readonly #host: ThreadHost;
  readonly #state: ThreadState;

  /** Made by `Agent.thread`. */
  constructor(host: ThreadHost, state: ThreadState) {
    this.#host = host;
    this.#state = state;
  }

  get id(): string {
    return this.#state.id;
  }

  /** The position after the newest event that an iteration of `events` handed out: from there it can go on. */
  get cursor(): string | undefined {
    return this.#state.cursor;
  }

  /**
   * Every event of the thread, whoever started the turn: from now on, or after the event that has `cursor`. What can no
   * longer be had is replaced by one event `thread/replaced`. A lost connection to a server that still runs is made
   * again, with no event missing or doubled. Ends by leaving the loop, or by the signal.
   */
  events(cursor?: string, { signal }: { signal?: AbortSignal | undefined } = {}): AsyncGenerator<ThreadEvent, void, undefined> {
    if (cursor !== undefined && typeof cursor !== "string") throw new TypeError("`cursor` is not a text");
    return follow(this.#host, this.#state, this.#host.events(this.id, cursor), signal);
  }

  /** The turn in progress, whoever started it, with what it has done so far; undefined if there is none. */
  async running(): Promise<Turn | undefined> {
    return this.#join({});
  }

  /**
   * Starts a turn, once the turn or compaction that this agent started before it in the thread has ended, also when
   * nobody reads that one; `Turn.steer` adds to a turn that runs, and so does `onBusy: "join"`. A function of the agent
   * that the running turn waits for, such as a tool, must not wait for a turn of the same thread. A turn that another
   * client runs in the thread is not waited for: the new turn joins it, and has its events from then on.
   */
  async turn<S extends Schema | undefined = undefined>(
    message: Input,
    options: TurnOptions<S> = {},
  ): Promise<Turn<OutputOf<S>>> {
    check(options);
    const { output, signal, maxCost, onBusy = "wait", ...rest } = options;
    const input = partsOf(message);
    const params = { ...rest };
    delete params.context;
    if (output !== undefined) params.outputSchema ??= outputSchemaOf(output);
    const budget = maxCost === undefined ? undefined : new Budget(maxCost);
    if (!["wait", "join", "error"].includes(onBusy)) throw new TypeError('`onBusy` is not "wait", "join" or "error"');
    if (onBusy === "error") await this.#checkIdle();
    if (onBusy === "join") {
      const joined = await this.#join<OutputOf<S>>({ output, signal, budget }, message);
      if (joined) return joined;
    }
    const start = { ...params, threadId: this.id, input };
    const context = "context" in options ? { value: options.context } : undefined;
    return this.#start<OutputOf<S>>("turn/start", start, { output, signal, budget, context });
  }

  /** Runs a turn to its end. It is interrupted after `timeout` milliseconds, and when the signal is aborted. */
  async run<S extends Schema | undefined = undefined>(
    message: Input,
    options: RunOptions<S> = {},
  ): Promise<Result<OutputOf<S>>> {
    check(options);
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

  /**
   * Reviews a change, in a turn of its own; its result has `review`, and `findings` where the server lists them. With
   * `delivery: "detached"` it runs in a copy of the thread.
   */
  async review(target: ReviewTarget, options: ReviewOptions = {}): Promise<Turn> {
    checkGiven("target", target);
    check(options);
    const { signal, maxCost, delivery } = options;
    const budget = maxCost === undefined ? undefined : new Budget(maxCost);
    const params = { threadId: this.id, target, ...(delivery !== undefined && { delivery }) };
    const context = "context" in options ? { value: options.context } : undefined;
    return this.#start<string>("review/start", params, { signal, budget, context });
  }

  /** Adds a message to the turn in progress, whoever started it; false if there is none. */
  async steer(message: Input): Promise<boolean> {
    const input = partsOf(message);
    await this.#host.attach(this.id);
    const [expectedTurnId] = this.#state.running;
    if (expectedTurnId === undefined) return false;
    await this.#host.request("turn/steer", { threadId: this.id, expectedTurnId, input });
    return true;
  }

  /** Interrupts the turn in progress, whoever started it; false if there is none. */
  async interrupt(): Promise<boolean> {
    await this.#host.attach(this.id);
    const [turnId] = this.#state.running;
    if (turnId === undefined) return false;
    await this.#host.request("turn/interrupt", { threadId: this.id, turnId });
    return true;
  }

  /**
   * The tokens that the thread has used, and their cost, as they were reported last; undefined until a turn has
   * reported some to this agent.
   */
  usage(): ThreadTokenUsage | undefined {
    return this.#state.usage;
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
    if (typeof name !== "string") throw new TypeError("`name` is not a text");
    await this.#host.request("thread/name/set", { threadId: this.id, name });
  }

  /** The stored thread with its turns. */
  async read(): Promise<ThreadRecord> {
    const result = await this.#host.request("thread/read", { threadId: this.id, includeTurns: true });
    return (result as { thread: ThreadRecord }).thread;
  }

  /** Copies the thread. */
  fork(params: Omit<ThreadForkParams, "threadId"> = {}): Promise<Thread> {
    return this.#host.fork(this.id, params);
  }

  /**
   * Summarizes the history, so that it takes less of the model's context, in a turn of its own, and waits for its end.
   * Like a turn, it begins once the one before it has ended.
   */
  async compact(): Promise<void> {
    const release = await this.#host.takeThread(this.#state, undefined);
    await this.#host.compact(this.id, release);
  }

  /** Removes the last turns. The options are those of `thread/rollback`, such as `restoreFiles`. */
  async rollback(
    numTurns: number,
    options: Omit<ThreadRollbackParams, "threadId" | "numTurns"> = {},
  ): Promise<ThreadRollbackResponse> {
    checkGiven("numTurns", numTurns);
    check(options);
    const params = { ...options, threadId: this.id, numTurns };
    return (await this.#host.request("thread/rollback", params)) as ThreadRollbackResponse;
  }

  /**
   * Removes the last turns and takes back what they changed in files, where the server records that (`features.undo`).
   * With `dryRun` the response has what would be done.
   */
  undo(
    numTurns = 1,
    options: Omit<ThreadRollbackParams, "threadId" | "numTurns" | "restoreFiles"> = {},
  ): Promise<ThreadRollbackResponse> {
    return this.rollback(numTurns, { ...options, restoreFiles: true });
  }

  /** The goal of the thread. */
  async goal(): Promise<ThreadGoal | undefined> {
    const result = await this.#host.request("thread/goal/get", { threadId: this.id });
    return (result as { goal?: ThreadGoal | null }).goal ?? undefined;
  }

  /** Sets a goal, or changes it: turns follow by themselves until it is reached. Needs `features.goals`. */
  async setGoal(goal: Omit<ThreadGoalSetParams, "threadId">): Promise<ThreadGoal> {
    check(goal, "the members of the goal");
    const result = await this.#host.request("thread/goal/set", { ...goal, threadId: this.id });
    return (result as { goal: ThreadGoal }).goal;
  }

  /** Removes the goal. */
  async clearGoal(): Promise<void> {
    await this.#host.request("thread/goal/clear", { threadId: this.id });
  }

  /**
   * Appends a message to the queue of the thread: it gets a turn of its own once those before it have ended, also when
   * this program has. `clientId` is the id of the turn's user message; the same id and message again, as after a lost
   * connection, adds nothing while the first one waits.
   */
  async queue(message: Input, { clientId }: { clientId?: string | undefined } = {}): Promise<QueuedSubmission> {
    if (clientId !== undefined && typeof clientId !== "string") throw new TypeError("`clientId` is not a text");
    const params = { threadId: this.id, input: partsOf(message), clientUserMessageId: clientId ?? randomId() };
    const result = await this.#host.request("thread/queue/add", params);
    return (result as { queuedSubmission: QueuedSubmission }).queuedSubmission;
  }

  /** The queue: `data` has its messages in order, and `pause` why they wait while no turn runs. */
  async queued(): Promise<ThreadQueueListResponse> {
    return (await this.#host.request("thread/queue/list", { threadId: this.id })) as ThreadQueueListResponse;
  }

  /** Replaces a queued message, which keeps its place. */
  async updateQueued(queuedId: string, message: Input): Promise<QueuedSubmission> {
    checkGiven("queuedId", queuedId);
    const params = { threadId: this.id, queuedSubmissionId: queuedId, input: partsOf(message) };
    const result = await this.#host.request("thread/queue/update", params);
    return (result as { queuedSubmission: QueuedSubmission }).queuedSubmission;
  }

  /** Deletes a queued message; false when the queue has none of this id, because its turn has started. */
  async deleteQueued(queuedId: string): Promise<boolean> {
    checkGiven("queuedId", queuedId);
    const params = { threadId: this.id, queuedSubmissionId: queuedId };
    return ((await this.#host.request("thread/queue/delete", params)) as { deleted: boolean }).deleted;
  }

  /** Sets the order of the queue: the id of each queued message once. */
  async reorderQueue(queuedIds: readonly string[]): Promise<void> {
    if (!Array.isArray(queuedIds)) throw new TypeError("`queuedIds` is not a list of ids");
    await this.#host.request("thread/queue/reorder", { threadId: this.id, queuedSubmissionIds: queuedIds });
  }

  /**
   * Starts the turn of a queued message, by default of the first one, and ends a pause of the queue. Like a turn, it
   * begins once the one before it has ended.
   */
  async startQueue(queuedId?: string): Promise<Turn> {
    if (queuedId !== undefined && typeof queuedId !== "string") throw new TypeError("`queuedId` is not a text");
    const params = { threadId: this.id, ...(queuedId !== undefined && { queuedSubmissionId: queuedId }) };
    return this.#start<string>("thread/queue/start", params, { signal: undefined, budget: undefined, context: undefined });
  }

  /** The messages of the thread that contain a text, the newest first, read page after page; `limit` is the size of a page. */
  async *search(text: string, { limit }: { limit?: number | undefined } = {}): AsyncGenerator<ThreadSearchOccurrence, void, undefined> {
    checkGiven("text", text);
    let cursor: string | null = null;
    do {
      const params = { threadId: this.id, searchTerm: text, cursor, ...(limit !== undefined && { limit }) };
      const page = (await this.#host.request("thread/searchOccurrences", params)) as ThreadSearchOccurrencesResponse;
      yield* page.data;
      cursor = page.nextCursor ?? null;
    } while (cursor !== null);
  }

  async #start<T>(
    method: Start["method"],
    params: { threadId: string },
    more: {
      output?: Schema | undefined;
      signal: AbortSignal | undefined;
      budget: Budget | undefined;
      context: { value: unknown } | undefined;
    },
  ): Promise<Turn<T>> {
    const { output, signal, budget, context } = more;
    const state = this.#state;
    state.starting += 1;
    try {
      const release = await this.#host.takeThread(state, signal);
      const started = await this.#host.startTurn({ method, params, state, release, signal, budget, context });
      return new Turn<T>(this.#host, started.threadId, { ...started, output, signal, budget });
    } finally {
      state.starting -= 1;
    }
  }

  async #checkIdle(): Promise<void> {
    if (this.#state.starting > 0) throw new ThreadBusy(this.id);
    await this.#host.attach(this.id);
    if (!this.#state.isBusy) return;
    // What is known of turns may be from before a loss of the connection: before this answer come the events since.
    await this.#host.request("thread/read", { threadId: this.id });
    if (this.#state.isBusy) throw new ThreadBusy(this.id);
  }

  /** Follows the turn in progress, with a message added to it; undefined when there is none, or it ends meanwhile. */
  async #join<T = string>(
    more: { output?: Schema | undefined; signal?: AbortSignal | undefined; budget?: Budget | undefined },
    message?: Input,
  ): Promise<Turn<T> | undefined> {
    const found = await this.#host.running(this.id);
    if (found === undefined) return undefined;
    const { turn: { id }, queue } = found;
    if (more.budget) this.#host.watch(this.id, id, more.budget);
    const turn = new Turn<T>(this.#host, this.id, { id, queue, state: this.#state, ...more });
    if (message === undefined) return turn;
    try {
      await turn.steer(message);
      return turn;
    } catch (error) {
      this.#host.unsubscribe(this.id, queue);
      if (!(error instanceof InvalidRequest)) throw error;
      // A review or a compaction takes no message.
      if (error.data !== undefined && error.data !== null) throw new ThreadBusy(this.id);
      return undefined;
    }
  }
}

/** Also for pages of an insecure context, which lack `randomUUID`. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
