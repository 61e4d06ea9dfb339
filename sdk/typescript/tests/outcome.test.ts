/** What a turn leaves: texts, tokens, costs and findings, also in its errors; and what it may cost. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type TestContext, test } from "node:test";

import {
  Agent,
  BudgetExceeded,
  ConnectionLost,
  InvalidOutput,
  Overloaded,
  TurnAborted,
  TurnFailed,
  TurnInterrupted,
  TurnProblem,
  TurnTimeout,
} from "@agentd-embed/sdk";

import { type Response, fake, message, scripted, started } from "./servers.js";

const within = { timeout: 60_000 };
const BEGUN = [{ message: { text: "I look.", phase: "commentary" } }, { message: { text: "Half an ans" } }];

/** Options of an agent whose model has a price: a dollar for a million tokens; or none. */
async function priced(context: TestContext, responses: Response[], price: string | undefined) {
  const { env, cwd, folder, model: script } = scripted(context, responses);
  const server = spawn(process.env["AGENTD_PATH"] as string, ["model-server", "--script", script, "--listen", "127.0.0.1:0"], { env });
  context.after(() => server.kill("SIGKILL"));
  let address = "";
  for await (const line of createInterface({ input: server.stdout })) {
    address = /http:\/\/\S+/.exec(line)?.[0] ?? "";
    if (address) break;
  }
  const catalog = join(folder, "models.json");
  const prices = price === undefined ? undefined : { input: price, output: price };
  writeFileSync(catalog, JSON.stringify({ models: [{ id: "m", family: "gpt", is_default: true, context_window: 2_000_000, prices }] }));
  const provider = { name: "Mine", base_url: address };
  const config = { model_catalog_json: catalog, model_provider: "mine", "model_providers.mine": provider };
  return { env, cwd, model: "m", config };
}

const USED = { usage: { input_tokens: 900_000, output_tokens: 100_000 } };

test("answer and commentary come apart, and a turn knows its cost", within, async (context) => {
  const steps = [{ message: { text: "I look.", phase: "commentary" } }, { message: { text: "It works.", phase: "final_answer" } }, USED];
  const agent = await started(context, await priced(context, [{ steps }, { steps }], "1"));
  const thread = await agent.thread();
  assert.equal(thread.usage(), undefined);
  const turn = await thread.turn("go");
  const collect = async (texts: AsyncIterable<string>) => {
    let text = "";
    for await (const part of texts) text += part;
    return text;
  };
  assert.deepEqual(await Promise.all([collect(turn.text()), collect(turn.commentary())]), ["It works.", "I look."]);
  const result = await turn.result();
  assert.deepEqual([result.text, result.commentary, result.threadId, result.turnId], ["It works.", "I look.", thread.id, turn.id]);
  assert.equal(result.usage?.total.totalTokens, 1_000_000);
  assert.equal(Number(result.cost?.turn), 1);
  assert.equal(Number(thread.usage()?.cost?.thread), 1);
  const again = await thread.turn("go");
  assert.equal(await collect(again.text({ commentary: true })), "I look.It works.");
  const { cost, usage, turnUsage } = await again.result();
  assert.deepEqual([Number(cost?.thread), usage?.total.totalTokens, turnUsage?.totalTokens], [2, 2_000_000, 1_000_000]);
});

test("a turn ends when it costs too much", within, async (context) => {
  const calling = { function_call: { name: "exec_command", arguments: { cmd: "true" } } };
  const agent = await started(context, await priced(context, [{ steps: [...BEGUN, calling, USED] }, message("Never")], "1"));
  const thread = await agent.thread();
  await assert.rejects(thread.run("go", { maxCost: "0.5" }), (error) => {
    assert.ok(error instanceof BudgetExceeded, String(error));
    assert.match(error.message, /has cost 1(\.0+)? USD, more than `maxCost` 0\.5/);
    assert.deepEqual([error.threadId, error.text, Number(error.cost?.turn)], [thread.id, "Half an ans", 1]);
    return true;
  });
  for (const maxCost of [-1, Number.NaN, "much", {} as never]) {
    await assert.rejects(thread.run("go", { maxCost }), /TypeError.*`maxCost`/);
  }
  const other = await started(context, await priced(context, [{ steps: [{ delay_ms: 500 }, ...BEGUN, calling, USED] }, message("Never")], "1"));
  const busy = await other.thread();
  const first = await busy.turn("go");
  const joined = await busy.turn("and this", { onBusy: "join", maxCost: 0.5 });
  assert.equal(joined.id, first.id);
  await assert.rejects(joined.result(), BudgetExceeded);
  await assert.rejects(first.result(), TurnInterrupted);
  const unknown = await started(context, await priced(context, [message("Hi")], undefined));
  await assert.rejects(unknown.run("go", { maxCost: 1 }), /BudgetExceeded.*not known/);
});

test("errors have what the turn has done", within, async (context) => {
  const failing = { steps: [{ error: { status: 401, message: "no" } }] };
  const idle = { steps: [...BEGUN, "idle"] };
  const agent = await started(context, scripted(context, [idle, idle, idle, failing, message("no JSON")]));
  const thread = await agent.thread();
  const check = (kind: typeof TurnProblem | (new (...args: never[]) => TurnProblem), text: string) => (error: unknown) => {
    assert.ok(error instanceof kind && error instanceof TurnProblem, String(error));
    assert.deepEqual([error.threadId, error.text], [thread.id, text]);
    assert.ok(error.turnId && error.items.length > 0);
    if (text.startsWith("Half")) assert.equal(error.commentary, "I look.");
    return true;
  };
  const begun = async () => {
    const turn = await thread.turn("go");
    for await (const text of turn.text()) if (text) break;
    return turn;
  };
  const interrupted = await begun();
  await interrupted.interrupt();
  await assert.rejects(interrupted.result(), check(TurnInterrupted, "Half an ans"));
  await assert.rejects((await begun()).result({ timeout: 0 }), check(TurnTimeout, "Half an ans"));
  const abort = new AbortController();
  const aborted = await begun();
  const result = aborted.result({ signal: abort.signal });
  abort.abort();
  await assert.rejects(result, (error: Error) => error.name === "AbortError" && check(TurnAborted, "Half an ans")(error));
  await assert.rejects(thread.run("go"), check(TurnFailed, ""));
  await assert.rejects(thread.run("go", { output: { type: "object" } }), check(InvalidOutput, "no JSON"));
});

test("a run that is aborted without a reason rejects with an AbortError", within, async (context) => {
  const agent = await started(context, scripted(context, [{ steps: [...BEGUN, "idle"] }]));
  const thread = await agent.thread();
  const abort = new AbortController();
  const events = thread.events();
  const run = thread.run("go", { signal: abort.signal });
  for await (const event of events) if (event.method === "item/agentMessage/delta") break;
  abort.abort();
  await assert.rejects(run, (error: unknown) => error instanceof TurnAborted && error.name === "AbortError" && error.threadId === thread.id);
});

test("a lost connection has what the turn has done", within, async (context) => {
  const delta = { threadId: "t", turnId: "u", itemId: "i", delta: "Half" };
  const body = `await turn(); send({ method: "item/agentMessage/delta", params: ${JSON.stringify(delta)} }); await receive(); process.exit(0);`;
  const agent = await started(context, fake(context, body));
  const turn = await (await agent.thread()).turn("go");
  for await (const text of turn.text()) if (text) break;
  agent.requestUntyped("end").catch(() => undefined);
  await assert.rejects(turn.result(), (error) => error instanceof ConnectionLost && error.turn?.text === "Half" && error.turn.turnId === "u");
});

test("an overloaded server is asked again", within, async (context) => {
  const body = `await hello();
    const refuse = async () => send({ id: (await receive()).id, error: { code: -32001, message: "Server overloaded; retry later." } });
    await refuse(); await refuse();
    send({ id: (await receive()).id, result: { data: [] } });
    for (;;) await refuse();`;
  const options = fake(context, body);
  const agent = await started(context, { ...options, overloadRetries: 2 });
  assert.deepEqual(await agent.request("thread/list"), { data: [] });
  await assert.rejects(agent.request("thread/list"), Overloaded);
  const once = await started(context, { ...fake(context, body), overloadRetries: 0 });
  await assert.rejects(once.request("thread/list"), Overloaded);
  await assert.rejects(Agent.start({ ...options, overloadRetries: -1 }), RangeError);
});

test("a review has its text and its findings", within, async (context) => {
  const finding = { title: "Off by one", body: "It ends too late.", priority: 1, confidence: 0.9, location: { path: "a.ts", startLine: 3, endLine: 4 } };
  const body = `await hello(); await thread();
    for (const more of [{ findings: ${JSON.stringify([finding])} }, {}]) {
      const { id, method, params } = await receive();
      if (method !== "review/start" || params.target.type !== "uncommittedChanges") process.exit(9);
      const place = params.delivery === "detached" ? "copy" : "t";
      send({ id, result: { turn: { id: "u" }, reviewThreadId: place } });
      send({ method: "turn/started", params: { threadId: place, turn: { id: "u" } } });
      send({ method: "item/completed", params: { threadId: place, turnId: "u", item: { type: "exitedReviewMode", id: "x", review: "One problem.", ...more } } });
      send({ method: "turn/completed", params: { threadId: place, turn: { id: "u", status: "completed", items: [] } } });
    }
    await forever();`;
  const thread = await (await started(context, fake(context, body))).thread();
  const result = await (await thread.review({ type: "uncommittedChanges" })).result();
  assert.deepEqual([result.review, result.findings, result.threadId], ["One problem.", [finding], "t"]);
  const older = await (await thread.review({ type: "uncommittedChanges" }, { delivery: "detached" })).result();
  assert.deepEqual([older.review, older.findings, older.threadId], ["One problem.", undefined, "copy"]);
});

test("notifications can be left out, but for those that are needed", within, async (context) => {
  const options = scripted(context, [message("Hi")]);
  const agent = await started(context, { ...options, capabilities: { optOutNotificationMethods: ["item/agentMessage/delta"] } });
  const thread = await agent.thread();
  const start = thread.cursor;
  const methods = new Set<string>();
  agent.onNotification(({ method }) => methods.add(method));
  assert.equal((await thread.run("go")).text, "Hi");
  assert.ok(methods.has("item/completed") && !methods.has("item/agentMessage/delta"));
  const seen: string[] = [];
  for await (const { method } of thread.events(start)) {
    seen.push(method);
    if (method === "turn/completed") break;
  }
  assert.equal(seen.filter((it) => it === "turn/started").length, 1);
  for (const needed of ["turn/completed", "serverRequest/resolved"]) {
    const capabilities = { optOutNotificationMethods: [needed] };
    await assert.rejects(Agent.start({ ...options, capabilities }), /TypeError.*which this package needs/);
  }
});
