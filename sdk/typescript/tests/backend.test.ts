/** The backend of the examples: several tabs of a user, one of which reads nothing, and one that comes back. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";

import { call, message, scripted } from "./servers.js";

const LONG = "word ".repeat(200_000);
const BACKEND = fileURLToPath(new URL("../examples/backend.js", import.meta.url));

type Event = { id: string; method: string; params: Record<string, any> };

/** Starts the backend on a port of its own, and returns what asks it as a user. */
async function backend(context: TestContext, home: ReturnType<typeof scripted>) {
  const { env, model, cwd, folder } = home;
  const args = [BACKEND, "0", join(folder, "threads.json"), JSON.stringify({ offline: true, model, env, cwd })];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  const end = async () => (child.kill(), await ended);
  context.after(end);
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  const address = `http://127.0.0.1:${line.split(" ").at(-1)}`;
  const as = (user: string, more: Record<string, string> = {}) => ({ authorization: `Bearer ${user}`, ...more });
  return {
    end,
    post: (user: string, path: string, body: unknown) =>
      fetch(address + path, { method: "POST", headers: as(user), body: JSON.stringify(body) }),
    tab: (user: string, last?: string) =>
      fetch(`${address}/events`, { headers: as(user, last === undefined ? {} : { "last-event-id": last }) }),
  };
}

async function* eventsOf(response: Response): AsyncGenerator<Event, void, undefined> {
  let held = "";
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  assert.ok(reader);
  for (let { value: part } = await reader.read(); part !== undefined; { value: part } = await reader.read()) {
    const parts = (held + part).split("\n\n");
    held = parts.pop() as string;
    for (const each of parts) {
      const member = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(each)?.[1] ?? "";
      yield { id: member("id"), method: member("event"), params: JSON.parse(member("data")) };
    }
  }
}

async function until(tab: AsyncIterable<Event>, method: string): Promise<Event[]> {
  const found: Event[] = [];
  for await (const event of tab) {
    found.push(event);
    if (event.method === method) break;
  }
  return found;
}

test("the tabs of a user have the same events, in spite of a slow one", { timeout: 60_000 }, async (context) => {
  const escalated = { cmd: "true", sandbox_permissions: "require_escalated", justification: "to try it" };
  const text = { steps: [{ message: { text: LONG, chunk_chars: 100 } }] };
  const home = scripted(context, [call("exec_command", escalated), text, message("Next")]);
  const first = await backend(context, home);
  const [tab, twin, slow] = await Promise.all([first.tab("ada"), first.tab("ada"), first.tab("ada")]);
  const [events, others] = [eventsOf(tab), eventsOf(twin)];
  assert.equal((await first.post("ada", "/message", { text: "go" })).status, 202);
  let waits: Event | undefined;
  for (;;) {
    const { value } = await events.next();
    assert.ok(value);
    if (value.method === "item/started" && value.params["item"].type === "commandExecution") waits = value;
    if (value.method === "thread/status/changed" && value.params["status"].activeFlags?.includes("waitingOnApproval")) break;
  }
  const item = waits?.params["item"].id;
  assert.equal((await first.post("eve", "/approval", { item, isAllowed: true })).status, 404);
  assert.equal((await first.post("ada", "/approval", { item, isAllowed: true })).status, 204);
  const [seen, same] = await Promise.all([until(events, "turn/completed"), until(others, "turn/completed")]);
  const completed = (list: Event[]) => list.filter((it) => it.method === "item/completed").map((it) => it.params["item"].id);
  assert.ok(completed(seen).length > 0);
  assert.deepEqual(completed(same).slice(-completed(seen).length), completed(seen));
  // A tab that comes back after the backend was started again has what is gone as one event.
  await slow.body?.cancel();
  await first.end();
  const second = await backend(context, home);
  const again = eventsOf(await second.tab("ada", seen.at(-1)?.id));
  const history = eventsOf(await second.tab("ada"));
  assert.equal((await history.next()).value?.method, "history");
  assert.equal((await second.post("ada", "/message", { text: "more" })).status, 202);
  const methods = (await until(again, "turn/completed")).map((it) => it.method);
  assert.equal(methods[0], "thread/replaced");
  assert.equal(methods.filter((it) => it === "turn/completed").length, 1);
  assert.equal((await second.post("", "/message", { text: "more" })).status, 401);
});
