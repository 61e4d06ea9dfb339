/** Callbacks: next to each other, withdrawn in time, with their context, and silent about what they throw. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { type CallbackFailure, type ToolContext, ToolError, tool } from "@agentd-embed/sdk";

import { type Response, call, fake, listen, message, scripted, started } from "./servers.js";

const within = { timeout: 60_000 };
const none = { type: "object", properties: {} };

/** A promise, and what settles it. */
function signal<T = void>() {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((done) => (resolve = done));
  return { promise, resolve };
}

test("fifty slow callbacks do not delay another user's tool", within, async (context) => {
  const body = `await hello(); await thread();
    const first = await receive();
    for (let at = 0; at < 50; at++) send({ id: "slow" + at, method: "item/commandExecution/requestApproval", params: { threadId: "t" + at, turnId: "u" + at, itemId: "i" } });
    const began = performance.now();
    send({ id: "quick", method: "item/tool/call", params: { threadId: "t", turnId: "u", callId: "c", tool: "quick", arguments: {} } });
    const answer = await receive();
    send({ id: first.id, result: { data: [answer.id, performance.now() - began] } });
    await forever();`;
  const quick = tool({ name: "quick", description: "x", parameters: none, run: () => "now" });
  const approve = (_: unknown, { signal: ended }: { signal: AbortSignal }) => sleep(10_000, true, { signal: ended });
  const agent = await started(context, { ...fake(context, body), approve, tools: [quick] });
  await agent.thread();
  const { data } = (await agent.requestUntyped("thread/list")) as { data: [string, number] };
  context.diagnostic(`${data[1].toFixed(1)} ms`);
  assert.equal(data[0], "quick");
  assert.ok(data[1] < 50, `${data[1]} ms`);
});

test("a tool learns where it was called, and of the end of its turn", within, async (context) => {
  const [begun, ended] = [signal<ToolContext>(), signal<number>()];
  const wait = tool({
    name: "wait",
    description: "Waits.",
    parameters: none,
    async run(_, place) {
      begun.resolve(place);
      await new Promise((resolve) => place.signal.addEventListener("abort", resolve));
      ended.resolve(performance.now());
      throw new Error("ended");
    },
  });
  const failures: unknown[] = [];
  const log = (text: string) => failures.push(text);
  const agent = await started(context, { ...scripted(context, [call("wait", {}), call("wait", {})]), tools: [wait], log });
  const thread = await agent.thread({ context: { user: "thread" } });
  const turn = await thread.turn("go", { context: { user: "turn" } });
  const place = await begun.promise;
  assert.deepEqual([place.threadId, place.turnId, place.user], [thread.id, turn.id, { user: "turn" }]);
  assert.ok(place.callId);
  const began = performance.now();
  await turn.interrupt();
  const took = (await ended.promise) - began;
  context.diagnostic(`${took.toFixed(1)} ms`);
  assert.ok(took < 100, `${took} ms`);
  assert.equal((place.signal.reason as Error).name, "AbortError");
  assert.deepEqual(failures, []);
});

test("a sub-agent's callbacks get the context of the turn that gave it work", within, async (context) => {
  const seen: unknown[] = [];
  const whose = tool({
    name: "whose",
    description: "The user.",
    parameters: none,
    run: (_, { user, threadId }) => void seen.push([user, threadId === thread.id]),
  });
  const of = (conversation: number, ...responses: Response[]) => responses.map((it) => ({ ...it, conversation }));
  const wait = call("wait_agent", { targets: ["Ada"], timeout_ms: 20_000 });
  const goesOn = [call("send_input", { target: "Ada", message: "again" }), wait, message("Done")];
  const again = [call("whose", {}), message("Seen")];
  const home = scripted(context, [
    ...of(0, call("spawn_agent", { message: "look" }), wait, message("Done"), ...goesOn, ...goesOn),
    ...of(1, ...again, ...again, ...again),
  ]);
  const [address] = await listen(context, home, ["--listen", `unix://${home.folder}/s.sock`]);
  const options = { address, offline: true, model: home.model, tools: [whose] };
  const agent = await started(context, options);
  let thread = await agent.thread({ cwd: home.cwd, context: "the thread's" });
  await thread.run("go", { context: "Ada" });
  await thread.run("on", { context: "Grace" });
  await agent.close();
  // In another process the turns of the thread say who its agents are.
  thread = await (await started(context, options)).resume(thread.id, { context: "resumed" });
  await thread.run("on");
  assert.deepEqual(seen, [["Ada", false], ["Grace", false], ["resumed", false]]);
});

test("a question that another client answers is withdrawn here", within, async (context) => {
  const escalated = { cmd: "touch made", sandbox_permissions: "require_escalated", justification: "to make it" };
  const home = scripted(context, [call("exec_command", escalated), message("Done")]);
  const [address] = await listen(context, home, ["--listen", `unix://${home.folder}/s.sock`]);
  const [asked, withdrawn] = [signal(), signal<unknown>()];
  const options = { address, offline: true, model: home.model };
  const slow = await started(context, {
    ...options,
    approve: async (_, { signal: ended, user }) => {
      asked.resolve();
      await new Promise((resolve) => ended.addEventListener("abort", resolve));
      withdrawn.resolve(user);
      return false;
    },
  });
  const quick = await started(context, { ...options, approve: () => asked.promise.then(() => true) });
  const thread = await slow.thread({ cwd: home.cwd, approvalPolicy: "onRequest", context: "mine" });
  await quick.resume(thread.id);
  assert.equal((await thread.run("go")).text, "Done");
  assert.equal(await withdrawn.promise, "mine");
});

for (const sendToolErrors of [false, true]) {
  test(`what a tool throws is logged, and the model learns of it: ${sendToolErrors}`, within, async (context) => {
    const fail = tool({
      name: "fail",
      description: "Fails.",
      parameters: { type: "object", properties: { how: { type: "string" } } },
      run({ how }) {
        throw how === "told" ? new ToolError("try Vienna") : new Error("password 1234");
      },
    });
    const logged: [string, unknown][] = [];
    const failures: CallbackFailure[] = [];
    const seen = sendToolErrors ? "password 1234" : "The tool failed.";
    const responses = [
      call("fail", { how: "told" }),
      { expect: { tool_output_contains: "try Vienna" }, ...call("fail", { how: "secretly" }) },
      { expect: { tool_output_contains: seen, ...(!sendToolErrors && { not_contains: "1234" }) }, ...message("Done") },
    ];
    const agent = await started(context, {
      ...scripted(context, responses),
      tools: [fail],
      sendToolErrors,
      log: (text, error) => logged.push([text, error]),
      onError: (_, failure) => failures.push(failure),
    });
    const thread = await agent.thread();
    assert.equal((await thread.run("go")).text, "Done");
    assert.equal(logged.length, 1);
    assert.match(logged[0]?.[0] ?? "", /the tool `fail` failed in thread /);
    assert.deepEqual(failures.map((it) => [it.callback, it.tool, it.threadId]), [["tool", "fail", thread.id]]);
  });
}

test("a handler of notifications that throws stops nothing", within, async (context) => {
  const logged: string[] = [];
  const agent = await started(context, { ...scripted(context, [message("Hi")]), log: (text) => logged.push(text) });
  agent.onNotification(() => {
    throw new Error("mine");
  });
  assert.equal((await agent.run("go")).text, "Hi");
  assert.match(logged[0] ?? "", /`onNotification` failed/);
});
