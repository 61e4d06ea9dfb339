// The official TypeScript client of the Agent Client Protocol and the headless client `acpx` against
// `agentd acp`, unmodified: one line for each check, and a count at the end.
//
// Environment: AGENTD (the program). Ends with 1 when a check failed.

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import assert from "node:assert/strict";

import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";
import * as draft from "@agentclientprotocol/sdk/experimental/v2";

const { AGENTD } = process.env;
const ROOT = realpathSync(mkdtempSync(path.join(tmpdir(), "agentd-acp-")));
const WORK = path.join(ROOT, "work");
const PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** End Patch\n";
const ESCALATED = { cmd: "touch made", sandbox_permissions: "require_escalated", justification: "to make it" };
const SCRIPT = [
  { steps: [{ function_call: { name: "exec_command", arguments: ESCALATED } }] },
  { steps: [{ custom_tool_call: { name: "apply_patch", input: PATCH } }] },
  { steps: [{ message: { text: "Done.", phase: "final_answer" } }] },
  { steps: [{ message: "I begin." }, "idle"] },
  { steps: [{ message: "You said: {{last_user_text}}" }] },
];
const ENV = { PATH: process.env.PATH, HOME: ROOT, AGENT_HOME: path.join(ROOT, "home") };

const MODEL = path.join(ROOT, "script.json");
// Written once: a script that changes begins anew.
writeFileSync(MODEL, JSON.stringify({ responses: SCRIPT }));

let passed = 0;
let failed = 0;

async function check(group, name, work) {
  try {
    const result = await within(60, work());
    passed += 1;
    console.log(`ok    ${group}: ${name}`);
    return result;
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${group}: ${name}: ${String(error?.message ?? error).replace(/\s+/g, " ").slice(0, 600)}`);
  }
}

function within(seconds, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing after ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function versionOf(name) {
  const folder = path.dirname(new URL(import.meta.url).pathname);
  return JSON.parse(readFileSync(path.join(folder, "node_modules", name, "package.json"), "utf8")).version;
}

function settings() {
  return ["acp", "-c", 'model_provider="offline"', "-c", `model="${MODEL}"`];
}

function fresh() {
  rmSync(WORK, { recursive: true, force: true });
  mkdirSync(WORK);
  writeFileSync(path.join(WORK, "a.txt"), "old\n");
}

/** Runs `work` with a client that allows everything and keeps what it is shown. */
async function withAgent(work) {
  const child = spawn(AGENTD, settings(), { cwd: WORK, env: ENV, stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const seen = { updates: [], asked: [], heard: () => {} };
  const app = client({ name: "agentd-interop" })
    .onNotification(methods.client.session.update, ({ params }) => {
      seen.updates.push(params.update);
      if (params.update.content?.text === "I begin.") seen.heard();
    })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      seen.asked.push(params);
      return { outcome: { outcome: "selected", optionId: "accept" } };
    });
  const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  await app.connectWith(stream, async (agent) => {
    const opened = await agent.request(methods.agent.initialize, {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities: {},
    });
    assert.equal(opened.protocolVersion, 1);
    await work(agent, seen);
  });
  child.stdin.end();
  await within(30, ended);
}

const text = (updates, kind) =>
  updates.filter((update) => update.sessionUpdate === kind).map((update) => update.content.text).join("");

async function official() {
  const session = methods.agent.session;
  let sessionId;
  await withAgent(async (agent, seen) => {
    const prompt = (said) => agent.request(session.prompt, { sessionId, prompt: [{ type: "text", text: said }] });
    await check("typescript", "a new session", async () => {
      const opened = await agent.request(session.new, { cwd: WORK, mcpServers: [] });
      sessionId = opened.sessionId;
      assert.ok(opened.configOptions.some((option) => option.id === "model"));
    });
    await check("typescript", "a permission and a diff", async () => {
      assert.equal((await prompt("Go.")).stopReason, "end_turn");
      assert.equal(seen.asked[0].toolCall.title, "touch made");
      assert.ok(existsSync(path.join(WORK, "made")));
      const parts = seen.updates.flatMap((update) => (Array.isArray(update.content) ? update.content : []));
      const diff = parts.find((part) => part.type === "diff");
      assert.deepEqual([diff.oldText, diff.newText], ["old\n", "new\n"]);
      assert.equal(readFileSync(path.join(WORK, "a.txt"), "utf8"), "new\n");
    });
    await check("typescript", "a cancelled prompt", async () => {
      const heard = new Promise((resolve) => (seen.heard = resolve));
      const running = prompt("Wait.");
      await heard;
      await agent.notify(session.cancel, { sessionId });
      assert.equal((await running).stopReason, "cancelled");
    });
  });
  await check("typescript", "list and load in another process", () =>
    withAgent(async (agent, seen) => {
      const { sessions } = await agent.request(session.list, { cwd: WORK });
      assert.deepEqual(sessions.map((info) => info.sessionId), [sessionId]);
      await agent.request(session.load, { sessionId, cwd: WORK, mcpServers: [] });
      assert.ok(text(seen.updates, "user_message_chunk").startsWith("Go."));
      assert.ok(text(seen.updates, "agent_message_chunk").startsWith("Done."));
    }),
  );
}

/** The same with the client of the draft of version 2. */
async function second() {
  const child = spawn(AGENTD, [...settings(), "--protocol-v2"], { cwd: WORK, env: ENV, stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const session = draft.methods.agent.session;
  const seen = { updates: [], asked: [], waiting: [] };
  const idle = () => new Promise((resolve) => seen.waiting.push(resolve));
  const app = draft
    .client({ name: "agentd-interop" })
    .onNotification(draft.methods.client.session.update, ({ params }) => {
      seen.updates.push(params.update);
      const { sessionUpdate, state } = params.update;
      if (sessionUpdate === "state_update" && state === "idle") seen.waiting.shift()?.(params.update.stopReason);
    })
    .onRequest(draft.methods.client.session.requestPermission, ({ params }) => {
      seen.asked.push(params);
      return { outcome: { outcome: "selected", optionId: "accept" } };
    });
  const stream = draft.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  await app.connectWith(stream, async (agent) => {
    let sessionId;
    const prompt = (said) => agent.request(session.prompt, { sessionId, prompt: [{ type: "text", text: said }] });
    await check("typescript, version 2", "a permission and a patch", async () => {
      const info = { name: "agentd-interop", version: "1" };
      const opened = await agent.request(draft.methods.agent.initialize, { protocolVersion: draft.PROTOCOL_VERSION, info });
      assert.equal(opened.protocolVersion, 2);
      ({ sessionId } = await agent.request(session.new, { cwd: WORK }));
      const end = idle();
      const { messageId } = await prompt("Go.");
      assert.equal(await end, "end_turn");
      const shown = seen.updates.find((update) => update.sessionUpdate === "user_message_chunk");
      assert.equal(shown.messageId, messageId);
      assert.equal(seen.asked[0].title, "touch made");
      const parts = seen.updates.flatMap((update) => (Array.isArray(update.content) ? update.content : []));
      const diff = parts.find((part) => part.type === "diff");
      assert.equal(diff.changes[0].operation, "modify");
      assert.ok(diff.patch.text.includes("-old\n+new\n"), diff.patch.text);
    });
    await check("typescript, version 2", "a cancelled turn", async () => {
      const end = idle();
      await prompt("Wait.");
      await agent.notify(session.cancel, { sessionId });
      assert.equal(await end, "cancelled");
    });
    await check("typescript, version 2", "a session that is resumed with its history", async () => {
      await agent.request(session.close, { sessionId });
      seen.updates.length = 0;
      const state = idle();
      await agent.request(session.resume, { sessionId, cwd: WORK, replayFrom: { type: "start" } });
      assert.equal(await state, undefined, "a state without the end of a turn");
      assert.ok(text(seen.updates, "user_message_chunk").startsWith("Go."));
    });
  });
  child.stdin.end();
  await within(30, ended);
}

/** Runs `acpx`, and returns what it writes to standard output. */
function acpx(...args) {
  const program = path.join(path.dirname(createRequire(import.meta.url).resolve("acpx/package.json")), "dist/cli.js");
  const quoted = [AGENTD, ...settings()].map((word) => `'${word}'`).join(" ");
  const options = ["--agent", quoted, "--cwd", WORK, "--approve-all", "--format", "json", "--timeout", "50", "--ttl", "4"];
  const child = spawn(process.execPath, [program, ...options, ...args], { cwd: WORK, env: ENV });
  let output = "";
  let errors = "";
  child.stdout.on("data", (data) => (output += data));
  child.stderr.on("data", (data) => (errors += data));
  return new Promise((resolve, reject) => {
    // Not `close`: its process of the session inherits the outputs, and outlives it.
    child.once("exit", (code) =>
      setTimeout(() => {
        const failure = new Error(`acpx ended with ${code}: ${errors} ${output.slice(-400)}`);
        return code === 0 ? resolve(output) : reject(failure);
      }, 200),
    );
  });
}

async function headless() {
  await check("acpx", "one prompt with a permission and a diff", async () => {
    fresh();
    const output = await acpx("exec", "Go.");
    assert.ok(output.includes("Done."), output.slice(-400));
    assert.ok(output.includes('"oldText":"old\\n"'), "the diff");
    assert.ok(output.includes("session/request_permission"), "the permission");
    assert.ok(existsSync(path.join(WORK, "made")));
  });
  await check("acpx", "a session that is cancelled, and loaded for the next prompt", async () => {
    fresh();
    await acpx("sessions", "new");
    assert.ok((await acpx("prompt", "Go.")).includes("Done."));
    const waiting = acpx("prompt", "Wait.").catch((error) => String(error));
    let cancelled = "";
    for (let tries = 0; tries < 40 && !cancelled.includes('"cancelled":true'); tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 250));
      cancelled = await acpx("cancel").catch(String);
    }
    assert.ok((await waiting).includes("cancelled"), `${cancelled} ${await waiting}`);
    // Its process of the session has ended by then. In another one the script begins anew.
    await new Promise((resolve) => setTimeout(resolve, 7000));
    const output = await acpx("prompt", "And now?");
    assert.ok(/"session\/(load|resume)"/.test(output), "the session was not loaded");
    assert.ok(output.includes("Done."), output.slice(-400));
  });
}

console.log(
  `client @agentclientprotocol/sdk ${versionOf("@agentclientprotocol/sdk")}, acpx ${versionOf("acpx")} on Node.js ${process.versions.node}`,
);
try {
  fresh();
  await official();
  fresh();
  await second();
  await headless();
} finally {
  rmSync(ROOT, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
