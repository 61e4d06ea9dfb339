/** Unread events: bounded, merged, and never in the way of the process or of other readers for long. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { ConnectionLost, type Turn } from "@agentd-embed/sdk";

import { fake, listen, message, scripted, started, turnOf } from "./servers.js";

const within = { timeout: 120_000 };

/**
 * Says how late a timer has been at most while something goes on, as far as this process was at work meanwhile: another
 * one on the same machine may delay it, too.
 */
function lateness(context: TestContext): () => number {
  let latest = 0;
  let last = performance.now();
  let used = process.cpuUsage();
  const timer = setInterval(() => {
    const now = performance.now();
    const { user, system } = process.cpuUsage(used);
    latest = Math.max(latest, Math.min(now - last - 5, (user + system) / 1000));
    last = now;
    used = process.cpuUsage();
  }, 5);
  context.after(() => clearInterval(timer));
  return () => {
    clearInterval(timer);
    return latest;
  };
}

/** Runs it up to five times, until it takes less than `limit`, and says the least: other work holds up single runs. */
async function least(limit: number, run: () => Promise<number>): Promise<number> {
  let best = Infinity;
  for (let runs = 0; runs < 5 && best >= limit; runs++) best = Math.min(best, await run());
  return best;
}

async function textOf(turn: Turn): Promise<string> {
  let text = "";
  for await (const part of turn.text()) text += part;
  return text;
}

/** Writes many events of a turn, as fast as the client takes them. */
const FLOOD = `
  import { once } from "node:events";
  const write = async (message) => { if (!process.stdout.write(JSON.stringify(message) + "\\n")) await once(process.stdout, "drain"); };
  const place = { threadId: "t", turnId: "u" };
  const delta = (itemId, text) => write({ method: "item/agentMessage/delta", params: { ...place, itemId, delta: text } });
  const completed = () => write({ method: "turn/completed", params: { threadId: "t", turn: { id: "u", status: "completed", items: [] } } });
`;

test("200,000 events of one text are read at once, and block nothing", within, async (context) => {
  const body = `${FLOOD} await turn();
    for (let at = 0; at < 200_000; at++) await delta("i", "word ");
    await completed(); await forever();`;
  const worst = await least(50, async () => {
    const agent = await started(context, fake(context, body));
    const turn = await turnOf(agent);
    const late = lateness(context);
    const before = process.memoryUsage().rss;
    // The turn is unread until everything has arrived.
    const isThere = new Promise<void>((resolve) => agent.onNotification(({ method }) => method === "turn/completed" && resolve()));
    await isThere;
    const began = performance.now();
    const text = await textOf(turn);
    const took = performance.now() - began;
    context.diagnostic(`read in ${took.toFixed(0)} ms, timers late by ${late().toFixed(0)} ms, ${((process.memoryUsage().rss - before) / 1e6).toFixed(0)} MB more`);
    assert.equal(text.length, 1_000_000);
    assert.ok(took < 1_000, `${took} ms`);
    return late();
  });
  assert.ok(worst < 50, `${worst} ms`);
});

test("200,000 events that cannot be merged hold the server back, and none is lost", within, async (context) => {
  const body = `${FLOOD} await turn();
    for (let at = 0; at < 200_000; at++) await delta(at % 2 ? "a" : "b", "x");
    await completed(); await forever();`;
  const worst = await least(50, async () => {
    const agent = await started(context, fake(context, body));
    let arrived = 0;
    agent.onNotification(() => (arrived += 1));
    const turn = await turnOf(agent);
    const late = lateness(context);
    await sleep(1_000);
    const atRest = arrived;
    assert.ok(arrived >= 4_096 && arrived < 10_000, `${arrived} events`);
    await sleep(200);
    assert.equal(arrived, atRest);
    globalThis.gc?.();
    const before = process.memoryUsage().rss;
    const began = performance.now();
    assert.equal((await textOf(turn)).length, 200_000);
    const latest = late();
    context.diagnostic(`read in ${(performance.now() - began).toFixed(0)} ms, timers late by ${latest.toFixed(0)} ms, ${((process.memoryUsage().rss - before) / 1e6).toFixed(0)} MB more`);
    return latest;
  });
  assert.ok(worst < 50, `${worst} ms`);
});

test("a reader that takes nothing does not stop requests and other readers", within, async (context) => {
  const parts = Array.from({ length: 3_000 }, (_, at) => ({ reasoning: { summary: [`thought ${at}`] } }));
  const home = scripted(context, [
    { steps: [...parts, { message: "The answer" }] },
    message("Later"),
  ]);
  const agent = await started(context, home);
  const thread = await agent.thread();
  const turn = await thread.turn("go");
  const iteration = thread.events();
  const began = performance.now();
  // Neither is read: what follows waits behind their events, until they are given up.
  assert.equal((await agent.request("thread/list", {})).nextCursor ?? null, null);
  assert.equal((await thread.run("more")).text, "Later");
  context.diagnostic(`${(performance.now() - began).toFixed(0)} ms`);
  const result = await turn.result();
  assert.equal(result.text, "The answer");
  assert.ok(result.usage);
  const methods = new Set<string>();
  for await (const event of iteration) {
    methods.add(event.method);
    if (event.method === "thread/replaced") {
      assert.deepEqual(event.params.turns.map((it) => it.status), ["completed", "completed"]);
      break;
    }
    if (event.method === "turn/completed" && event.params.turn.id !== turn.id) break;
  }
  assert.ok(methods.has("thread/replaced") || methods.has("turn/completed"));
});

test("a slow reader of a socket gets everything", within, async (context) => {
  const text = Array.from({ length: 50_000 }, (_, at) => `${at} `).join("");
  const home = scripted(context, [message(text, { chunk_chars: 4 })]);
  const [address] = await listen(context, home, ["--listen", `unix://${home.folder}/s.sock`]);
  const agent = await started(context, { address, offline: true, model: home.model });
  const turn = await (await agent.thread({ cwd: home.cwd })).turn("go");
  let seen = "";
  let parts = 0;
  for await (const part of turn.text()) {
    seen += part;
    if (++parts < 20) await sleep(20);
  }
  assert.equal(seen, text);
});

test("a server that is killed while it is held back leaves whole events", within, async (context) => {
  const body = `${FLOOD} await turn();
    for (let at = 0; at < 50_000; at++) await delta(at % 2 ? "a" : "b", (at === 0 ? process.pid : at) + " ");
    await forever();`;
  const agent = await started(context, fake(context, body));
  let pid = 0;
  let arrived = 0;
  const isFull = new Promise<void>((resolve) => {
    agent.onNotification((notification) => {
      if (notification.method !== "item/agentMessage/delta") return;
      pid ||= Number(notification.params.delta);
      if (++arrived === 4_096) resolve();
    });
  });
  const turn = await turnOf(agent);
  await isFull;
  process.kill(pid, "SIGKILL");
  const numbers: number[] = [];
  await assert.rejects(
    async () => {
      for await (const text of turn.text()) numbers.push(...text.trim().split(" ").map(Number));
    },
    (error) => error instanceof ConnectionLost && /SIGKILL/.test(error.message) && (error.turn?.text.length ?? 0) > 0,
  );
  assert.ok(numbers.length >= 4_096, `${numbers.length} events`);
  assert.deepEqual(numbers.slice(1), Array.from(numbers.slice(1), (_, at) => at + 1));
});
