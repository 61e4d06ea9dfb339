/** One connection to a server: JSON-RPC messages, and which answer belongs to which request. */

import { AgentdError, ConnectionLost, requestError } from "./errors.js";
import { Inbox, LONGEST_WAIT } from "./inbox.js";
import type { Open, Transport } from "./transport.js";
import { within } from "./waiting.js";

export type Params = Record<string, unknown>;
export type RequestId = number | string;
export type Reply = { result: unknown } | { error: { code: number; message: string } };

/** Takes what the server says by itself. */
export interface Listener {
  /** `size` is the number of characters of the message. */
  notified(method: string, params: Params, cursor: string | undefined, size: number): void;
  asked(connection: Connection, id: RequestId, method: string, params: Params): void;
  lost(connection: Connection, error: ConnectionLost): void;
}

interface Call {
  method: string;
  taken: ((result: unknown) => void) | undefined;
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

/** What is not the protocol. */
class Garbage extends Error {}

export class Connection {
  readonly #listener: Listener;
  readonly #calls = new Map<number, Call>();
  readonly #inbox = new Inbox({
    take: (text) => this.#receive(text),
    ended: (why) => this.broken(why),
    hold: (isHeld) => this.#transport?.hold(isHeld),
    overflowed: () => this.#overflow(),
  });
  #transport: Transport | undefined;
  #next = 0;
  #lost: ConnectionLost | undefined;

  private constructor(listener: Listener) {
    this.#listener = listener;
  }

  static async open(open: Open, listener: Listener, signal: AbortSignal): Promise<Connection> {
    const connection = new Connection(listener);
    connection.#transport = await open(
      { message: (text) => connection.#inbox.push(text), ended: (why) => connection.#inbox.end(why) },
      signal,
    );
    return connection;
  }

  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  /** Whether a request waits for its answer. */
  get isAsking(): boolean {
    return this.#calls.size > 0;
  }

  /** Takes no message of the server until `isPaused` is false again. */
  pause(isPaused: boolean): void {
    this.#inbox.pause(isPaused);
  }

  /**
   * Sends a request. `taken` gets the result before any later message is looked at. When the signal is
   * aborted this rejects, and the answer goes to `taken` alone.
   */
  async request(
    method: string,
    params: unknown,
    taken?: (result: unknown) => void,
    signal?: AbortSignal,
  ): Promise<unknown> {
    signal?.throwIfAborted();
    if (this.#lost) throw new ConnectionLost(this.#lost.message);
    const id = this.#next++;
    const text = encoded({ id, method, params });
    const answer = new Promise<unknown>((resolve, reject) => {
      this.#calls.set(id, { method, taken, resolve, reject });
    });
    try {
      this.#transport?.send(text);
    } catch (error) {
      this.#calls.delete(id);
      throw error;
    }
    return within(answer, { signal });
  }

  notify(method: string): void {
    this.#sendOrEnd(encoded({ method }));
  }

  /** Answers the server. On a connection that is lost, nobody waits for it. */
  reply(id: RequestId, reply: Reply): void {
    if (!this.#lost) this.#sendOrEnd(encoded({ id, ...reply }));
  }

  async close(): Promise<void> {
    this.broken("the connection was closed");
    await this.#transport?.close();
  }

  /** As `close`, without giving the server time to end by itself. */
  abort(): void {
    this.broken("the connection was closed");
    this.#transport?.abort();
  }

  /** Gives the connection up, and returns the error for it. */
  broken(why: string): ConnectionLost {
    if (!this.#lost) {
      this.#lost = new ConnectionLost(why);
      this.#inbox.close();
      for (const call of this.#calls.values()) call.reject(new ConnectionLost(why));
      this.#calls.clear();
      this.#listener.lost(this, this.#lost);
    }
    return new ConnectionLost(this.#lost.message);
  }

  /** Where no request waits for the answer, all of them learn that the message cannot be sent. */
  #sendOrEnd(text: string): void {
    try {
      this.#transport?.send(text);
    } catch (error) {
      this.broken((error as Error).message);
    }
  }

  #overflow(): void {
    this.broken(`more than ${LONGEST_WAIT >> 20} MiB of events were not read in time`);
    this.#transport?.abort();
  }

  #receive(text: string): void {
    if (this.#lost) return;
    try {
      this.#take(text);
    } catch (error) {
      if (!(error instanceof Garbage || error instanceof SyntaxError)) throw error;
      this.broken(`the server wrote what is not the protocol: ${error.message}`);
    }
  }

  #take(text: string): void {
    const message: unknown = JSON.parse(text);
    if (!isObject(message)) throw new Garbage(`a message is ${kindOf(message)}, and no object`);
    const { id, method, eventCursor } = message;
    if (method === undefined || method === null) return this.#answered(message);
    if (typeof method !== "string") throw new Garbage("`method` is no text");
    const params = message["params"] ?? {};
    if (!isObject(params)) throw new Garbage(`\`params\` of \`${method}\` are ${kindOf(params)}, and no object`);
    if (id !== undefined) {
      if (!isId(id)) throw new Garbage(`the id of \`${method}\` is ${kindOf(id)}`);
      return this.#listener.asked(this, id, method, params);
    }
    const cursor = typeof eventCursor === "string" ? eventCursor : undefined;
    this.#listener.notified(method, params, cursor, text.length);
  }

  #answered(message: Params): void {
    const id = message["id"] ?? null;
    if (id !== null && !isId(id)) throw new Garbage(`the id of an answer is ${kindOf(id)}`);
    const call = this.#calls.get(id as number);
    // The answer to nothing that was asked.
    if (call === undefined) return;
    this.#calls.delete(id as number);
    if ("error" in message) return call.reject(requestError(call.method, message["error"]));
    try {
      call.taken?.(message["result"]);
      call.resolve(message["result"]);
    } catch (error) {
      if (!(error instanceof AgentdError)) throw error;
      call.reject(error);
    }
  }
}

/** A message as JSON. Throws a `TypeError` for what JSON cannot express. */
function encoded(message: Params): string {
  return JSON.stringify(message, (key, value: unknown) => {
    const isJson = typeof value !== "function" && typeof value !== "symbol" && typeof value !== "bigint";
    if (!isJson || (typeof value === "number" && !Number.isFinite(value))) {
      throw new TypeError(`\`${key}\` is ${String(value)}, which JSON cannot express`);
    }
    if (value instanceof Set || value instanceof Map) {
      throw new TypeError(`\`${key}\` is a ${value.constructor.name}, which JSON cannot express`);
    }
    return value;
  });
}

/** Throws a `TypeError` for a reply that JSON cannot express. */
export function checkReply(reply: Reply): void {
  if ("result" in reply && reply.result === undefined) {
    throw new TypeError("the answer is undefined, which JSON cannot express");
  }
  encoded(reply);
}

export function isObject(value: unknown): value is Params {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isId(value: unknown): value is RequestId {
  return typeof value === "number" || typeof value === "string";
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "an array" : `of the type ${typeof value}`;
}
