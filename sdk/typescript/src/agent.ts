/** A server and the connection to it, on any platform. */

import { Answerer, type Callbacks } from "./callbacks.js";
import type { Budget } from "./budget.js";
import { check, checkGiven } from "./checks.js";
import { type Connection, type Params, type RequestId, isObject } from "./connection.js";
import type { AgentdError } from "./errors.js";
import type { AnyNotification } from "./events.js";
import { Hub } from "./hub.js";
import type { Input } from "./input.js";
import type {
  ClientRequests,
  InitializeCapabilities,
  InitializeResponse,
  Thread as ThreadRecord,
  ThreadForkParams,
  ThreadListParams,
  ThreadListResponse,
  ThreadResumeParams,
  ThreadSearchParams,
  ThreadSearchResponse,
  ThreadSearchResult,
  ThreadStartParams,
} from "./protocol.js";
import { CompactionEnd, TurnEnd, checkCompaction } from "./order.js";
import type { Reader } from "./queue.js";
import type { Schema } from "./schema.js";
import { Session } from "./session.js";
import type { ThreadState } from "./state.js";
import { type OutputOf, type RunOptions, type Start, type Started, Thread, type ThreadHost } from "./thread.js";
import type { Way } from "./transport.js";
import type { Result } from "./turn.js";
import { checkTimeout, within } from "./waiting.js";

export interface CommonOptions extends Callbacks {
  /** Where the server wants one. */
  token?: string | undefined;
  /** The model of new threads. */
  model?: string | undefined;
  /** Uses the model that needs no key and no network, for tests. */
  offline?: boolean | undefined;
  /** The working folder of new threads. */
  cwd?: string | undefined;
  clientName?: string | undefined;
  /** Milliseconds until a server without a complete handshake is given up; 60,000. */
  startTimeout?: number | undefined;
  /** Milliseconds until a lost connection to a socket is given up; 60,000. With 0 it is not made again. */
  reconnectTimeout?: number | undefined;
  /** Milliseconds that a server may take to confirm an interruption; 5,000. */
  interruptTimeout?: number | undefined;
  /** How often a request is sent again that an overloaded server refused, after growing, partly random pauses; 6. */
  overloadRetries?: number | undefined;
  /** What is asked of the server beyond the default: all that is experimental, cursors and costs. */
  capabilities?: InitializeCapabilities | undefined;
}

/** What this package adds to the parameters of a thread. */
interface Contextual {
  /** The application's own value, which callbacks get as `user`. */
  context?: unknown;
}

type ParamsOf<M> = M extends { params: infer P } ? [params: P] : M extends { params?: infer P } ? [params?: P] : never;
type ResultOf<M> = M extends { result: infer R } ? R : never;

/** A server and the connection to it. */
export class Agent {
  readonly #options: CommonOptions;
  readonly #answerer: Answerer;
  readonly #session: Session;
  readonly #hub: Hub;
  readonly #host: ThreadHost;
  readonly #handlers = new Set<(notification: AnyNotification) => void>();

  protected constructor(way: Way, options: CommonOptions) {
    const { startTimeout = 60_000, reconnectTimeout = 60_000, interruptTimeout = 5_000, overloadRetries = 6 } = options;
    checkTimeout("startTimeout", startTimeout);
    checkTimeout("reconnectTimeout", reconnectTimeout);
    checkTimeout("interruptTimeout", interruptTimeout);
    if (!(Number.isInteger(overloadRetries) && overloadRetries >= 0)) {
      throw new RangeError(`\`overloadRetries\` is ${String(overloadRetries)}, not a number of retries`);
    }
    check(options);
    if (options.token !== undefined) checkToken(options.token);
    this.#options = options;
    this.#answerer = new Answerer(options, (threadId, turnId) => this.#hub.subAgents.userOf(threadId, turnId));
    const clientName = options.clientName ?? "agentd-embed-typescript";
    const capabilities = capabilitiesOf(options.capabilities);
    this.#session = new Session(way, { clientName, startTimeout, reconnectTimeout, overloadRetries, capabilities }, {
      notified: (method, params, cursor, size) => this.#notified(method, params, cursor, size),
      asked: (connection: Connection, id: RequestId, method: string, params: Params) =>
        this.#answerer.asked(connection, id, method, params),
      interrupted: () => this.#hub.interrupted(),
      lost: (error) => this.#lost(error),
      awaited: () => this.#hub.readers.threads(),
      replaced: (threadId, result) => this.#hub.replaced(threadId, result),
      open: (threadId, requestIds) => this.#answerer.open(threadId, requestIds),
      gone: (threadId, error) => this.#hub.readers.fail(error, threadId),
    });
    this.#hub = new Hub(this.#session);
    const hub = this.#hub;
    this.#host = {
      interruptTimeout,
      request: (method, params) => this.#session.request(method, params),
      broken: (why) => this.#session.broken(why),
      attach: (threadId) => this.#session.subscribe(threadId),
      events: (threadId, cursor) => hub.events(threadId, cursor),
      unsubscribe: (threadId, queue) => hub.unsubscribe(threadId, queue),
      fill: (threadId, queue) => hub.fill(threadId, queue),
      running: (threadId) => hub.running(threadId),
      takeThread: ({ id }, signal) => hub.orders.take(id, signal),
      startTurn: (start) => this.#startTurn(start),
      watch: (threadId, turnId, budget) => this.#watch(threadId, turnId, budget, () => undefined),
      compact: (threadId, release) => this.#compact(threadId, release),
      fork: (threadId, params) => this.fork(threadId, params),
    };
  }

  /** @internal Connects, and completes the handshake. */
  protected connect(): Promise<void> {
    return this.#session.start();
  }

  /** What the server said about itself. */
  get server(): InitializeResponse {
    return this.#session.server as InitializeResponse;
  }

  /** Ends the connection, and a server of its own. */
  close(): Promise<void> {
    return this.#session.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Sends a request of the protocol. */
  request<M extends keyof ClientRequests>(
    method: M,
    ...params: ParamsOf<ClientRequests[M]>
  ): Promise<ResultOf<ClientRequests[M]>> {
    return this.requestUntyped(method, params[0]) as Promise<ResultOf<ClientRequests[M]>>;
  }

  /** Sends any request, also one that the types of this package do not have. */
  requestUntyped(method: string, params?: unknown): Promise<unknown> {
    return this.#session.request(method, params ?? {});
  }

  /**
   * Calls the handler with every notification of the server, also those of no thread, before anything else looks at
   * them. Returns what removes it.
   */
  onNotification(handler: (notification: AnyNotification) => void): () => void {
    if (typeof handler !== "function") throw new TypeError("`handler` is not a function");
    // Each call has a registration of its own.
    const own = (notification: AnyNotification) => handler(notification);
    this.#handlers.add(own);
    return () => void this.#handlers.delete(own);
  }

  /** Starts a thread. `context` is the application's own value for callbacks. */
  async thread(params: ThreadStartParams & Contextual = {}): Promise<Thread> {
    const tools = this.#answerer.tools.map((tool) => tool.spec());
    return this.#open("thread/start", { ...(tools.length > 0 && { dynamicTools: tools }), ...params });
  }

  /** Loads a stored thread. */
  async resume(threadId: string, params: Omit<ThreadResumeParams, "threadId"> & Contextual = {}): Promise<Thread> {
    checkGiven("threadId", threadId);
    return this.#open("thread/resume", { threadId, ...params });
  }

  /** Copies a stored thread. */
  async fork(threadId: string, params: Omit<ThreadForkParams, "threadId"> & Contextual = {}): Promise<Thread> {
    checkGiven("threadId", threadId);
    return this.#open("thread/fork", { threadId, ...params });
  }

  /** The stored threads, page after page; `limit` is the size of a page. */
  async *list(params: Omit<ThreadListParams, "cursor"> = {}): AsyncGenerator<ThreadRecord, void, undefined> {
    check(params);
    let cursor: string | null = null;
    do {
      const page: ThreadListResponse = await this.request("thread/list", { ...params, cursor });
      if (!Array.isArray(page?.data)) {
        throw this.#session.broken("the server wrote what is not the protocol: `thread/list` has no `data`");
      }
      yield* page.data;
      cursor = page.nextCursor ?? null;
    } while (cursor !== null);
  }

  /**
   * The stored threads in which all words of the text were said in one turn, page after page; each has its newest turn
   * that matches, and a snippet of it. `limit` is the size of a page.
   */
  async *search(
    text: string,
    params: Omit<ThreadSearchParams, "searchTerm" | "cursor"> = {},
  ): AsyncGenerator<ThreadSearchResult, void, undefined> {
    checkGiven("text", text);
    check(params);
    let cursor: string | null = null;
    do {
      const page: ThreadSearchResponse = await this.request("thread/search", { ...params, searchTerm: text, cursor });
      if (!Array.isArray(page?.data)) {
        throw this.#session.broken("the server wrote what is not the protocol: `thread/search` has no `data`");
      }
      yield* page.data;
      cursor = page.nextCursor ?? null;
    } while (cursor !== null);
  }

  /** Moves a thread back into the list. */
  async unarchive(threadId: string): Promise<void> {
    checkGiven("threadId", threadId);
    await this.request("thread/unarchive", { threadId });
  }

  /** Runs one turn in a new thread. */
  async run<S extends Schema | undefined = undefined>(
    message: Input,
    options: RunOptions<S> & { thread?: ThreadStartParams & Contextual } = {},
  ): Promise<Result<OutputOf<S>>> {
    const { thread: params, ...rest } = options;
    checkTimeout("timeout", rest.timeout);
    const thread = await this.thread(params);
    return thread.run<S>(message, rest as unknown as RunOptions<S>);
  }

  async #open(method: string, { context, ...params }: Contextual & { threadId?: string }): Promise<Thread> {
    check(params);
    const { model, offline, cwd } = this.#options;
    const defaults = { model: model ?? (offline ? "demo" : undefined), modelProvider: offline ? "offline" : undefined, cwd };
    let state: ThreadState | undefined;
    const id = await this.#session.open(method, { ...defaults, ...params }, (threadId, turns) => {
      state = this.#hub.states.of(threadId);
      if (context !== undefined) state.context = context;
      state.replaced(turns);
      state.cursor ??= this.#session.cursorOf(threadId);
      this.#hub.subAgents.opened(turns);
    });
    state ??= this.#hub.states.of(id);
    return new Thread(this.#host, state);
  }

  async #startTurn({ method, params, state, release, signal, budget, context }: Start): Promise<Started> {
    const { threadId } = params;
    let started: Started | undefined;
    const end = new TurnEnd((usage) => {
      if (budget?.isExceeded(usage) && end.turnId !== undefined) this.#abandon(threadId, end.turnId);
    });
    const taken = (result: unknown) => {
      const id = this.#session.idOf("turn", method, result);
      end.turnId = id;
      const copy = (result as { reviewThreadId?: unknown }).reviewThreadId;
      const place = typeof copy === "string" ? copy : threadId;
      const own = this.#hub.states.of(place);
      own.running.add(id);
      if (context) own.contexts.set(id, context.value);
      // A review in a copy of the thread is not in the way of others.
      if (place !== threadId) {
        end.elsewhere();
        this.#watch(place, id, budget, () => own.contexts.delete(id));
      }
      // Nobody waits for it any more.
      if (signal?.aborted) return this.#abandon(place, id);
      started = { id, threadId: place, queue: this.#hub.subscribe(place, "turn"), state: own };
      started.queue.turnId = id;
    };
    const start = async () => {
      await this.#session.subscribe(threadId, signal);
      signal?.throwIfAborted();
      await this.#session.request(method, params, taken);
    };
    // It goes on when the signal is aborted: until its end the turn is in the way of others.
    const starting = start();
    const over = () => {
      if (end.turnId !== undefined) state.contexts.delete(end.turnId);
      release();
    };
    this.#occupy(threadId, end, starting.then(() => end.ended), over);
    await within(starting, { signal });
    if (started === undefined) throw signal?.reason;
    return started;
  }

  /** Interrupts a turn that costs too much, whoever reads its events. Calls `over` when it has ended. */
  #watch(threadId: string, turnId: string, budget: Budget | undefined, over: () => void): void {
    const end = new TurnEnd((usage) => {
      if (budget?.isExceeded(usage)) this.#abandon(threadId, turnId);
    });
    end.turnId = turnId;
    this.#occupy(threadId, end, end.ended, over);
  }

  async #compact(threadId: string, release: () => void): Promise<void> {
    const end = new CompactionEnd();
    const compact = async () => {
      await this.#session.subscribe(threadId);
      await this.#session.request("thread/compact/start", { threadId });
      return end.ended;
    };
    const compacting = compact();
    this.#occupy(threadId, end, compacting, release);
    const turn = await compacting;
    if (turn.status === undefined) {
      throw this.#session.broken("the server wrote what is not the protocol: `turn/completed` has no `turn` with a `status`");
    }
    checkCompaction(turn);
  }

  /** Has a thread for itself until the work is over. */
  #occupy(threadId: string, end: Reader, work: Promise<unknown>, release: () => void): void {
    const vacate = this.#hub.readers.occupy(threadId, end);
    const over = () => {
      vacate();
      release();
    };
    work.then(over, over);
  }

  #abandon(threadId: string, turnId: string): void {
    // Whoever started it was told that it is over; there is nobody to tell of a failure.
    this.#session.request("turn/interrupt", { threadId, turnId }).catch(() => undefined);
  }

  #notified(method: string, params: Params, cursor: string | undefined, size: number): boolean {
    for (const handler of this.#handlers) this.#notify(handler, method, params, cursor);
    const isNew = this.#hub.notified(method, params, cursor, size);
    if (method === "serverRequest/resolved") this.#answerer.resolved(params["requestId"]);
    if (method === "turn/completed" && isNew && isObject(params["turn"])) this.#answerer.turnEnded(params["turn"]["id"]);
    return isNew;
  }

  #notify(
    handler: (notification: AnyNotification) => void,
    method: string,
    params: Params,
    cursor: string | undefined,
  ): void {
    try {
      handler({ method, params, ...(cursor !== undefined && { cursor }) } as unknown as AnyNotification);
    } catch (error) {
      const threadId = typeof params["threadId"] === "string" ? params["threadId"] : "";
      const where = { threadId, turnId: undefined, callId: undefined, user: undefined, signal: new AbortController().signal };
      this.#answerer.failed(error, { ...where, callback: "onNotification", tool: undefined });
    }
  }

  #lost(error: AgentdError): void {
    this.#answerer.lost(error);
    this.#hub.readers.fail(error);
    this.#hub.flow.stop();
  }
}

/** Notifications without which turns would not end, or callbacks not be withdrawn. */
const NEEDED = ["item/completed", "item/started", "serverRequest/resolved", "turn/completed", "turn/started"];

function capabilitiesOf(given: InitializeCapabilities = {}): InitializeCapabilities {
  const needed = given.optOutNotificationMethods?.find((it) => NEEDED.includes(it));
  if (needed !== undefined) {
    throw new TypeError(`\`capabilities.optOutNotificationMethods\` has \`${needed}\`, which this package needs`);
  }
  // The others are experimental.
  const isExperimental = given.experimentalApi ?? true;
  return { experimentalApi: isExperimental, eventCursor: isExperimental, tokenCost: isExperimental, ...given };
}

/** A header holds visible ASCII only; a line break in it would begin another header. */
function checkToken(token: string): void {
  const at = token.search(/[^!-~]/);
  if (at < 0) return;
  const hint = /^[!-~]*$/.test(token.trim())
    ? "remove the white space around it, such as the line break at the end of its file"
    : "a token is of visible ASCII characters";
  throw new TypeError(
    `the token cannot be sent in an HTTP header: its character ${at + 1} is none that may be in one; ${hint}`,
  );
}
