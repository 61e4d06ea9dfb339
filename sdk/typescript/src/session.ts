/** The connection of an agent over its whole life: the handshake, and coming back to a server that still runs. */

import { Connection, type Listener, type Params, type RequestId, isObject } from "./connection.js";
import { type AgentdError, ConnectionLost, Overloaded, ReplayMismatch, VersionMismatch } from "./errors.js";
import { VERSION } from "./package.js";
import type { InitializeCapabilities, InitializeResponse, Turn } from "./protocol.js";
import type { Way } from "./transport.js";
import { Elapsed, within } from "./waiting.js";

/** The versions of the server that this package works with, as a text and as a check. */
const WANTED = "0.1 and later 0.x";
const SERVER_VERSION = /\/(\d+)\.(\d+)\./;
/** Milliseconds before the second attempt to come back; twice as many before each later one, up to the longest. */
const FIRST_DELAY = 100;
const LONGEST_DELAY = 5_000;
/** The same before a request that an overloaded server refused is sent again. */
const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 10_000;

export interface SessionOptions {
  clientName: string;
  startTimeout: number;
  reconnectTimeout: number;
  /** How often a request is sent again that an overloaded server refused. */
  overloadRetries: number;
  capabilities: InitializeCapabilities;
}

/** Takes what arrives over all connections. */
export interface SessionListener {
  /** False when the notification is one that was sent again, and says nothing of the position. */
  notified(method: string, params: Params, cursor: string | undefined, size: number): boolean;
  asked(connection: Connection, id: RequestId, method: string, params: Params): void;
  /** The connection is lost; another one may follow. */
  interrupted(): void;
  /** No request is answered any more. */
  lost(error: AgentdError): void;
  /** The threads whose events are awaited. */
  awaited(): string[];
  /** The events that were missed are not available: the result of `thread/resume` has how things stand. */
  replaced(threadId: string, result: Params): void;
  /** A thread was resumed: only these of the server's requests are still open. */
  open(threadId: string, requestIds: readonly unknown[]): void;
  /** A thread is gone, and its events with it. */
  gone(threadId: string, error: AgentdError): void;
}

export class Session {
  readonly #way: Way;
  readonly #options: SessionOptions;
  readonly #listener: SessionListener;
  /** The position of each thread among its events. */
  readonly #cursors = new Map<string, string>();
  /** Threads that this connection is not subscribed to, but the one before was. */
  readonly #left = new Set<string>();
  readonly #closing = new AbortController();
  #connection: Connection | undefined;
  #returning: Promise<Connection> | undefined;
  #isPaused = false;
  #lost: AgentdError | undefined;
  server: InitializeResponse | undefined;

  constructor(way: Way, options: SessionOptions, listener: SessionListener) {
    this.#way = way;
    this.#options = options;
    this.#listener = listener;
  }

  async start(): Promise<void> {
    try {
      this.#connection = await this.#connect(this.#options.startTimeout);
    } catch (error) {
      this.#lost ??= error as AgentdError;
      throw error;
    }
  }

  /** Whether a request waits for its answer. */
  get isAsking(): boolean {
    return this.#connection?.isAsking ?? false;
  }

  /** Whether no request is answered any more. */
  get isOver(): boolean {
    return this.#lost !== undefined;
  }

  get hasOptOuts(): boolean {
    return (this.#options.capabilities.optOutNotificationMethods?.length ?? 0) > 0;
  }

  /** The position after the events of a thread that have arrived. */
  cursorOf(threadId: string): string | undefined {
    return this.#cursors.get(threadId);
  }

  /** All events of a thread before the position of a result have arrived, or are sent again. */
  keepCursor(threadId: string, result: unknown): void {
    const cursor = isObject(result) ? result["eventCursor"] : undefined;
    if (typeof cursor === "string") this.#cursors.set(threadId, cursor);
  }

  /** Takes no messages of the server until `isPaused` is false again. */
  pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    this.#connection?.pause(isPaused);
  }

  /**
   * As `Connection.request`; while the session comes back, the request waits for that. What an overloaded server
   * refused is sent again, a bounded number of times.
   */
  async request(
    method: string,
    params: unknown,
    taken?: (result: unknown) => void,
    signal?: AbortSignal,
  ): Promise<unknown> {
    for (let again = 0; ; again++) {
      try {
        return await this.#request(method, params, taken, signal);
      } catch (error) {
        if (!(error instanceof Overloaded) || again >= this.#options.overloadRetries) throw error;
      }
      // Partly random, so that clients do not come back all at once.
      const delay = Math.min(FIRST_PAUSE * 2 ** again, LONGEST_PAUSE) * (0.5 + Math.random() / 2);
      await within(this.#pause(delay), { signal });
    }
  }

  async #request(
    method: string,
    params: unknown,
    taken?: (result: unknown) => void,
    signal?: AbortSignal,
  ): Promise<unknown> {
    const connection = this.#current();
    const ready = connection instanceof Promise ? await within(connection, { signal }) : connection;
    return ready.request(method, params, taken, signal);
  }

  /** Opens a thread: a request whose result has it. */
  async open(
    method: string,
    params: unknown,
    opened: (threadId: string, turns: readonly Turn[]) => void,
  ): Promise<string> {
    let id = "";
    const taken = (result: unknown) => {
      id = this.idOf("thread", method, result);
      this.keepCursor(id, result);
      this.#left.delete(id);
      const { turns } = (result as { thread: { turns?: unknown } }).thread;
      opened(id, Array.isArray(turns) ? turns : []);
    };
    await this.request(method, params, taken);
    return id;
  }

  /** Subscribes to a thread again, if a lost connection was. */
  async subscribe(threadId: string, signal?: AbortSignal): Promise<void> {
    const connection = this.#current();
    const ready = connection instanceof Promise ? await within(connection, { signal }) : connection;
    if (this.#left.has(threadId)) await this.#resume(ready, threadId, signal);
  }

  /** The id in a result; without one, what the server writes is not the protocol. */
  idOf(what: string, method: string, result: unknown): string {
    const named = isObject(result) ? result[what] : undefined;
    const id = isObject(named) ? named["id"] : undefined;
    if (typeof id !== "string") {
      throw this.broken(
        `the server wrote what is not the protocol: the result of \`${method}\` has no \`${what}\` with an id`,
      );
    }
    return id;
  }

  /** Gives the server up, and returns the error for it. */
  broken(why: string): AgentdError {
    const error = new ConnectionLost(why);
    this.#end(error);
    void this.#connection?.close();
    return this.#lost ?? error;
  }

  async close(): Promise<void> {
    this.#end(new ConnectionLost("the connection was closed"));
    await this.#connection?.close();
    await this.#returning?.catch(() => undefined);
  }

  #current(): Connection | Promise<Connection> {
    // Each call has an error of its own, with its own trace.
    if (this.#lost instanceof ConnectionLost) throw new ConnectionLost(this.#lost.message);
    if (this.#lost) throw this.#lost;
    const current = this.#returning ?? this.#connection;
    if (current === undefined) throw new ConnectionLost("the connection is not open");
    return current;
  }

  #end(error: AgentdError): void {
    if (this.#lost) return;
    this.#lost = error;
    this.#closing.abort(error);
    this.#listener.lost(error);
  }

  async #connect(timeout: number): Promise<Connection> {
    const limit = new AbortController();
    let connection: Connection | undefined;
    const work = (async () => {
      connection = await Connection.open(this.#way.open, this.#events(), limit.signal);
      if (limit.signal.aborted) throw new ConnectionLost("the connection was closed");
      await this.#shakeHands(connection);
      return connection;
    })();
    try {
      return await within(work, { timeout, signal: this.#closing.signal });
    } catch (error) {
      const isLate = error instanceof Elapsed;
      limit.abort(error);
      // The transport that opens only now is closed when it is there.
      const isOpen = connection !== undefined;
      work.catch(() => undefined).finally(() => !isOpen && connection?.abort());
      if (!isLate) throw await this.#wordsOf(error as Error, connection);
      connection?.abort();
      throw new ConnectionLost(`the handshake took longer than ${timeout} ms`);
    }
  }

  async #wordsOf(error: Error, connection: Connection | undefined): Promise<Error> {
    await connection?.close();
    return error;
  }

  async #shakeHands(connection: Connection): Promise<void> {
    const server = await connection.request("initialize", {
      clientInfo: { name: this.#options.clientName, title: null, version: VERSION },
      capabilities: this.#options.capabilities,
    });
    const agent = isObject(server) ? server["userAgent"] : undefined;
    checkVersion(typeof agent === "string" ? agent : "");
    this.server = server as InitializeResponse;
    connection.notify("initialized");
  }

  #events(): Listener {
    return {
      notified: (method, params, cursor, size) => {
        const thread = params["threadId"];
        const isNew = this.#listener.notified(method, params, cursor, size);
        if (isNew && cursor !== undefined && typeof thread === "string") this.#cursors.set(thread, cursor);
      },
      asked: (...question) => this.#listener.asked(...question),
      lost: (connection, error) => {
        // Another one is an attempt, which fails by itself.
        if (connection !== this.#connection || this.#lost) return;
        this.#listener.interrupted();
        const isGarbage = error.message.includes("not the protocol");
        if (!this.#way.isLasting || isGarbage || this.#options.reconnectTimeout === 0) return this.#end(error);
        this.#returning = this.#return(error);
        // Who waits for it learns of a failure, too.
        this.#returning.catch(() => undefined);
      },
    };
  }

  /** Connects again until it works or the time is over, and subscribes to the threads that are awaited. */
  async #return(lost: ConnectionLost): Promise<Connection> {
    const deadline = Date.now() + this.#options.reconnectTimeout;
    let failure: Error = lost;
    for (let delay = FIRST_DELAY; !this.#lost; delay = Math.min(delay * 2, LONGEST_DELAY)) {
      const left = deadline - Date.now();
      if (left <= 0) {
        this.#end(new ConnectionLost(`${lost.message}; it was not made again: ${failure.message}`));
        break;
      }
      // Of each attempt: the threads that one resumed before it failed are not subscribed to on the next.
      for (const thread of this.#cursors.keys()) this.#left.add(thread);
      try {
        const connection = await this.#connect(Math.min(left, this.#options.startTimeout));
        await this.#resumeAwaited(connection);
        // Until it is the connection of the session, its loss is not reported.
        if (connection.isLost) throw new ConnectionLost("the connection was lost again");
        this.#connection = connection;
        this.#returning = undefined;
        connection.pause(this.#isPaused);
        return connection;
      } catch (error) {
        failure = error as Error;
        if (error instanceof VersionMismatch || error instanceof ReplayMismatch) this.#end(error);
      }
      // Partly random, so that clients do not come back all at once.
      await this.#pause(delay * (0.5 + Math.random() / 2));
    }
    throw this.#lost ?? failure;
  }

  /** Waits, but not longer than the session lasts. */
  async #pause(delay: number): Promise<void> {
    const never = new Promise<never>(() => undefined);
    await within(never, { timeout: delay, signal: this.#closing.signal }).catch(() => undefined);
  }

  async #resumeAwaited(connection: Connection): Promise<void> {
    for (const thread of this.#listener.awaited()) {
      if (!this.#left.has(thread)) continue;
      try {
        await this.#resume(connection, thread);
      } catch (error) {
        // A server that has too much to do is asked again on the next connection.
        if (connection.isLost || error instanceof Overloaded) throw error;
        const why = `the thread could not be resumed on a new connection: ${(error as Error).message}`;
        this.#listener.gone(thread, new ConnectionLost(why, { cause: error }));
      }
    }
  }

  async #resume(connection: Connection, threadId: string, signal?: AbortSignal): Promise<void> {
    const taken = (result: unknown) => {
      this.idOf("thread", "thread/resume", result);
      const replay = isObject(result) ? result["eventReplay"] : undefined;
      if (isObject(replay) && replay["type"] === "snapshot" && isObject(result)) {
        this.#listener.replaced(threadId, result);
      }
      if (isObject(replay) && Array.isArray(replay["openRequestIds"])) {
        this.#listener.open(threadId, replay["openRequestIds"]);
      }
      // With a replay, each event brings its own position.
      if (!isObject(replay) || replay["type"] !== "replayed") this.keepCursor(threadId, result);
      this.#left.delete(threadId);
    };
    await connection.request("thread/resume", { threadId, eventCursor: this.#cursors.get(threadId) }, taken, signal);
  }
}

function checkVersion(userAgent: string): void {
  const found = SERVER_VERSION.exec(userAgent);
  if (found?.[1] === "0" && Number(found[2]) >= 1) return;
  const [product = ""] = userAgent.split(" ");
  throw new VersionMismatch(product.slice(product.lastIndexOf("/") + 1), WANTED);
}
