/**
 * A WebSocket client (RFC 6455) over Node's `http`: Node 20 has none, and that of later versions reaches no
 * Unix socket, sends no token as a header, and does not say why a handshake was refused.
 */

import { createHash, randomBytes } from "node:crypto";
import { type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Duplex } from "node:stream";

import { ConnectionLost } from "../errors.js";
import type { Receiver, Transport } from "../transport.js";
import { FrameReader, OPCODE, frame } from "./frames.js";

/** Of RFC 6455, section 1.3. */
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** Milliseconds without a byte after which the server is asked whether it is there, and then given up. */
const SILENCE = 30_000;
/** Milliseconds that the server may take to confirm the end. */
const GRACE = 2_000;
/** Milliseconds between the reads of a connection that is held: a server ends one that reads nothing for long. */
const TRICKLE = 1_500;

/** Connects to `unix:///PATH`, `ws://` or `wss://`. */
export function connect(
  address: string,
  token: string | undefined,
  receiver: Receiver,
  signal: AbortSignal,
): Promise<Transport> {
  return new Promise((resolve, reject) => {
    const fail = (why: string, cause?: unknown) =>
      reject(new ConnectionLost(`there is no server at ${address}: ${why}`, { cause }));
    const key = randomBytes(16).toString("base64");
    let request: ClientRequest;
    try {
      request = handshake(address, token, key, signal);
    } catch (error) {
      fail((error as Error).message, error);
      return;
    }
    request.on("error", (error) => fail(error.message, error));
    request.on("response", (response: IncomingMessage) => {
      response.destroy();
      fail(`it answered ${response.statusCode} ${response.statusMessage ?? ""}`.trim());
    });
    request.on("upgrade", (response: IncomingMessage, socket: Duplex, head: Buffer) => {
      const accepted = createHash("sha1").update(key + GUID).digest("base64");
      if (response.headers["sec-websocket-accept"] !== accepted) {
        socket.destroy();
        fail("it does not speak WebSocket");
        return;
      }
      resolve(new Socket(socket, head, receiver));
    });
    request.end();
  });
}

function handshake(address: string, token: string | undefined, key: string, signal: AbortSignal): ClientRequest {
  const headers: Record<string, string> = {
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": key,
  };
  if (token) headers["authorization"] = `Bearer ${token}`;
  const options = { headers, signal, agent: false as const };
  if (address.startsWith("unix://")) {
    return httpRequest({ ...options, socketPath: address.slice("unix://".length), host: "localhost", path: "/" });
  }
  const request = address.startsWith("wss:") ? httpsRequest : httpRequest;
  return request(new URL(address.replace(/^ws/, "http")), options);
}

class Socket implements Transport {
  readonly #socket: Duplex;
  readonly #receiver: Receiver;
  readonly #frames = new FrameReader();
  readonly #pulse: ReturnType<typeof setInterval>;
  readonly #closed: Promise<void>;
  #trickle: ReturnType<typeof setInterval> | undefined;
  #isSilent = false;
  #isAsked = false;
  #why: string | undefined;

  constructor(socket: Duplex, head: Buffer, receiver: Receiver) {
    this.#socket = socket;
    this.#receiver = receiver;
    this.#closed = new Promise((resolve) => {
      socket.on("close", () => {
        clearInterval(this.#pulse);
        clearInterval(this.#trickle);
        receiver.ended(this.#why ?? "the server closed the connection");
        resolve();
      });
    });
    this.#pulse = setInterval(() => this.#askIfSilent(), SILENCE);
    if (head.length > 0) socket.unshift(head);
    socket.on("data", (bytes: Buffer) => this.#read(bytes));
    socket.on("error", (error) => (this.#why ??= `the connection broke: ${error.message}`));
    socket.on("end", () => socket.end());
  }

  send(text: string): void {
    this.#write(OPCODE.text, Buffer.from(text));
  }

  async close(): Promise<void> {
    this.#write(OPCODE.close, Buffer.from([1000 >> 8, 1000 & 0xff]));
    const timer = setTimeout(() => this.#socket.destroy(), GRACE);
    await this.#closed;
    clearTimeout(timer);
  }

  abort(): void {
    this.#socket.destroy();
  }

  hold(isHeld: boolean): void {
    clearInterval(this.#trickle);
    this.#trickle = isHeld ? setInterval(() => this.#socket.resume(), TRICKLE) : undefined;
    if (isHeld) this.#socket.pause();
    else this.#socket.resume();
  }

  #write(opcode: number, payload: Buffer): void {
    if (this.#socket.writable) this.#socket.write(frame(opcode, payload));
  }

  #read(bytes: Buffer): void {
    this.#isSilent = this.#isAsked = false;
    if (this.#trickle !== undefined) this.#socket.pause();
    try {
      for (const { opcode, payload } of this.#frames.read(bytes)) {
        if (opcode === OPCODE.text) this.#receiver.message(utf8(payload));
        else if (opcode === OPCODE.ping) this.#write(OPCODE.pong, payload);
        else if (opcode === OPCODE.close) this.#end(payload);
      }
    } catch (error) {
      this.#why ??= `the server wrote what is not the protocol: ${(error as Error).message}`;
      this.#socket.destroy();
    }
  }

  #end(payload: Buffer): void {
    const code = payload.length >= 2 ? payload.readUInt16BE() : 1005;
    const reason = payload.subarray(2).toString();
    this.#why ??= `the server closed the connection (${code}${reason && `: ${reason}`})`;
    this.#write(OPCODE.close, payload.subarray(0, 2));
    this.#socket.end();
    setTimeout(() => this.#socket.destroy(), GRACE).unref();
  }

  #askIfSilent(): void {
    if (this.#trickle !== undefined) return;
    if (this.#isAsked) {
      this.#why ??= "the connection broke: the server is silent";
      this.#socket.destroy();
    } else if (this.#isSilent) {
      this.#isAsked = true;
      this.#write(OPCODE.ping, Buffer.alloc(0));
    }
    this.#isSilent = true;
  }
}

function utf8(payload: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(payload);
  } catch {
    throw new Error("a message is no UTF-8");
  }
}
