// `agentd` as a client of MCP servers against the official conformance suite: every client scenario that a
// revision requires, and those of the skills extension. One line per scenario, and a count at the end. Environment: AGENTD (the program).
// Exits with 1 if a scenario fails.
//
// The suite starts this script again for each scenario (`drive`), with the address of its server. It then
// drives `agentd app-server` over its own protocol as a client would: list the servers, log in where that is
// demanded, call the tools, answer questions with the form's defaults.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";

const REVISIONS = ["2025-11-25", "2026-07-28"];
// Scenarios of the skills extension, which no revision requires.
const SKILLS = ["no-prefetch", "verify-digest", "verify-size", "verify-frontmatter"].map(
  (name) => `sep-2640-client-${name}`,
);
const script = fileURLToPath(import.meta.url);
const NODE = path.join(path.dirname(script), "node_modules/node/bin/node");
const SUITE = path.join(path.dirname(script), "node_modules/.bin/conformance");
const METADATA_URL = "https://conformance-test.local/client-metadata.json";
const AT_ONCE = 4;

// Runs the suite for each revision.
async function run() {
  let [passed, failed] = [0, 0];
  const { version } = createRequire(import.meta.url)(
    "@modelcontextprotocol/conformance/package.json",
  );
  console.log(`client @modelcontextprotocol/conformance ${version}`);
  for (const revision of REVISIONS) {
    const required = scenarios(await output(["list", "--requirements", revision]), revision);
    const names = revision === "2026-07-28" ? [...required, ...SKILLS] : required;
    const wanted = process.env.SCENARIO;
    const waiting = names.filter((name) => !wanted || name === wanted);
    const worker = async () => {
      for (let name = waiting.shift(); name; name = waiting.shift()) {
        const { code, text } = await suite([
          "client",
          ...["--command", `${NODE} ${script} drive`],
          ...["--scenario", name, "--spec-version", revision],
        ]);
        if (code === 0) {
          passed += 1;
          console.log(`ok    ${revision}: ${name}`);
        } else {
          failed += 1;
          console.log(`FAIL  ${revision}: ${name}: ${reasons(text)}`);
          if (process.env.VERBOSE) console.log(text);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

// The client scenarios in a list of the suite; what it runs and never scores follows behind.
function scenarios(text, revision) {
  const part = text.split("Client scenarios")[1]?.split("Run and reported")[0] ?? "";
  const names = part.split("\n").map((line) => /^\s+- (\S+)$/.exec(line)?.[1]).filter(Boolean);
  if (!names.length) throw new Error(`no scenario of ${revision} is listed:\n${text}`);
  return names;
}

function reasons(text) {
  const lines = text.split("\n").filter((line) => /FAILURE|WARNING|Error:/.test(line));
  return lines.slice(0, 4).map((line) => line.trim()).join(" | ").slice(0, 600);
}

async function output(args) {
  const { code, text } = await suite(args);
  if (code !== 0) throw new Error(text);
  return text;
}

function suite(args) {
  return new Promise((resolve) => {
    const child = spawn(NODE, [SUITE, ...args], { stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    child.stdout.on("data", (data) => (text += data));
    child.stderr.on("data", (data) => (text += data));
    child.on("close", (code) => resolve({ code, text }));
  });
}

// Drives one scenario at `url`.
async function drive(url) {
  const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || "{}");
  const home = mkdtempSync(path.join(tmpdir(), "agentd-mcp-"));
  mkdirSync(path.join(home, "work"));
  const oauth = [`client_metadata_url = ${JSON.stringify(METADATA_URL)}`];
  if (context.client_id) oauth.push(`client_id = ${JSON.stringify(context.client_id)}`);
  if (context.client_secret) oauth.push(`client_secret_env = "MCP_CLIENT_SECRET"`);
  writeFileSync(
    path.join(home, "config.toml"),
    `mcp_oauth_credentials_store = "file"\n[mcp_servers.suite]\nurl = ${JSON.stringify(url)}\n` +
      `startup_timeout_sec = 20\noauth = { ${oauth.join(", ")} }\n`,
  );
  const agent = new Agent(home, context.client_secret);
  try {
    await agent.call("initialize", {
      clientInfo: { name: "conformance", version: "1" },
      capabilities: {},
    });
    agent.send({ jsonrpc: "2.0", method: "initialized" });
    let row = await agent.server();
    for (let tries = 0; row.authStatus === "notLoggedIn" && tries < 3; tries += 1) {
      await agent.login();
      row = await agent.server();
    }
    const { thread } = await agent.call("thread/start", {});
    const tools = Object.values(row.tools);
    const calls =
      context.toolCalls ??
      tools.map((tool) => ({ name: tool.name, arguments: example(tool.inputSchema) }));
    for (const { name, arguments: given } of calls) {
      const call = () =>
        agent.call("mcpServer/tool/call", {
          threadId: thread.id,
          server: "suite",
          tool: name,
          arguments: given,
        });
      for (let tries = 0; ; tries += 1) {
        try {
          await call();
          break;
        } catch (error) {
          // A server that only lists its tools.
          if (/error -32601/.test(error.message)) break;
          if (!/demands a login/.test(error.message) || tries >= 3) throw error;
          await agent.login();
        }
      }
    }
    if (process.env.MCP_CONFORMANCE_SCENARIO?.startsWith("sep-2640-client-verify-")) {
      await useSkill(agent, thread.id);
      return;
    }
    for (const { uri } of row.resources) {
      await agent.call("mcpServer/resource/read", { server: "suite", uri, threadId: thread.id });
    }
  } finally {
    await agent.end();
    rmSync(home, { recursive: true, force: true });
  }
}

// Uses a skill whose `SKILL.md` is not the one that was listed.
async function useSkill(agent, threadId) {
  const [name, path] = ["suite:pdf-processing", "skill://pdf-processing/SKILL.md"];
  const input = [{ type: "skill", name, path }];
  const refused = await agent.call("turn/start", { threadId, input }).then(
    () => "",
    (error) => error.message,
  );
  if (!/the manifest says|another name or description/.test(refused)) {
    throw new Error(`the skill was not refused as one that is not as listed: ${refused}`);
  }
}

// Arguments that fit a schema.
function example(schema) {
  const given = {};
  for (const [name, field] of Object.entries(schema?.properties ?? {})) {
    const kind = Array.isArray(field.type) ? field.type[0] : field.type;
    if (field.default !== undefined) given[name] = field.default;
    else if (field.enum) given[name] = field.enum[0];
    else if (kind === "integer" || kind === "number") given[name] = 5;
    else if (kind === "boolean") given[name] = true;
    else if (kind === "string") given[name] = "text";
  }
  return given;
}

// A connection to `agentd app-server`.
class Agent {
  constructor(home, secret) {
    const env = { ...process.env, AGENT_HOME: home };
    if (secret) env.MCP_CLIENT_SECRET = secret;
    this.child = spawn(process.env.AGENTD, ["app-server", "--listen", "stdio://"], {
      cwd: path.join(home, "work"),
      env,
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.waiting = new Map();
    this.notifications = [];
    this.listeners = [];
    this.next = 1;
    readline.createInterface({ input: this.child.stdout }).on("line", (line) => this.take(line));
  }

  send(message) {
    this.child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  call(method, params) {
    const id = this.next++;
    this.send({ jsonrpc: "2.0", id, method, params });
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  take(line) {
    const message = JSON.parse(line);
    if (process.env.TRACE) console.error(line.slice(0, 2000));
    if (message.method && message.id !== undefined) {
      const isForm = message.method === "mcpServer/elicitation/request";
      const result = isForm ? { action: "accept", content: {} } : { decision: "decline" };
      this.send({ jsonrpc: "2.0", id: message.id, result });
    } else if (message.method) {
      this.notifications.push(message);
      this.listeners.forEach((listener) => listener());
    } else {
      const { resolve, reject } = this.waiting.get(message.id) ?? {};
      if (message.error) reject?.(new Error(message.error.message));
      else resolve?.(message.result);
    }
  }

  async server() {
    return (await this.call("mcpServerStatus/list", { start: true })).data[0];
  }

  // Logs in: the suite's authorization server redirects at once.
  async login() {
    this.notifications = [];
    const { authorizationUrl } = await this.call("mcpServer/oauth/login", { name: "suite" });
    const done = this.notified("mcpServer/oauthLogin/completed");
    await fetch(authorizationUrl).catch(() => {});
    const { success, error } = (await done).params;
    if (!success) throw new Error(`login: ${error}`);
  }

  notified(method) {
    return new Promise((resolve) => {
      const look = () => {
        const found = this.notifications.find((one) => one.method === method);
        if (found) resolve(found);
      };
      this.listeners.push(look);
      look();
    });
  }

  end() {
    return new Promise((resolve) => {
      this.child.on("close", resolve);
      this.child.stdin.end();
      setTimeout(() => this.child.kill("SIGKILL"), 5000).unref();
    });
  }
}

if (process.argv[2] === "drive") {
  await drive(process.argv[process.argv.length - 1]);
} else {
  await run();
}
