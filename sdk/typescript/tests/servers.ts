/** A real server with a scripted model, and servers that misbehave. */

import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { type IncomingMessage, createServer as createHttpServer } from "node:http";
import { type AddressInfo, type Socket, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Duplex } from "node:stream";
import { type TestContext } from "node:test";

import { Agent, type AgentOptions, type Input, type TurnEvent } from "@agentd-embed/sdk";

export type Response = Record<string, unknown>;

export function message(text: string, more: Response = {}): Response {
  return { steps: [{ message: { text, ...more } }] };
}

export function call(name: string, args: Response): Response {
  return { steps: [{ function_call: { name, arguments: args } }] };
}

export const IDLE: Response = { steps: [{ message: "I begin." }, "idle"] };

export function isMessage(event: TurnEvent): boolean {
  return event.method === "item/completed" && event.params.item.type === "agentMessage";
}

/** A folder that goes with the test. */
export function folderOf(context: TestContext): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "agentd-embed-")));
  context.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** Options of an agent with a home of its own, whose model gives these responses. */
export function scripted(context: TestContext, responses: Response[]) {
  const folder = folderOf(context);
  const cwd = join(folder, "work");
  mkdirSync(cwd);
  mkdirSync(join(folder, "home"));
  const model = join(folder, "script.json");
  writeFileSync(model, JSON.stringify({ responses }));
  const env = { PATH: process.env["PATH"], HOME: folder, AGENT_HOME: join(folder, "home") };
  return { offline: true, model, env, cwd, folder };
}

/** An agent that ends with the test. */
export async function started(context: TestContext, options: AgentOptions): Promise<Agent> {
  const agent = await Agent.start(options);
  context.after(() => agent.close());
  return agent;
}

/**
 * Options of an agent whose server is a program with this body: `await receive()` is the next message,
 * `send(message)` writes one, `await hello()` shakes hands, `await forever()` waits for the end of the input.
 */
export function fake(context: TestContext, body: string): { program: string } {
  const program = join(folderOf(context), "agentd.mjs");
  writeFileSync(
    program,
    `#!${process.execPath}
import { createInterface } from "node:readline";
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const receive = async () => JSON.parse((await lines.next()).value);
const raw = (text) => process.stdout.write(text + "\\n");
const send = (message) => raw(JSON.stringify(message));
const forever = async () => { while (!(await lines.next()).done); };
const hello = async (userAgent = "x/0.1.0 (linux; x86_64) agentd (x; 1)") => {
  send({ id: (await receive()).id, result: { userAgent } });
  await receive();
};
const thread = async () => send({ id: (await receive()).id, result: { thread: { id: "t" } } });
const turn = async () => { await hello(); await thread(); send({ id: (await receive()).id, result: { turn: { id: "u" } } }); };
${body}
`,
    { mode: 0o755 },
  );
  return { program };
}

export async function turnOf(agent: Agent, input: Input = "go") {
  return (await agent.thread()).turn(input);
}

export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

export const TOKEN = "secret-token-of-the-test-0123456789";

type Home = ReturnType<typeof scripted>;

export async function listen(context: TestContext, { env }: Home, args: string[]): Promise<[string, ChildProcess]> {
  const program = process.env["AGENTD_PATH"] as string;
  const server = spawn(program, ["app-server", ...args], { env, stdio: ["ignore", "pipe", "ignore"] });
  context.after(() => server.kill("SIGKILL"));
  for await (const line of createInterface({ input: server.stdout })) {
    if (line.startsWith("listening on ")) return [line.slice("listening on ".length), server];
  }
  throw new Error("the server does not listen");
}

/** A proxy in front of a Unix socket or a port, whose connections can be cut. */
export async function proxy(context: TestContext, behind: string | number) {
  const open = new Set<Socket>();
  let isClosed = false;
  let connections = 0;
  const server = createServer((near) => {
    connections += 1;
    if (isClosed) return near.destroy();
    const far = typeof behind === "string" ? connect(behind) : connect(behind, "127.0.0.1");
    for (const socket of [near, far]) {
      open.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => (near.destroy(), far.destroy(), open.delete(socket)));
    }
    near.pipe(far).pipe(near);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => (server.close(), open.forEach((it) => it.destroy())));
  const { port } = server.address() as AddressInfo;
  return {
    address: `ws://127.0.0.1:${port}`,
    cut: () => open.forEach((it) => it.destroy()),
    /** Cuts, refuses connections from now on, and waits for the first: then the client has noticed its loss. */
    lose: async () => {
      isClosed = true;
      const attempt = once(server, "connection");
      open.forEach((it) => it.destroy());
      await attempt;
    },
    refuse: (refuses: boolean) => (isClosed = refuses),
    connections: () => connections,
  };
}

/**
 * A server behind a WebSocket that knows a thread and a turn, and writes `raw` once the turn has started. The user
 * agent of each connection is the next of `agents`, and the last of them from then on. What `answers` returns are the
 * messages to send in place of its own; `"cut"` ends the connection.
 */
export async function fakeSocket(context: TestContext, options: {
  agents?: string[];
  raw?: Buffer;
  answers?: (message: { id: number; method: string; params: Record<string, unknown> }) => unknown[] | "cut" | undefined;
}) {
  const { agents = ["x/0.1.0 (linux)"], raw, answers } = options;
  const open = new Set<Duplex>();
  let connections = 0;
  const server = createHttpServer();
  server.on("upgrade", ({ headers }: IncomingMessage, socket: Duplex) => {
    const key = String(headers["sec-websocket-key"]);
    const accepted = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    const userAgent = agents[Math.min(connections++, agents.length - 1)];
    const results: Record<string, unknown> = {
      initialize: { userAgent },
      "thread/start": { thread: { id: "t" }, eventCursor: "1" },
      "turn/start": { turn: { id: "u" } },
    };
    open.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => open.delete(socket));
    socket.write(`HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accepted}\r\n\r\n`);
    let held = Buffer.alloc(0);
    socket.on("data", (bytes: Buffer) => {
      held = Buffer.concat([held, bytes]);
      for (let read = unmasked(held); read; read = unmasked(held)) {
        held = held.subarray(read.size);
        const asked = read.opcode === 1 ? JSON.parse(read.payload.toString()) : { id: 0, method: "" };
        const own = answers?.(asked);
        if (own === "cut") return void socket.destroy();
        for (const message of own ?? []) socket.write(short(JSON.stringify(message)));
        if (own !== undefined) continue;
        const { id, method } = asked;
        if (method in results) socket.write(short(JSON.stringify({ id, result: results[method] })));
        if (method === "turn/start" && raw) socket.write(raw);
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = () => open.forEach((it) => it.destroy());
  context.after(() => (server.close(), cut()));
  const address = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { address, cut, connections: () => connections };
}

/** The first frame of a client, if it is there. */
function unmasked(bytes: Buffer): { opcode: number; payload: Buffer; size: number } | undefined {
  if (bytes.length < 2) return undefined;
  const short = bytes[1]! & 0x7f;
  const start = short < 126 ? 2 : 4;
  if (bytes.length < start + 4) return undefined;
  const length = short < 126 ? short : bytes.readUInt16BE(2);
  const size = start + 4 + length;
  if (bytes.length < size) return undefined;
  const mask = bytes.subarray(start, start + 4);
  const payload = bytes.subarray(start + 4, size).map((byte, at) => byte ^ mask[at & 3]!);
  return { opcode: bytes[0]! & 0x0f, payload: Buffer.from(payload), size };
}

/** A text message of a server. */
function short(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([Buffer.from([0x81, 126, bytes.length >> 8, bytes.length & 0xff]), bytes]);
}
