/** A real server with a scripted model, and servers that misbehave. */

import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext } from "node:test";

import { Agent, type AgentOptions, type Input, type TurnEvent } from "@agentd/sdk";

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
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "agentd-sdk-")));
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
