/** Turns and compactions of a thread run one after the other, and a turn that joins another client's has its answer. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as nextLoop } from "node:timers/promises";

import { Agent, ConnectionLost, InvalidRequest, TurnFailed, TurnInterrupted } from "@agentd-embed/sdk";

import { fake, started } from "./servers.js";

const within = { timeout: 30_000 };

/** A server with a thread, and words to say what happens in it. */
const THREAD = `await hello(); await thread();
  const answer = async (result) => { const call = await receive(); send({ id: call.id, result }); return call; };
  const check = (holds, call) => { if (!holds) { console.error(JSON.stringify(call)); process.exit(9); } };
  const expect = async (text, turn) => {
    const call = await answer({ turn: { id: turn } });
    check(call.method === "turn/start" && call.params.input[0].text === text, call);
  };
  const say = (method, turnId, item, status = "completed") => {
    const turn = method.startsWith("turn/") ? { id: turnId, status } : undefined;
    send({ method, params: { threadId: "t", turnId, turn, item, itemId: "i", delta: item?.text } });
  };
  const end = (turn, status) => say("turn/completed", turn, undefined, status);
`;

test("a turn waits for the one before it", within, async (context) => {
  const body = `${THREAD}
    await expect("first", "u");
    check((await answer({ data: [] })).method === "thread/list");
    end("other"); end("u");
    // It is aborted before the answer: it is interrupted, and is in the way until it has ended.
    const start = await receive();
    check(start.params.input[0].text === "second", start);
    send({ id: "q", method: "mcpServer/elicitation/request", params: {} }); await receive();
    check((await answer({ data: [] })).method === "thread/list");
    send({ id: start.id, result: { turn: { id: "v" } } });
    const call = await answer({});
    check(call.method === "turn/interrupt" && call.params.turnId === "v", call);
    end("v", "interrupted");
    await expect("third", "w"); end("w");
    await forever();`;
  let asked: () => void = () => undefined;
  const isAsked = new Promise<void>((resolve) => (asked = resolve));
  const elicit = () => (asked(), { action: "decline" as const });
  const agent = await started(context, { ...fake(context, body), elicit });
  const thread = await agent.thread();
  // Nobody reads it.
  await thread.turn("first");
  const abort = new AbortController();
  const second = thread.run("second", { signal: abort.signal });
  const gone = new AbortController();
  const given = thread.run("given up while it waits", { signal: gone.signal });
  const third = thread.run("third");
  await agent.request("thread/list");
  gone.abort(new Error("gone"));
  await assert.rejects(given, /gone/);
  await isAsked;
  abort.abort(new Error("enough"));
  await assert.rejects(second, /enough/);
  await agent.request("thread/list");
  assert.equal((await third).turn.id, "w");
});

test("whoever waits learns of a refusal and of the end", within, async (context) => {
  const body = `${THREAD}
    send({ id: (await receive()).id, error: { code: -32600, message: "no" } });
    await expect("b", "u");
    await receive();
    process.exit(0);`;
  const agent = await started(context, fake(context, body));
  const thread = await agent.thread();
  const [first, second, third] = ["a", "b", "c"].map((text) => thread.turn(text));
  third?.catch(() => undefined);
  await assert.rejects(first as Promise<unknown>, InvalidRequest);
  assert.equal((await second)?.id, "u");
  await assert.rejects(agent.request("thread/list"), ConnectionLost);
  await assert.rejects(third as Promise<unknown>, ConnectionLost);
});

test("an agent that is closed ends what waits", within, async (context) => {
  const agent = await Agent.start(fake(context, `${THREAD} await expect("a", "u"); await forever();`));
  const thread = await agent.thread();
  await thread.turn("a");
  const waits = [thread.turn("b"), thread.compact()];
  for (const wait of waits) wait.catch(() => undefined);
  await nextLoop();
  await agent.close();
  for (const wait of waits) await assert.rejects(wait, ConnectionLost);
});

test("a turn that joins another client's has its answer", within, async (context) => {
  const body = `${THREAD}
    const message = (text) => ({ type: "agentMessage", id: text, text });
    await expect("go", "u");
    say("item/completed", "host", message("before"));
    say("turn/started", "u");
    say("item/completed", "earlier", message("of a turn that is over"));
    say("item/started", "host", message(""));
    say("item/agentMessage/delta", "host", message("both"));
    say("item/completed", "host", message("both"));
    end("host"); end("u");
    await forever();`;
  const agent = await started(context, fake(context, body));
  const result = await (await agent.thread()).run("go");
  assert.deepEqual([result.text, result.turn.id, result.items.length], ["both", "u", 1]);
});

for (const status of ["completed", "failed", "interrupted"]) {
  test(`a compaction has ended when it resolves: ${status}`, within, async (context) => {
    const body = `${THREAD}
      const call = await receive();
      check(call.method === "thread/compact/start", call);
      // A turn of another client, which compacts by itself.
      say("turn/started", "other"); say("item/started", "other", { type: "userMessage" });
      say("item/started", "other", { type: "contextCompaction" }); end("other");
      send({ id: call.id, result: {} });
      say("turn/started", "c"); say("item/started", "c", { type: "contextCompaction" });
      end("c", ${JSON.stringify(status)});
      await expect("go", "u");
      await forever();`;
    const agent = await started(context, fake(context, body));
    const thread = await agent.thread();
    const compaction = thread.compact();
    const turn = thread.turn("go");
    if (status === "completed") await compaction;
    else await assert.rejects(compaction, status === "failed" ? TurnFailed : TurnInterrupted);
    assert.equal((await turn).id, "u");
  });
}
