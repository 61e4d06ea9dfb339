// The published TypeScript SDK of another agent server against `agentd exec`, unmodified: one line per
// check, and a count at the end. Environment: AGENTD (the program). Exits with 1 if a check fails.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import readline from "node:readline";
import { Codex } from "@openai/codex-sdk";

const agentd = process.env.AGENTD;
const root = mkdtempSync(path.join(tmpdir(), "agentd-clients-"));
const [home, work, extra] = ["home", "work", "extra"].map((name) => path.join(root, name));
for (const folder of [home, work, extra]) mkdirSync(folder);
const pixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const schema = {
  type: "object",
  properties: { codexHome: { type: "string" } },
  required: ["codexHome"],
  additionalProperties: false,
};

let [passed, failed] = [0, 0];
// Values that checks pass to later ones.
const made = {};

// Runs a function as a check. An exception is the reason of a failure.
async function check(group, name, run) {
  try {
    await run();
    passed += 1;
    console.log(`ok    ${group}: ${name}`);
  } catch (error) {
    failed += 1;
    const at = /client\.mjs:(\d+)/.exec(error.stack ?? "")?.[1];
    const reason = `${error.name}: ${error.message}`.split(/\s+/).join(" ").slice(0, 600);
    console.log(`FAIL  ${group}: ${name}: ${reason}${at ? ` (line ${at})` : ""}`);
  }
}

const equal = assert.deepEqual;

let scripts = 0;
// A scripted model; its path is its name.
function script(...responses) {
  scripts += 1;
  const file = path.join(root, `script-${scripts}.json`);
  writeFileSync(file, JSON.stringify({ responses }));
  return file;
}

const says = (text, more) => ({ steps: [{ message: { text, phase: "final_answer" } }], ...more });
const calls = (name, args) => ({ steps: [{ function_call: { name, arguments: args } }] });

const env = { ...process.env, CODEX_HOME: home, AGENT_HOME: "" };
function codex(more) {
  const config = { model_provider: "offline", ...more?.config };
  return new Codex({ codexPathOverride: agentd, env, ...more, config });
}
const start = (options) =>
  codex().startThread({ model: "echo", workingDirectory: work, skipGitRepoCheck: true, ...options });

async function streamed(thread, input, options) {
  const { events } = await thread.runStreamed(input, options);
  const found = [];
  for await (const event of events) found.push(event);
  return found;
}

const { version } = JSON.parse(readFileSync("node_modules/@openai/codex-sdk/package.json", "utf8"));
console.log(`client @openai/codex-sdk ${version} on Node.js ${process.versions.node}`);

await check("turns", "run", async () => {
  made.thread = start();
  const turn = await made.thread.run("hello there");
  equal([turn.finalResponse, turn.items.map((item) => item.type)], ["hello there", ["agent_message"]]);
  assert(turn.usage.input_tokens > 0 && turn.usage.output_tokens > 0);
  equal(turn.usage.cache_write_input_tokens, 0);
  assert(made.thread.id);
});

await check("turns", "stream", async () => {
  const events = await streamed(start(), "hello");
  equal(
    events.map((event) => event.type),
    ["thread.started", "turn.started", "item.completed", "turn.completed"],
  );
});

await check("threads", "go on", async () => {
  equal((await made.thread.run("more")).finalResponse, "more");
  const { id } = made.thread;
  const again = codex().resumeThread(id, { model: "echo", workingDirectory: work, skipGitRepoCheck: true });
  const events = await streamed(again, "again");
  equal(events[0], { type: "thread.started", thread_id: id });
  const usage = events.at(-1).usage;
  // The turn's tokens, not the thread's.
  assert(usage.output_tokens < 10, JSON.stringify(usage));
});

await check("threads", "the fresh home that the variable names holds them", async () => {
  const list = spawn(agentd, ["threads", "export", made.thread.id], {
    env: { ...env, AGENTD_DIALECT: "codex" },
  });
  let text = "";
  for await (const part of list.stdout) text += part;
  assert(text.includes("hello there"), text.slice(0, 300));
});

await check("threads", "options", async () => {
  const thread = codex({ config: { hide_agent_reasoning: false } }).startThread({
    model: "echo",
    threadSource: "mail-room",
    sandboxMode: "read-only",
    workingDirectory: work,
    skipGitRepoCheck: true,
    modelReasoningEffort: "low",
    networkAccessEnabled: false,
    webSearchMode: "disabled",
    approvalPolicy: "never",
  });
  const turn = await thread.run("hello");
  equal([turn.finalResponse, turn.items.length], ["hello", 1]);
});

await check("items", "a command and a patch", async () => {
  const patch = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\n";
  const model = script(
    calls("exec_command", { cmd: "echo one; exit 3" }),
    { steps: [{ custom_tool_call: { name: "apply_patch", input: patch } }] },
    says("Done."),
  );
  const events = await streamed(start({ model, sandboxMode: "workspace-write" }), "work");
  const items = events.filter((event) => event.type === "item.completed").map(({ item }) => item);
  equal(
    items.map((item) => item.type),
    ["command_execution", "file_change", "agent_message"],
  );
  const [command, change] = items;
  equal([command.exit_code, command.aggregated_output, command.status], [3, "one\n", "failed"]);
  equal([change.status, change.changes.map((one) => one.kind)], ["completed", ["add"]]);
  equal(readFileSync(path.join(work, "made.txt"), "utf8"), "made\n");
  const begun = events.find((event) => event.type === "item.started").item;
  equal([begun.id, begun.status], [command.id, "in_progress"]);
});

await check("items", "reasoning and a plan", async () => {
  const plan = (status) => calls("update_plan", { plan: [{ step: "look", status }] });
  const model = script(
    { steps: [{ reasoning: "**Deep**" }, ...plan("in_progress").steps] },
    plan("completed"),
    says("Done."),
  );
  const events = await streamed(start({ model }), "plan it");
  const lists = events.filter((event) => event.item?.type === "todo_list");
  equal(
    lists.map((event) => [event.type, event.item.items[0].completed]),
    [
      ["item.started", false],
      ["item.updated", true],
      ["item.completed", true],
    ],
  );
  assert(events.some((event) => event.item?.type === "reasoning"));
});

await check("items", "further folders can be written", async () => {
  const file = path.join(extra, "made");
  const touch = () => script(calls("exec_command", { cmd: `touch ${file}` }), says("Done."));
  const options = { sandboxMode: "workspace-write" };
  // Temporary folders can always be written, and these are temporary.
  const config = {
    sandbox_workspace_write: { exclude_slash_tmp: true, exclude_tmpdir_env_var: true },
  };
  const begin = (more) =>
    codex({ config }).startThread({ model: touch(), workingDirectory: work, skipGitRepoCheck: true, ...options, ...more });
  await begin().run("touch");
  assert(!existsSync(file));
  await begin({ additionalDirectories: [extra] }).run("touch");
  assert(existsSync(file));
});

await check("input", "structured output: the schema arrives as it is", async () => {
  const answer = '{"codexHome":"x"}';
  const model = script(says(answer, { expect: { equals: { "/text/format/schema": schema } } }));
  const turn = await start({ model }).run("fill in", { outputSchema: schema });
  equal(turn.finalResponse, answer);
});

await check("input", "images, in a new thread and in a stored one", async () => {
  const file = path.join(work, "pixel.png");
  writeFileSync(file, Buffer.from(pixel, "base64"));
  const image = { type: "local_image", path: file };
  const seen = says("Seen.", { expect: { contains: ["input_image", "data:image/png;base64,"] } });
  const turn = await start({ model: script(seen) }).run([{ type: "text", text: "look" }, image]);
  equal(turn.finalResponse, "Seen.");
  const stored = codex().resumeThread(made.thread.id, { model: script(seen), workingDirectory: work, skipGitRepoCheck: true });
  equal((await stored.run([{ type: "text", text: "look again" }, image])).finalResponse, "Seen.");
});

await check("ends", "a failure", async () => {
  const refusal = { steps: [{ error: { status: 400, code: "x", message: "no such thing" } }] };
  await assert.rejects(start({ model: script(refusal) }).run("fail"), /no such thing/);
  const stored = codex().resumeThread("nothing", { model: "echo", workingDirectory: work, skipGitRepoCheck: true });
  await assert.rejects(stored.run("x"), /thread not found/);
});

await check("ends", "an abort", async () => {
  const model = script({ steps: [{ message: "I wait." }, "idle"] });
  const stop = new AbortController();
  const { events } = await start({ model }).runStreamed("wait", { signal: stop.signal });
  await assert.rejects(async () => {
    for await (const event of events) {
      if (event.type === "item.completed") stop.abort();
    }
  }, /abort/i);
});

await check("providers", "base URL and key", async () => {
  const model = script(says("Over HTTP.", { expect: { header: { authorization: "Bearer key-of-the-sdk" } } }));
  const server = spawn(agentd, ["model-server", "--script", model], { stdio: ["pipe", "pipe", "inherit"] });
  try {
    const lines = readline.createInterface({ input: server.stdout });
    const { value } = await lines[Symbol.asyncIterator]().next();
    const baseUrl = value.split("listening on ")[1];
    const own = { ...env, OPENAI_API_KEY: "another", AGENT_API_KEY: "another" };
    const client = new Codex({ codexPathOverride: agentd, env: own, baseUrl, apiKey: "key-of-the-sdk" });
    const turn = await client.startThread({ model: "any", workingDirectory: work, skipGitRepoCheck: true }).run("hello");
    equal(turn.finalResponse, "Over HTTP.");
  } finally {
    server.kill();
  }
});

rmSync(root, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
