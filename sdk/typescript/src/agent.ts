/** A server and the connection to it, on any platform. */

import { Answerer, type Callbacks } from "./callbacks.js";
import { type Connection, type Params, type RequestId, isObject } from "./connection.js";
import { ConnectionLost } from "./errors.js";
import type { TurnEvent } from "./events.js";
import type { Input } from "./input.js";
import type {
  ClientRequests,
  InitializeResponse,
  Thread as ThreadRecord,
  ThreadForkParams,
  ThreadListParams,
  ThreadListResponse,
  ThreadResumeParams,
  ThreadStartParams,
  Turn as TurnState,
} from "./protocol.js";
import { CompactionEnd, Orders, type Reader, TurnEnd, checkCompaction } from "./order.js";
import { EventQueues } from "./queue.js";
import type { Schema } from "./schema.js";
import { Session } from "./session.js";
import { type OutputOf, type RunOptions, Thread, type ThreadHost } from "./thread.js";
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
}

type ParamsOf<M> = M extends { params: infer P } ? [params: P] : M extends { params?: infer P } ? [params?: P] : never;
type ResultOf<M> = M extends { result: infer R } ? R : never;

/** A server and the connection to it. */
export class Agent {
  readonly #options: CommonOptions;
  readonly #queues = new EventQueues();
  readonly #orders = new Orders();
  readonly #answerer: Answerer;
  readonly #session: Session;
  readonly #host: ThreadHost;

  protected constructor(way: Way, options: CommonOptions) {
    const { startTimeout = 60_000, reconnectTimeout = 60_000, interruptTimeout = 5_000 } = options;
    checkTimeout("startTimeout", startTimeout);
    checkTimeout("reconnectTimeout", reconnectTimeout);
    checkTimeout("interruptTimeout", interruptTimeout);
    if (options.token !== undefined) checkToken(options.token);
    this.#options = options;
    this.#answerer = new Answerer(options);
    const clientName = options.clientName ?? "agentd-embed-typescript";
    this.#session = new Session(way, { clientName, startTimeout, reconnectTimeout }, {
      notified: (method, params) => this.#notified(method, params),
      asked: (connection: Connection, id: RequestId, method: string, params: Params) =>
        this.#answerer.asked(connection, id, method, params),
      lost: (error) => this.#queues.fail(error),
      awaited: () => this.#queues.threads(),
      replaced: (threadId, thread) => this.#replaced(threadId, thread),
      gone: (threadId, error) => this.#queues.fail(error, threadId),
    });
    this.#host = {
      interruptTimeout,
      request: (method, params) => this.#session.request(method, params),
      broken: (why) => this.#session.broken(why),
      subscribe: (threadId) => this.#queues.subscribe(threadId),
      unsubscribe: (threadId, queue) => this.#queues.unsubscribe(threadId, queue),
      takeThread: (threadId, signal) => this.#orders.take(threadId, signal),
      startTurn: (params, release, signal) => this.#startTurn(params, release, signal),
      compact: (threadId, release) => this.#compact(threadId, release),
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

  /** Sends any request of the protocol. Those that are not in its types can be sent, too. */
  request<M extends keyof ClientRequests>(
    method: M,
    ...params: ParamsOf<ClientRequests[M]>
  ): Promise<ResultOf<ClientRequests[M]>>;
  request(method: string, params?: unknown): Promise<unknown>;
  request(method: string, params?: unknown): Promise<unknown> {
    return this.#session.request(method, params ?? {});
  }

  /** Starts a thread. */
  thread(params: ThreadStartParams = {}): Promise<Thread> {
    const tools = this.#answerer.tools.map((tool) => tool.spec());
    return this.#open("thread/start", { ...(tools.length > 0 && { dynamicTools: tools }), ...params });
  }

  /** Loads a stored thread. */
  resume(threadId: string, params: Omit<ThreadResumeParams, "threadId"> = {}): Promise<Thread> {
    return this.#open("thread/resume", { threadId, ...params });
  }

  /** Copies a stored thread. */
  fork(threadId: string, params: Omit<ThreadForkParams, "threadId"> = {}): Promise<Thread> {
    return this.#open("thread/fork", { threadId, ...params });
  }

  /** The stored threads, page after page; `limit` is the size of a page. */
  async *list(params: Omit<ThreadListParams, "cursor"> = {}): AsyncGenerator<ThreadRecord, void, undefined> {
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

  /** Moves a thread back into the list. */
  async unarchive(threadId: string): Promise<void> {
    await this.request("thread/unarchive", { threadId });
  }

  /** Runs one turn in a new thread. */
  async run<S extends Schema | undefined = undefined>(
    message: Input,
    options: RunOptions<S> & { thread?: ThreadStartParams } = {},
  ): Promise<Result<OutputOf<S>>> {
    const { thread: params, ...rest } = options;
    checkTimeout("timeout", rest.timeout);
    const thread = await this.thread(params);
    return thread.run<S>(message, rest as unknown as RunOptions<S>);
  }

  async #open(method: string, params: object): Promise<Thread> {
    const { model, offline, cwd } = this.#options;
    const defaults = { model: model ?? (offline ? "demo" : undefined), modelProvider: offline ? "offline" : undefined, cwd };
    return new Thread(this.#host, await this.#session.open(method, { ...defaults, ...params }));
  }

  async #startTurn(
    params: { threadId: string },
    release: () => void,
    signal: AbortSignal | undefined,
  ): Promise<string> {
    const { threadId } = params;
    const end = new TurnEnd();
    const taken = (result: unknown) => {
      end.turnId = this.#session.idOf("turn", "turn/start", result);
      // Nobody waits for it any more.
      if (signal?.aborted) this.#abandon(threadId, end.turnId);
    };
    const start = async () => {
      await this.#session.subscribe(threadId, signal);
      signal?.throwIfAborted();
      await this.#session.request("turn/start", params, taken);
    };
    // It goes on when the signal is aborted: until its end the turn is in the way of others.
    const starting = start();
    this.#occupy(threadId, end, starting.then(() => end.ended), release);
    await within(starting, { signal });
    return end.turnId as string;
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
    const vacate = this.#queues.occupy(threadId, end);
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

  #notified(method: string, params: Params): void {
    if (method === "serverRequest/resolved") this.#answerer.resolved(params["requestId"]);
    const threadId = params["threadId"];
    if (typeof threadId !== "string") return;
    for (const queue of this.#queues.of(threadId)) queue.push({ method, params } as unknown as TurnEvent);
  }

  /** Tells the turns of a thread how they stand, when the events in between are not available. */
  #replaced(threadId: string, thread: Params): void {
    const missing = this.#queues.of(threadId).filter((queue) => !replace(queue, threadId, thread));
    if (missing.length === 0) return;
    // The snapshot may hold the newest turns only.
    const gone = new ConnectionLost("the turn is no longer part of its thread");
    const taken = (result: unknown) => {
      const whole = (result as { thread?: unknown } | null)?.thread;
      for (const queue of missing) {
        if (!isObject(whole) || !replace(queue, threadId, whole)) queue.push(gone);
      }
    };
    this.#session.request("thread/read", { threadId, includeTurns: true }, taken).catch((error: unknown) => {
      const why = `the turn could not be read on a new connection: ${(error as Error).message}`;
      for (const queue of missing) queue.push(new ConnectionLost(why, { cause: error }));
    });
  }
}

/** Says how the turn of a queue stands; false when the thread does not have it. */
function replace(queue: Reader, threadId: string, thread: Params): boolean {
  // Its turn has not started: the request failed with the connection.
  if (queue.turnId === undefined) {
    queue.loseSight?.();
    return true;
  }
  const turns = Array.isArray(thread["turns"]) ? (thread["turns"] as TurnState[]) : [];
  const turn = turns.find((it) => it?.id === queue.turnId && Array.isArray(it.items));
  if (turn) queue.push({ method: "turn/replaced", params: { threadId, turn } });
  return turn !== undefined;
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
