/**
 * A web backend with a thread for each user, as server-sent events: `node backend.js PORT THREADS.json [OPTIONS]`
 *
 * `GET /events` is all that happens in the user's thread. Every tab has it, and one that comes back goes on after the last
 * event that it got; a slow tab holds up no other. `POST /message` says something, `POST /approval` answers a question.
 */

import { once } from "node:events";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import { text } from "node:stream/consumers";

import { Agent, AgentdError, type AgentOptions, type Approval, type CallbackContext, type Thread } from "@agentd-embed/sdk";

const [, , port = "8080", file = "threads.json", options = "{}"] = process.argv;
const agent = await Agent.start({ ...(JSON.parse(options) as AgentOptions), approve });
const ids: Record<string, string> = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
const threads = new Map<string, Promise<Thread>>();
const questions = new Map<string, (isAllowed: boolean) => void>();

/** In place of the product's own sign-in. */
function userOf(request: IncomingMessage): string | undefined {
  return /^Bearer (\w+)$/.exec(request.headers.authorization ?? "")?.[1];
}

function threadOf(user: string): Promise<Thread> {
  const known = threads.get(user) ?? openThread(user);
  threads.set(user, known);
  known.catch(() => threads.delete(user));
  return known;
}

async function openThread(user: string): Promise<Thread> {
  const id = ids[user];
  if (id !== undefined) return agent.resume(id, { context: user });
  const thread = await agent.thread({ context: user, sandbox: "readOnly", approvalPolicy: "onRequest" });
  ids[user] = thread.id;
  writeFileSync(`${file}.new`, JSON.stringify(ids));
  renameSync(`${file}.new`, file);
  return thread;
}

/** The tabs learn of the question by the item that waits; the first answer counts. */
function approve(_: Approval, { user, callId, signal }: CallbackContext): Promise<boolean> {
  const question = `${user} ${callId}`;
  const answered = new Promise<boolean>((resolve) => {
    questions.set(question, resolve);
    signal.addEventListener("abort", () => resolve(false));
  });
  return answered.finally(() => questions.delete(question));
}

async function events(request: IncomingMessage, response: ServerResponse, thread: Thread): Promise<void> {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  response.flushHeaders();
  // Browsers send the id of the last event when they come back.
  const last = request.headers["last-event-id"] as string | undefined;
  const news = thread.events(last, { signal: gone.signal });
  // What comes meanwhile is in it, or follows, or both: items have ids.
  if (last === undefined) response.write(`event: history\ndata: ${JSON.stringify((await thread.read()).turns)}\n\n`);
  for await (const { method, params, cursor } of news) {
    const isTaken = response.write(`id: ${cursor}\nevent: ${method}\ndata: ${JSON.stringify(params)}\n\n`);
    if (!isTaken) await once(response, "drain", { signal: gone.signal });
  }
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const user = userOf(request);
  if (user === undefined) return void response.writeHead(401).end();
  const thread = await threadOf(user);
  if (request.url === "/events") return events(request, response, thread);
  const body = JSON.parse(await text(request)) as { text?: unknown; item?: unknown; isAllowed?: unknown };
  if (request.url === "/message") {
    // What is said while the agent works is added to the turn.
    const turn = await thread.turn(String(body.text), { onBusy: "join" });
    return void response.writeHead(202).end(turn.id);
  }
  const question = request.url === "/approval" ? questions.get(`${user} ${body.item}`) : undefined;
  question?.(body.isAllowed === true);
  response.writeHead(question ? 204 : 404).end();
}

const server = createServer((request, response) => {
  answer(request, response).catch((error: Error) => {
    if (response.destroyed) return;
    if (response.headersSent) response.destroy();
    else response.writeHead(error instanceof AgentdError ? 502 : 400).end(error.message);
  });
});
server.listen(Number(port), "127.0.0.1", () => console.log("listening on", (server.address() as { port: number }).port));
