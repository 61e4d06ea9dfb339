/** All events of a thread: those of other clients, after a position, over lost connections, and turns to join. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { type TestContext, test } from "node:test";

import { Agent, type ThreadEvent, ThreadBusy } from "@agentd-embed/sdk";

import { IDLE, type Response, fake, fakeSocket, listen, message, proxy, scripted, started } from "./servers.js";

const within = { timeout: 60_000 };
const LONG = Array.from({ length: 300 }, (_, at) => `word ${at} of it `).join("");

/** A server behind a socket and a proxy, and agents of it. */
async function shared(context: TestContext, responses: Response[]) {
  const home = scripted(context, responses);
  const path = `${home.folder}/s.sock`;
  const [, server] = await listen(context, home, ["--listen", `unix://${path}`]);
  const gate = await proxy(context, path);
  const options = { offline: true, model: home.model };
  const agent = () => started(context, { ...options, address: `unix://${path}` });
  const gated = () => started(context, { ...options, address: gate.address });
  return { home, path, server, gate, agent, gated };
}

/** The events until so many turns have ended, and the text of each message. */
async function until(events: AsyncIterable<ThreadEvent>, turns: number) {
  const found: ThreadEvent[] = [];
  const texts = new Map<string, string>();
  for await (const event of events) {
    found.push(event);
    if (event.method === "item/agentMessage/delta") {
      const { itemId, delta } = event.params;
      texts.set(itemId, (texts.get(itemId) ?? "") + delta);
    }
    // A message that was completed during a loss comes whole.
    if (event.method === "item/completed" && event.params.item.type === "agentMessage") {
      const { id, text } = event.params.item;
      assert.ok(text.startsWith(texts.get(id) ?? ""), `"${texts.get(id)}" is not the beginning of the text`);
      texts.set(id, text);
    }
    if (event.method === "turn/completed" && --turns === 0) break;
  }
  return { found, texts: [...texts.values()], methods: found.map((it) => it.method) };
}

test("the events of another client's turns arrive, for several iterations", within, async (context) => {
  const { home, agent } = await shared(context, [message("One"), message("Two")]);
  const [first, second] = [await agent(), await agent()];
  const thread = await first.thread({ cwd: home.cwd });
  const other = await second.resume(thread.id);
  const [all, late] = [until(other.events(), 2), until(other.events(), 1)];
  const notified: string[] = [];
  const remove = second.onNotification(({ method }) => notified.push(method));
  await thread.run("go");
  const { cursor } = (await late).found.at(-1) as ThreadEvent;
  await thread.run("more");
  assert.deepEqual((await all).texts, ["One", "Two"]);
  assert.ok((await all).methods.includes("thread/tokenUsage/updated"));
  assert.deepEqual((await late).texts, ["One"]);
  assert.equal(other.cursor, (await all).found.at(-1)?.cursor);
  assert.ok(notified.includes("turn/completed"));
  remove();
  // After the first turn, in another process: a third client.
  const third = await (await agent()).resume(thread.id);
  const again = await until(third.events(cursor), 1);
  assert.deepEqual(again.texts, ["Two"]);
  assert.ok(!again.found.some((it) => it.cursor === cursor));
  assert.equal(third.cursor, again.found.at(-1)?.cursor);
  // The same next to another iteration, which gets nothing twice.
  const live = until(other.events(), 1);
  assert.deepEqual((await until(other.events(cursor), 1)).texts, ["Two"]);
  await thread.run("once more").catch(() => undefined);
  assert.equal((await live).found.filter((it) => it.method === "turn/started").length, 1);
});

test("events go on over lost connections, with nothing lost or doubled", within, async (context) => {
  const { home, agent, gated, gate } = await shared(context, [message(LONG, { chunk_chars: 8, chunk_delay_ms: 2 }), message("Next")]);
  const thread = await (await agent()).thread({ cwd: home.cwd });
  const other = await (await gated()).resume(thread.id);
  let seen = 0;
  const cutting = async function* () {
    for await (const event of other.events()) {
      if (event.method === "item/agentMessage/delta" && (seen += event.params.delta.length) > 500) {
        seen = 0;
        gate.cut();
      }
      yield event;
    }
  };
  const events = until(cutting(), 2);
  await thread.run("go");
  await thread.run("more");
  const { texts, found } = await events;
  assert.deepEqual(texts, [LONG, "Next"]);
  const cursors = found.map((it) => it.cursor);
  assert.equal(new Set(cursors).size, cursors.length);
  assert.ok(gate.connections() > 3, `${gate.connections()} connections`);
});

test("what a restarted server no longer has is one event", within, async (context) => {
  const { home, path, agent, server } = await shared(context, [message("One"), IDLE]);
  const first = await agent();
  const thread = await first.thread({ cwd: home.cwd });
  const { found } = await until((async function* () {
    const events = thread.events();
    await thread.run("go");
    yield* events;
  })(), 1);
  await thread.turn("more");
  const events = thread.events();
  const next = events.next();
  server.kill("SIGKILL");
  await once(server, "exit");
  await listen(context, home, ["--listen", `unix://${path}`]);
  for (const iteration of [events, (await first.resume(thread.id)).events(found.at(-1)?.cursor)]) {
    let event: ThreadEvent | undefined = iteration === events ? ((await next).value ?? undefined) : undefined;
    while (event?.method !== "thread/replaced") event = (await iteration.next()).value ?? undefined;
    assert.equal(event.params.turns.at(-1)?.status, "interrupted");
    assert.equal(typeof event.cursor, "string");
    await iteration.return();
  }
});

test("a running turn is joined by another client", within, async (context) => {
  const steps = [{ message: { text: "I begin.", phase: "commentary" } }, { message: { text: LONG, chunk_chars: 8, chunk_delay_ms: 4 } }];
  const { home, agent } = await shared(context, [{ steps }, IDLE]);
  const thread = await (await agent()).thread({ cwd: home.cwd });
  assert.equal(await thread.running(), undefined);
  const turn = await thread.turn("go");
  for await (const text of turn.text()) if (text) break;
  const other = await (await agent()).resume(thread.id);
  const same = await other.running();
  assert.equal(same?.id, turn.id);
  let text = "";
  for await (const part of same?.text() ?? []) text += part;
  const result = await same?.result();
  assert.deepEqual([text, result?.text, result?.commentary], [LONG, LONG, "I begin."]);
  assert.equal((await turn.result()).text, LONG);
});

test("a busy thread is waited for, joined, or refused", within, async (context) => {
  const { home, agent } = await shared(context, [IDLE, message("Next")]);
  const thread = await (await agent()).thread({ cwd: home.cwd });
  const other = await (await agent()).resume(thread.id);
  const turn = await thread.turn("go", { onBusy: "error" });
  for await (const text of turn.text()) if (text) break;
  await assert.rejects(thread.turn("again", { onBusy: "error" }), ThreadBusy);
  await assert.rejects(other.run("again", { onBusy: "error" }), (error) => error instanceof ThreadBusy && error.threadId === thread.id);
  await assert.rejects(other.turn("again", { onBusy: "never" as never }), /TypeError.*`onBusy`/);
  const joined = await other.turn("and this", { onBusy: "join" });
  assert.equal(await thread.steer("and that"), true);
  assert.equal(joined.id, turn.id);
  assert.equal(await other.interrupt(), true);
  await assert.rejects(joined.result(), /TurnInterrupted/);
  await assert.rejects(turn.result(), /TurnInterrupted/);
  assert.equal(await other.interrupt(), false);
  // Nothing is in progress: a turn of its own.
  assert.equal((await other.run("more", { onBusy: "join" })).text, "Next");
  await assert.rejects(other.run("no more", { onBusy: "error" }), /TurnFailed/);
});

test("a thread is not busy with a turn that ended during a loss", within, async (context) => {
  const { home, agent, gated, gate } = await shared(context, [IDLE, message("Next")]);
  const other = await (await agent()).thread({ cwd: home.cwd });
  const client = await gated();
  const thread = await client.resume(other.id);
  const events = thread.events();
  const turn = await other.turn("go");
  for await (const { method } of events) if (method === "turn/started") break;
  await assert.rejects(thread.turn("again", { onBusy: "error" }), ThreadBusy);
  await gate.lose();
  await turn.interrupt();
  await assert.rejects(turn.result(), /TurnInterrupted/);
  gate.refuse(false);
  assert.equal((await thread.run("more", { onBusy: "error" })).text, "Next");
});

test("an iteration of events ends by its signal and with the agent", within, async (context) => {
  const agent = await Agent.start(scripted(context, []));
  const thread = await agent.thread();
  const abort = new AbortController();
  const first = thread.events(undefined, { signal: abort.signal }).next();
  const second = thread.events().next();
  second.catch(() => undefined);
  abort.abort();
  await assert.rejects(first, { name: "AbortError" });
  await agent.close();
  await assert.rejects(second, /connection was closed/);
  assert.throws(() => thread.events(5 as never), /TypeError.*`cursor`/);
});

// Of the events that are counted, the server leaves out one: the client cannot know which.
test("a new event among those of an unknown number reaches every reader", within, async (context) => {
  const body = `await hello();
    let now = 3;
    const event = (at) => send({ method: "x", params: { threadId: "t", at }, eventCursor: String(at) });
    const answer = ({ id, params }, events) => {
      const replay = events === undefined ? {} : { eventReplay: { type: "replayed", events, openRequestIds: [] } };
      send({ id, result: { thread: { id: "t", turns: [] }, eventCursor: String(now), ...replay } });
      return params.eventCursor;
    };
    answer(await receive());
    const asked = [answer(await receive(), 2)];
    event(2); now = 4; event(4);
    asked.push(answer(await receive()), answer(await receive(), 1));
    event(4);
    asked.push(answer(await receive()));
    send({ id: (await receive()).id, result: { data: asked } });
    await forever();`;
  const capabilities = { optOutNotificationMethods: ["turn/diff/updated" as const] };
  const agent = await started(context, { ...fake(context, body), capabilities });
  const thread = await agent.thread();
  const numbers = async (cursor?: string) => {
    const taken: unknown[] = [];
    for await (const event of thread.events(cursor)) {
      const { at } = event.params as { at?: number };
      taken.push(at);
      if (at === 4) return taken;
    }
    return taken;
  };
  assert.deepEqual(await Promise.all([numbers(), numbers("1")]), [[4], [2, 4]]);
  assert.deepEqual(await agent.requestUntyped("thread/list"), { data: ["1", null, "3", null] });
});

test("an iteration that is left while it is opened keeps nothing", within, async (context) => {
  const asked: string[] = [];
  const ending = new AbortController();
  const socket = await fakeSocket(context, {
    answers: ({ id, method, params }) => {
      asked.push(method);
      if (method === "thread/list") return [{ id, result: { data: [] } }];
      if (method !== "thread/resume") return undefined;
      // The answer comes after the iteration was left.
      ending.abort();
      const event = (at: number) => ({ method: "x", params: { threadId: "t", at }, eventCursor: String(at) });
      const eventReplay = { type: "replayed", events: 1, openRequestIds: [] };
      return [{ id, result: { thread: { id: params["threadId"], turns: [] }, eventCursor: "1", eventReplay } }, event(1)];
    },
  });
  const agent = await started(context, { address: socket.address });
  const thread = await agent.thread();
  await assert.rejects(thread.events("0", { signal: ending.signal }).next(), { name: "AbortError" });
  await agent.requestUntyped("thread/list");
  socket.cut();
  await agent.requestUntyped("thread/list").catch(() => undefined);
  await agent.requestUntyped("thread/list");
  // Nobody waits for events of the thread on the new connection.
  assert.equal(asked.filter((it) => it === "thread/resume").length, 1);
});
