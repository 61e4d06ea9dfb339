/**
 * Recordings of sessions, and replaying them without a server. A recording has one JSON object a line, as those of the
 * Python SDK: `{"recording": 1, "isLasting": …}`, then `{"connection": n}` for each connection, and `{"sent": message}`
 * and `{"received": message}` in their order. Neither the token nor the environment of the agent is in it: values of
 * members such as `env` and `apiKey`, and texts that are the token or a secret of the environment, are `***`.
 */

import { isObject } from "./connection.js";
import { ReplayMismatch } from "./errors.js";
import type { Receiver, Transport, Way } from "./transport.js";

const HIDDEN = "***";
/** Members whose values are secrets, or may hold some. */
const SECRET_MEMBERS = /^(env|environment|headers)$|(token|secret|password|api_?key)$/i;
const SECRET_VARIABLES = /token|secret|passw|key|credential/i;
/** Members that are so called but count tokens. */
const COUNTS = /^(max|total|input|output)/i;
/** Shorter values of the environment are no secrets, and may be part of any text. */
const SHORTEST_SECRET = 8;

/** Replaces secrets in messages. */
export class Redactor {
  readonly #secrets: string[];

  constructor(token: string | undefined, env: Record<string, string | undefined>) {
    const values = Object.entries(env)
      .filter(([name, value]) => SECRET_VARIABLES.test(name) && (value?.length ?? 0) >= SHORTEST_SECRET)
      .map(([, value]) => value as string);
    this.#secrets = [...values, ...(token ? [token] : [])].sort((one, other) => other.length - one.length);
  }

  redact(message: unknown): unknown {
    if (typeof message === "string") return this.#secrets.reduce((text, it) => text.replaceAll(it, HIDDEN), message);
    if (Array.isArray(message)) return message.map((it) => this.redact(it));
    if (!isObject(message)) return message;
    return Object.fromEntries(Object.entries(message).map(([name, it]) => [name, this.#member(name, it)]));
  }

  #member(name: string, value: unknown): unknown {
    const isPlain = value === null || typeof value === "boolean" || typeof value === "number";
    if (!SECRET_MEMBERS.test(name) || COUNTS.test(name) || isPlain) return this.redact(value);
    return isObject(value) ? Object.fromEntries(Object.keys(value).map((key) => [key, HIDDEN])) : HIDDEN;
  }
}

/** The same way to a server, all messages of which are written, a line for each. */
export function recorded({ open, isLasting }: Way, write: (line: string) => void, redactor: Redactor): Way {
  let connections = 0;
  const note = (entry: object) => write(`${JSON.stringify(entry)}\n`);
  const message = (kind: "sent" | "received", text: string) => {
    let parsed: unknown;
    try {
      parsed = JSON.parse(text);
    } catch {
      // It ends the connection.
      return;
    }
    note({ [kind]: redactor.redact(parsed) });
  };
  note({ recording: 1, isLasting });
  return {
    isLasting,
    async open(receiver, signal) {
      note({ connection: connections++ });
      const taps: Receiver = {
        message: (text) => (message("received", text), receiver.message(text)),
        ended: (why) => receiver.ended(why),
      };
      const transport = await open(taps, signal);
      return {
        send: (text) => (message("sent", text), transport.send(text)),
        close: () => transport.close(),
        abort: () => transport.abort(),
        hold: (isHeld) => transport.hold(isHeld),
      };
    },
  };
}

interface Entry {
  line: number;
  kind: "sent" | "received";
  message: unknown;
}

/** A way to a recorded server. Throws a `TypeError` for a text that is not a recording; `name` is that of its file. */
export function replayed(text: string, name: string, redactor: Redactor): Way {
  const { connections, isLasting } = read(text, name);
  let failure: ReplayMismatch | undefined;
  return {
    isLasting,
    async open(receiver) {
      const entries = connections.shift();
      failure ??= entries ? undefined : new ReplayMismatch(`${name} has no further connection`, undefined, undefined);
      if (failure) throw failure;
      const isLast = connections.length === 0;
      return new Replay(name, entries as Entry[], redactor, receiver, isLast, (error) => (failure ??= error));
    },
  };
}

function read(text: string, name: string): { connections: Entry[][]; isLasting: boolean } {
  const connections: Entry[][] = [];
  let isLasting = false;
  text.split("\n").forEach((content, at) => {
    if (content.trim() === "") return;
    const line = at + 1;
    let entry: unknown;
    try {
      entry = JSON.parse(content);
    } catch {
      entry = undefined;
    }
    const [kind, message] = Object.entries(isObject(entry) ? entry : {})[0] ?? [];
    if (kind === "recording") isLasting = isObject(entry) && entry["isLasting"] === true;
    else if (kind === "connection") connections.push([]);
    else if ((kind === "sent" || kind === "received") && connections.length > 0) {
      connections.at(-1)?.push({ line, kind, message });
    } else throw new TypeError(`${name}:${line}: this is no entry of a recording`);
  });
  return { connections, isLasting };
}

/** A transport that says what the server said, as long as it is sent what the server was sent. */
class Replay implements Transport {
  readonly #entries: Entry[];
  #failure: ReplayMismatch | undefined;
  #isOver = false;

  constructor(
    readonly name: string,
    entries: Entry[],
    readonly redactor: Redactor,
    readonly receiver: Receiver,
    readonly isLast: boolean,
    readonly failed: (error: ReplayMismatch) => void,
  ) {
    this.#entries = entries;
  }

  send(text: string): void {
    if (this.#failure) throw this.#failure;
    if (this.#isOver) return;
    const actual = this.redactor.redact(JSON.parse(text));
    const at = this.#entries.findIndex(({ kind }) => kind === "sent");
    const expected = this.#entries[at];
    if (JSON.stringify(comparable(actual)) !== JSON.stringify(comparable(expected?.message))) {
      const where = expected ? `${this.name}:${expected.line}` : `the end of ${this.name}`;
      this.#failure = new ReplayMismatch(where, expected?.message, actual);
      this.failed(this.#failure);
      this.receiver.ended(this.#failure.message);
      throw this.#failure;
    }
    this.#entries.splice(at, 1);
    this.#say();
  }

  async close(): Promise<void> {
    this.abort();
  }

  abort(): void {
    this.#isOver = true;
  }

  hold(): void {
    // Whatever is there is kept by the inbox.
  }

  /** What the server said after a message waits until that is sent again. */
  #say(): void {
    while (this.#entries[0]?.kind === "received") {
      this.receiver.message(JSON.stringify(this.#entries.shift()?.message));
    }
    if (this.#entries.length === 0 && !this.isLast) this.receiver.ended("the recorded connection was lost here");
  }
}

/** A message without the version of this package, which may be newer than the recording. */
function comparable(message: unknown): unknown {
  if (!isObject(message) || message["method"] !== "initialize" || !isObject(message["params"])) return sorted(message);
  const { clientInfo, ...params } = message["params"];
  return sorted({ ...message, params: { ...params, clientInfo: isObject(clientInfo) ? { ...clientInfo, version: "" } : clientInfo } });
}

/** The order of members makes no difference. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, sorted(value[name])]));
}
