// The published terminal program of another agent server, unmodified, on `agentd app-server` over WebSocket: an old
// and a new version are started in tmux, and type what a user types. One line per check, and a count at the end.
// Environment: AGENTD (the program). Needs tmux and git. Exits with 1 if a check fails.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import path from "node:path";

const agentd = process.env.AGENTD;
// Not in the temporary folder, which commands may write to without an approval.
const root = mkdtempSync("/var/tmp/agentd-terminals-");
const pixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

let [passed, failed] = [0, 0];
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// A model that does what a word of the user's message says, and then answers `Reply to WORD`.
class Model {
  requests = [];

  async start() {
    this.server = http.createServer((request, response) => this.#answer(request, response));
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    return `http://127.0.0.1:${this.server.address().port}/v1`;
  }

  #calls(word) {
    const call = (name, args) => ({ type: "function_call", name, arguments: JSON.stringify(args) });
    const patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-hello\n+goodbye\n*** End Patch\n";
    const plan = [
      { step: "Look around", status: "in_progress" },
      { step: "Mend it", status: "pending" },
    ];
    return {
      PLAN: () => call("update_plan", { plan }),
      COMMAND: () => call("exec_command", { cmd: "echo command-output" }),
      ESCALATE: () =>
        call("exec_command", {
          cmd: `touch ${path.join(root, "made")}`,
          sandbox_permissions: "require_escalated",
          justification: "To make it.",
        }),
      PATCH: () => ({ type: "custom_tool_call", name: "apply_patch", input: patch }),
      PERMISSIONS: () =>
        call("request_permissions", {
          reason: "To build.",
          permissions: { file_system: { write: ["/opt"] } },
        }),
    }[word]?.();
  }

  async #answer(request, response) {
    let body = "";
    for await (const part of request) body += part;
    if (request.method === "GET") {
      const data = [{ id: "gpt-5" }, { id: "other-model" }];
      response.setHeader("content-type", "application/json").end(JSON.stringify({ object: "list", data }));
      return;
    }
    if (request.url.endsWith("/compact")) return response.writeHead(404).end();
    const asked = JSON.parse(body);
    this.requests.push(asked);
    const number = this.requests.length;
    const ofUser = (item) => item.type === "message" && item.role === "user";
    const last = asked.input.findLastIndex(ofUser);
    const said = JSON.stringify(asked.input[last]?.content ?? "");
    const word = said.match(/[A-Z]{4,}/g)?.at(-1) ?? "NOTHING";
    const isAnswered = asked.input.slice(last + 1).some((item) => item.type.endsWith("_output"));
    const isReview = asked.instructions?.includes("You review a change");
    const text = isReview ? "- [P1] Off by one (`a.txt:1`)\n  It is wrong." : `Reply to ${word}`;
    const content = [{ type: "output_text", text, annotations: [] }];
    const message = { type: "message", id: `m${number}`, role: "assistant", content };
    const called = isAnswered ? undefined : this.#calls(word);
    const item = called ? { ...called, call_id: `c${number}` } : message;
    response.setHeader("content-type", "text/event-stream");
    const send = (event) => response.write(`data: ${JSON.stringify(event)}\n\n`);
    send({ type: "response.created", response: { id: `r${number}` } });
    if (item === message) {
      send({ type: "response.output_item.added", output_index: 0, item: { ...item, content: [] } });
      const delta = word === "SLOWLY" ? "Working" : text;
      const at = { output_index: 0, content_index: 0, item_id: item.id };
      send({ type: "response.output_text.delta", ...at, delta });
      // It is interrupted.
      if (word === "SLOWLY") return;
    }
    send({ type: "response.output_item.done", output_index: 0, item });
    const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
    send({ type: "response.completed", response: { id: `r${number}`, output: [item], usage } });
    response.end();
  }
}

// A version of the terminal program in tmux, with a server of its own.
class Terminal {
  constructor(version, model, url, port) {
    Object.assign(this, { version, model, url });
    // A dot would separate a pane.
    this.session = `agentd-${process.pid}-${version.replace(".", "-")}`;
    this.place = path.join(root, version);
    for (const name of ["", "home", "own", "repository"]) mkdirSync(path.join(this.place, name));
    this.repository = path.join(this.place, "repository");
    this.address = `ws://127.0.0.1:${port}`;
    const provider = `[model_providers.local]\nname = "local"\nbase_url = "${url}"\ntool_types = ["custom"]\n`;
    this.#write("home/config.toml", `model = "gpt-5"\nmodel_provider = "local"\n${provider}`);
    // Its own: a provider without a login, so that it asks for none, and trust in the folder.
    const own = `[model_providers.x]\nname = "x"\nbase_url = "http://127.0.0.1:9/v1"\nwire_api = "responses"\n`;
    const trust = `[projects."${this.repository}"]\ntrust_level = "trusted"\n`;
    this.#write("own/config.toml", `model_provider = "x"\n${own}${trust}`);
    this.#write("repository/a.txt", "hello\n");
    const git = (...args) =>
      execFileSync("git", ["-c", "user.email=a@b", "-c", "user.name=n", ...args], { cwd: this.repository });
    git("init", "--quiet");
    git("add", "--all");
    git("commit", "--quiet", "--message", "First");
  }

  #write(name, text) {
    writeFileSync(path.join(this.place, name), text);
  }

  // The program, wherever its package has it.
  get program() {
    const vendor = path.join("node_modules", `terminal-${this.version}`, "vendor");
    const files = readdirSync(vendor, { recursive: true, withFileTypes: true });
    const file = files.find((entry) => entry.isFile() && entry.name === "codex");
    return path.resolve(file.parentPath ?? file.path, file.name);
  }

  async serve() {
    const env = { ...process.env, AGENT_HOME: path.join(this.place, "home") };
    const args = ["app-server", "--dialect", "codex", "--listen", this.address];
    this.server = spawn(agentd, args, { cwd: this.repository, env, stdio: "ignore" });
    const { port } = new URL(this.address);
    await until(() => connects(port), 20_000);
  }

  async kill() {
    const gone = new Promise((done) => this.server.once("exit", done));
    this.server.kill("SIGKILL");
    await gone;
  }

  start(...args) {
    this.end();
    const own = path.join(this.place, "own");
    const line = [this.program, ...args, "--remote", this.address].join(" ");
    tmux("new-session", "-d", "-s", this.session, "-x", "110", "-y", "45", "-c", this.repository,
      `CODEX_HOME=${own} ${line}; echo ENDED; sleep 1000`);
  }

  end() {
    try {
      tmux("kill-session", "-t", this.session);
    } catch {
      // There is none yet.
    }
  }

  get screen() {
    return tmux("capture-pane", "-p", "-S", "-300", "-t", this.session);
  }

  async press(...keys) {
    for (const key of keys) {
      tmux("send-keys", "-t", this.session, key);
      await sleep(250);
    }
  }

  // Types a line. The pause tells it from a paste, at whose end Enter adds a line.
  async type(text) {
    tmux("send-keys", "-t", this.session, "-l", text);
    await sleep(600);
    await this.press("Enter");
  }

  async shows(pattern, ms = 15_000) {
    await until(() => pattern.test(this.screen), ms, () => `${pattern} is not on the screen: ${this.tail}`);
  }

  get tail() {
    return this.screen.replace(/\s+/g, " ").slice(-400);
  }

  async asks(word, pattern) {
    await this.type(`now ${word}`);
    await this.shows(pattern);
    // A dialog takes no key at once.
    await sleep(1_000);
  }
}

function tmux(...args) {
  return execFileSync("tmux", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
}

const connects = (port) =>
  new Promise((done) => {
    const socket = net.connect(port, "127.0.0.1");
    socket.once("connect", () => done(true)).once("error", () => done(false));
    socket.once("connect", () => socket.end());
  });

async function until(holds, ms, why = () => "it does not happen") {
  for (const end = Date.now() + ms; !(await holds()); await sleep(200)) {
    if (Date.now() > end) throw new Error(why());
  }
}

const freePort = () =>
  new Promise((done) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

// The steps of a user, in order; each continues where the one before ended.
const STEPS = {
  "start": async (it) => {
    it.start();
    await it.shows(/gpt-5/i, 30_000);
    await sleep(2_000);
  },
  "turn": async (it) => {
    await it.type("please GREET");
    await it.shows(/Reply to GREET/);
  },
  "plan": async (it) => {
    await it.asks("PLAN", /Reply to PLAN/);
    assert.match(it.screen, /Look around/);
  },
  "command": async (it) => {
    await it.asks("COMMAND", /Reply to COMMAND/);
    assert.match(it.screen, /command-output/);
  },
  "approval of a command": async (it) => {
    await it.asks("ESCALATE", /1\. Yes/);
    await it.press("y");
    await it.shows(/Reply to ESCALATE/);
    assert(existsSync(path.join(root, "made")));
    rmSync(path.join(root, "made"));
  },
  "patch": async (it) => {
    await it.asks("PATCH", /Reply to PATCH|1\. Yes/);
    if (!/Reply to PATCH/.test(it.screen)) await it.press("y");
    await it.shows(/Reply to PATCH/);
    assert.equal(readFileSync(path.join(it.repository, "a.txt"), "utf8"), "goodbye\n");
  },
  "approval of permissions": async (it) => {
    await it.asks("PERMISSIONS", /1\. Yes/);
    await it.press("y");
    await it.shows(/Reply to PERMISSIONS/);
  },
  "/status": async (it) => {
    await it.type("/status");
    await it.shows(/Session:|Model:/);
    await it.press("Escape");
  },
  "/diff": async (it) => {
    await it.type("/diff");
    await it.shows(/\+\s*goodbye/);
    await it.press("q");
  },
  "/mcp": async (it) => {
    await it.type("/mcp");
    await it.shows(/MCP/);
    await it.press("Escape");
  },
  "/model": async (it) => {
    await it.type("/model");
    await it.shows(/Select Model/i);
    await it.press("Escape", "Escape");
  },
  "/compact": async (it) => {
    await it.type("/compact");
    await it.shows(/context compacted/i);
  },
  "/review": async (it) => {
    await it.type("/review");
    await it.shows(/uncommitted/);
    await it.press(/(\d)\.[^\n]*uncommitted/.exec(it.screen)[1]);
    await it.shows(/Off by one/);
    await sleep(1_000);
  },
  "image": async (it) => {
    const file = path.join(it.repository, "pixel.png");
    writeFileSync(file, Buffer.from(pixel, "base64"));
    const before = it.model.requests.length;
    tmux("send-keys", "-t", it.session, "-l", `\x1b[200~${file}\x1b[201~`);
    await sleep(1_000);
    await it.type(" look at PICTURE");
    await it.shows(/Reply to PICTURE/);
    assert(JSON.stringify(it.model.requests.slice(before)).includes("input_image"));
  },
  "interruption": async (it) => {
    await it.asks("SLOWLY", /Working/);
    await it.press("Escape");
    await it.shows(/interrupted/i);
  },
  "/fork": async (it) => {
    await it.type("/fork");
    await sleep(3_000);
    await it.type("after FORKING");
    await it.shows(/Reply to FORKING/);
  },
  "resume": async (it) => {
    it.start("resume", "--last");
    await it.shows(/Reply to FORKING/, 30_000);
    await sleep(2_000);
    await it.type("after RESUMING");
    await it.shows(/Reply to RESUMING/);
  },
  "a server that was killed": async (it) => {
    await it.kill();
    await it.serve();
    await sleep(3_000);
    // The old version ends with its server.
    if (/ENDED/.test(it.screen)) it.start("resume", "--last");
    await it.shows(/gpt-5/i);
    await sleep(2_000);
    await it.type("after RECONNECTING");
    await it.shows(/Reply to RECONNECTING/);
  },
};

console.log(`client terminals 0.130.0 and 0.171.0, node ${process.version}`);
for (const version of ["0.130", "0.171"]) {
  const model = new Model();
  const terminal = new Terminal(version, model, await model.start(), await freePort());
  try {
    await terminal.serve();
    for (const [name, run] of Object.entries(STEPS)) {
      try {
        await run(terminal);
        passed += 1;
        console.log(`ok    ${version}: ${name}`);
      } catch (error) {
        failed += 1;
        console.log(`FAIL  ${version}: ${name}: ${error.message.split(/\s+/).join(" ").slice(0, 600)}`);
        await terminal.press("Escape", "C-u");
      }
    }
  } finally {
    terminal.end();
    await terminal.kill();
    model.server.closeAllConnections();
    model.server.close();
  }
}
rmSync(root, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
