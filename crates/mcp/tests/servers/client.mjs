// Servers of other people, unmodified, in turns of `agentd app-server`: one line for each check, and a count at
// the end. Environment: AGENTD (the program), PYTHON (with the Python servers), SERVER (a script for it).
// Ends with 1 when a check failed.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";

const { AGENTD, PYTHON, SERVER } = process.env;
const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = mkdtempSync(path.join(tmpdir(), "agentd-mcp-servers-"));
const [HOME, WORK] = [path.join(ROOT, "home"), path.join(ROOT, "work")];
const PATIENCE = 60_000;

let [passed, failed] = [0, 0];

async function check(name, body) {
  try {
    await body();
    passed += 1;
    console.log(`ok    ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}: ${error.message.split("\n").join(" ")}`);
  }
}

function equal(found, expected) {
  const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
  if (one !== other) throw new Error(`found ${one?.slice(0, 500)}, expected ${other}`);
}

function holds(text, part) {
  if (!String(text).includes(part)) throw new Error(`${JSON.stringify(text)} has no ${part}`);
}

// A client of the program over its standard input and output.
class Client {
  constructor() {
    this.child = spawn(AGENTD, ["app-server", "-c", 'model_provider="offline"'], {
      cwd: WORK,
      env: { ...process.env, AGENT_HOME: HOME, SECRET_TOKEN: "hunter2" },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.next = 1;
    this.calls = new Map();
    this.seen = [];
    this.waiting = [];
    this.answer = () => ({ action: "decline" });
    readline.createInterface({ input: this.child.stdout }).on("line", (line) => this.read(line));
  }

  read(line) {
    const message = JSON.parse(line);
    if (message.method && message.id !== undefined) {
      this.seen.push(message);
      this.write({ id: message.id, result: this.answer(message) });
    } else if (message.method) {
      this.seen.push(message);
    } else {
      const { resolve, reject } = this.calls.get(message.id);
      if (message.error) reject(new Error(message.error.message));
      else resolve(message.result);
    }
    this.waiting = this.waiting.filter((look) => !look());
  }

  write(message) {
    this.child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  call(method, params) {
    const id = this.next++;
    this.write({ id, method, params });
    return limited(
      new Promise((resolve, reject) => this.calls.set(id, { resolve, reject })),
      `the answer to ${method}`,
    );
  }

  // Waits for a notification, from those on that came after `from`.
  until(what, from, matches) {
    const found = new Promise((resolve) => {
      const look = () => {
        const message = this.seen.slice(from).find(matches);
        if (message) resolve(message);
        return Boolean(message);
      };
      if (!look()) this.waiting.push(look);
    });
    return limited(found, what);
  }

  async ready(server) {
    const is = ({ method, params }) =>
      method === "mcpServer/startupStatus/updated" &&
      params.name === server &&
      ["ready", "failed"].includes(params.status);
    const { params } = await this.until(`the start of ${server}`, 0, is);
    if (params.status !== "ready") throw new Error(`${server}: ${params.error}`);
  }

  // Has the model call these tools in a turn; returns their items by tool.
  async turn(server, calls) {
    const script = path.join(ROOT, `script-${this.next}.json`);
    const steps = calls.map(([tool, input]) => ({
      steps: [{ function_call: { name: `mcp__${server}__${tool}`, arguments: input } }],
    }));
    const end = { steps: [{ message: { text: "Done.", phase: "final_answer" } }] };
    writeFileSync(script, JSON.stringify({ responses: [...steps, end] }));
    const { thread } = await this.call("thread/start", {
      model: script,
      approvalPolicy: "on-request",
    });
    await this.ready(server);
    const from = this.seen.length;
    const { turn } = await this.call("turn/start", {
      threadId: thread.id,
      input: [{ type: "text", text: "Go." }],
    });
    const ended = await this.until(
      "the end of the turn",
      from,
      ({ method, params }) => method === "turn/completed" && params.turn.id === turn.id,
    );
    const { status, error } = ended.params.turn;
    if (status !== "completed") throw new Error(`the turn ended as ${status}: ${error?.message}`);
    const items = this.seen
      .slice(from)
      .filter(({ method, params }) => method === "item/completed" && params.item.server === server)
      .map(({ params }) => params.item);
    return { items, messages: this.seen.slice(from) };
  }

  end() {
    return new Promise((resolve) => {
      this.child.on("close", resolve);
      this.child.stdin.end();
    });
  }
}

function limited(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not come`)), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

const text = (item) => item.result?.content.map((part) => part.text ?? part.type).join("\n");

function prepare() {
  for (const folder of [HOME, WORK]) mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(WORK, "notes.txt"), "one\ntwo\n");
  const git = (...args) =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@localhost", ...args], { cwd: WORK });
  git("init", "-q");
  git("add", ".");
  git("commit", "-qm", "The first commit");
  const bin = (name) => path.join(HERE, "node_modules/.bin", name);
  const entry = (name, ...argv) =>
    `[mcp_servers.${name}]\ncommand = ${JSON.stringify(argv[0])}\nargs = ${JSON.stringify(argv.slice(1))}\n` +
    "startup_timeout_sec = 60\n";
  const node = process.execPath;
  writeFileSync(
    path.join(HOME, "config.toml"),
    [
      entry("everything", node, bin("mcp-server-everything"), "stdio", ROOT),
      entry("files", node, bin("mcp-server-filesystem"), WORK),
      entry("git", PYTHON, "-m", "mcp_server_git", "--repository", WORK),
      entry("era", PYTHON, SERVER, ROOT),
    ].join("\n"),
  );
}

// Programs that have the folder of this run among their arguments.
function left() {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(ROOT);
      } catch {
        return false;
      }
    });
}

async function main() {
  const installed = JSON.parse(readFileSync(path.join(HERE, "package.json"), "utf8")).dependencies;
  const names = Object.entries(installed).map(([name, version]) => `${name} ${version}`);
  console.log(`client ${names.join(", ")}; mcp and mcp-server-git in Python`);
  prepare();
  const client = new Client();
  await client.call("initialize", { clientInfo: { name: "servers", version: "1" } });
  client.write({ method: "initialized" });

  await check("everything: texts, numbers, images, structured content", async () => {
    const { items } = await client.turn("everything", [
      ["echo", { message: "hello" }],
      ["get-sum", { a: 2, b: 3 }],
      ["get-tiny-image", {}],
      ["get-structured-content", { location: "New York" }],
      ["get-env", {}],
    ]);
    equal(items.map((item) => item.status), Array(5).fill("completed"));
    holds(text(items[0]), "hello");
    holds(text(items[1]), "5");
    equal(items[2].result.content.some((part) => part.type === "image"), true);
    equal(typeof items[3].result.structuredContent, "object");
    if (text(items[4]).includes("hunter2")) throw new Error("the server has our environment");
  });
  await check("everything: progress of a long call", async () => {
    const { items, messages } = await client.turn("everything", [
      ["trigger-long-running-operation", { duration: 1, steps: 4 }],
    ]);
    equal(items[0].status, "completed");
    const reports = messages.filter(({ method }) => method === "item/mcpToolCall/progress");
    if (reports.length < 3) throw new Error(`${reports.length} reports of progress`);
  });
  await check("everything: a refused call is an error of the item", async () => {
    const { items } = await client.turn("everything", [["get-sum", { a: "two" }]]);
    equal(items[0].status, "failed");
  });
  await check("filesystem: reads inside, refuses outside", async () => {
    const { items } = await client.turn("files", [
      ["read_text_file", { path: path.join(WORK, "notes.txt") }],
      ["read_text_file", { path: "/etc/passwd" }],
    ]);
    holds(text(items[0]), "one\ntwo");
    equal(items.map((item) => item.status), ["completed", "failed"]);
  });
  await check("filesystem: what destroys is asked about", async () => {
    const asked = [];
    client.answer = (message) => {
      asked.push(message.params._meta["agentd/toolCall"].tool);
      return { action: asked.length === 1 ? "decline" : "accept" };
    };
    const file = path.join(WORK, "notes.txt");
    const write = ["write_file", { path: file, content: "three\n" }];
    const { items } = await client.turn("files", [write, write]);
    client.answer = () => ({ action: "decline" });
    equal(asked, ["write_file", "write_file"]);
    equal(items.map((item) => item.status), ["failed", "completed"]);
    equal(readFileSync(file, "utf8"), "three\n");
  });
  await check("git: status and log", async () => {
    client.answer = () => ({ action: "accept" });
    const { items } = await client.turn("git", [
      ["git_status", { repo_path: WORK }],
      ["git_log", { repo_path: WORK, max_count: 1 }],
    ]);
    holds(text(items[0]), "notes.txt");
    holds(text(items[1]), "The first commit");
  });
  await check("the era without a handshake: revision and progress", async () => {
    const { items, messages } = await client.turn("era", [
      ["revision", {}],
      ["count", { to: 3 }],
    ]);
    equal(text(items[0]), "2026-07-28");
    equal(text(items[1]), "3");
    const reports = messages.filter(({ method }) => method === "item/mcpToolCall/progress");
    equal(reports.map(({ params }) => params.message).slice(-1), ["at 3 (3 of 3)"]);
  });
  await check("the era without a handshake: a question in a call", async () => {
    client.answer = () => ({ action: "accept", content: { size: 7 } });
    const { items, messages } = await client.turn("era", [["ask", {}]]);
    holds(text(items[0]) ?? items[0].error.message, "asked: {'size': 7}");
    const asked = messages.find(({ method }) => method === "mcpServer/elicitation/request");
    equal([asked.params.message, asked.params.serverName], ["Which size?", "era"]);
  });
  await client.end();
  await check("programs: nothing is left of the servers", async () => {
    for (let tries = 0; tries < 100 && left().length; tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    equal(left(), []);
  });
  rmSync(ROOT, { recursive: true, force: true });
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

await main();
