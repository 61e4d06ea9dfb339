/** The methods of threads against the real program: lists, forks, goals, undo, reviews; and arguments of wrong types. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { Agent } from "@agentd-embed/sdk";

import { all, message, scripted, started } from "./servers.js";

const within = { timeout: 60_000 };

test("threads are listed page after page, with filters, and archived", within, async (context) => {
  const agent = await started(context, scripted(context, [message("Hi")]));
  const ids: string[] = [];
  for (let at = 0; at < 5; at++) {
    const thread = await agent.thread();
    await thread.run(`number ${at}`);
    ids.push(thread.id);
  }
  const listed = (await all(agent.list({ limit: 2 }))).map((it) => it.id);
  assert.deepEqual(listed, [...ids].reverse());
  assert.deepEqual((await all(agent.list({ searchTerm: "number 3" }))).map((it) => it.id), [ids[3]]);
  const thread = await agent.resume(ids[0] as string);
  await thread.archive();
  assert.deepEqual((await all(agent.list({ archived: true }))).map((it) => it.id), [ids[0]]);
  await thread.unarchive();
  assert.equal((await all(agent.list())).length, 5);
  const fork = await thread.fork();
  assert.equal((await fork.read()).forkedFromId, thread.id);
});

test("a thread has a goal", within, async (context) => {
  const done = { steps: [{ function_call: { name: "update_goal", arguments: { status: "complete" } } }] };
  const options = scripted(context, [done, message("Reached")]);
  const agent = await started(context, { ...options, config: { "features.goals": true } });
  const thread = await agent.thread();
  assert.equal(await thread.goal(), undefined);
  const events = thread.events();
  const goal = await thread.setGoal({ objective: "All tests pass", tokenBudget: 100_000 });
  assert.deepEqual([goal.objective, goal.tokenBudget], ["All tests pass", 100_000]);
  // The turn starts by itself.
  for await (const { method } of events) if (method === "turn/completed") break;
  assert.equal((await thread.goal())?.status, "complete");
  await thread.clearGoal();
  assert.equal(await thread.goal(), undefined);
});

test("messages wait in a queue", within, async (context) => {
  const runs = { steps: [{ function_call: { name: "exec_command", arguments: { cmd: "touch x" } } }] };
  let asked = () => {};
  const isAsked = new Promise<void>((done) => (asked = done));
  const approve = (): Promise<boolean> => {
    asked();
    return new Promise(() => {});
  };
  const agent = await started(context, { ...scripted(context, [runs, message("One"), message("Two")]), approve });
  const thread = await agent.thread({ sandbox: "readOnly", approvalPolicy: "unlessTrusted" });
  const events = thread.events();
  const turn = await thread.turn("begin");
  await isAsked;
  const first = await thread.queue("first", { clientId: "own" });
  assert.deepEqual(await thread.queue("first", { clientId: "own" }), first);
  assert.equal(first.clientUserMessageId, "own");
  const second = await thread.queue("secnd");
  const gone = await thread.queue("never mind");
  await thread.updateQueued(second.id, "second");
  await thread.reorderQueue([second.id, gone.id, first.id]);
  assert.deepEqual([await thread.deleteQueued(gone.id), await thread.deleteQueued(gone.id)], [true, false]);
  const queue = await thread.queued();
  const parts = ["second", "first"].map((text) => [{ type: "text", text }]);
  assert.deepEqual([queue.data.map(({ input }) => input), queue.pause], [parts, null]);
  await turn.interrupt();
  for await (const event of events) {
    if (event.method !== "thread/queue/changed" || !event.params.pause) continue;
    assert.deepEqual([event.params.length, event.params.pause.reason], [2, "interrupted"]);
    break;
  }
  const queued = await thread.startQueue(first.id);
  const later = thread.events();
  assert.equal((await queued.result()).text, "One");
  for await (const { method, params } of later) {
    if (method === "item/completed" && params.item.type === "agentMessage" && params.item.text === "Two") break;
  }
  assert.deepEqual((await thread.queued()).data, []);
});

test("what was said is found", within, async (context) => {
  const responses = [message("The lexer counts wrong"), message("Mended"), message("The lexer is fine")];
  const agent = await started(context, scripted(context, responses));
  const [one, two] = [await agent.thread(), await agent.thread()];
  await one.run("Why does the parser fail?");
  await one.run("Mend the lexer");
  await two.run("And now?");
  const found = await all(agent.search("lexer", { limit: 1 }));
  assert.deepEqual(found.map((it) => it.thread.id).sort(), [one.id, two.id].sort());
  assert.deepEqual(await all(agent.search("lexer", { archived: true })), []);
  const [ofOne, ...others] = await all(agent.search("parser fail"));
  assert.equal(ofOne?.thread.id, one.id);
  assert.equal(others.length, 0);
  assert.match(ofOne?.snippet ?? "", /parser/);
  const said = await all(one.search("THE LEXER", { limit: 1 }));
  assert.deepEqual(said.map((it) => it.snippet), ["Mend the lexer", "The lexer counts wrong"]);
  assert.deepEqual(await all(two.search("parser")), []);
});

test("what a turn changed is undone", within, async (context) => {
  const patch = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\n";
  const responses = [{ steps: [{ custom_tool_call: { name: "apply_patch", input: patch } }] }, message("Done")];
  // What else is in the folder for temporary files is not recorded.
  const config = { "features.undo": true, sandbox_workspace_write: { exclude_slash_tmp: true, exclude_tmpdir_env_var: true } };
  const options = scripted(context, responses);
  const agent = await started(context, { ...options, config });
  const thread = await agent.thread({ sandbox: "workspaceWrite", approvalPolicy: "never" });
  await thread.run("go");
  const made = join(options.cwd, "made.txt");
  assert.ok(existsSync(made));
  const planned = await thread.undo(1, { dryRun: true });
  assert.match(JSON.stringify(planned), /made\.txt/);
  assert.ok(existsSync(made));
  await thread.undo();
  assert.ok(!existsSync(made));
  assert.equal((await thread.read()).turns.length, 0);
});

for (const delivery of ["inline", "detached"] as const) {
  test(`a change is reviewed: ${delivery}`, within, async (context) => {
    const options = scripted(context, [message("First"), message("It is fine.")]);
    const git = (...args: string[]) => execFileSync("git", args, { cwd: options.cwd, env: options.env });
    git("init", "-q");
    writeFileSync(join(options.cwd, "a.txt"), "new\n");
    const agent = await started(context, options);
    const thread = await agent.thread();
    await thread.run("go");
    const turn = await thread.review({ type: "uncommittedChanges" }, { delivery });
    const { review, threadId, findings } = await turn.result();
    assert.ok(review, "there is no text");
    assert.equal(threadId === thread.id, delivery === "inline");
    // The text of this model names none.
    assert.ok(findings === undefined || Array.isArray(findings));
  });
}

test("arguments of wrong types are named", within, async (context) => {
  const options = scripted(context, []);
  const agent = await started(context, options);
  const thread = await agent.thread();
  const wrong: [string, () => Promise<unknown>][] = [
    ["cwd", () => agent.thread({ cwd: 5 as never })],
    ["ephemeral", () => agent.thread({ ephemeral: "yes" as never })],
    ["threadId", () => agent.resume(5 as never)],
    ["threadId", () => agent.fork(undefined as never)],
    ["limit", () => all(agent.list({ limit: "2" as never }))],
    ["model", () => thread.run("go", { model: {} as never })],
    ["signal", () => thread.turn("go", { signal: 5 as never })],
    ["target", () => thread.review(undefined as never)],
    ["numTurns", () => thread.rollback("1" as never)],
    ["name", () => thread.rename(5 as never)],
    ["objective", () => thread.setGoal({ objective: 5 as never })],
    ["offline", () => Agent.start({ ...options, offline: "yes" as never })],
    ["token", () => Agent.start({ ...options, token: 5 as never })],
    ["approve", () => Agent.start({ ...options, approve: true as never })],
    ["tools", () => Agent.start({ ...options, tools: {} as never })],
  ];
  for (const [name, attempt] of wrong) {
    await assert.rejects(attempt, (error) => error instanceof TypeError && error.message.includes(`\`${name}\``), name);
  }
});
