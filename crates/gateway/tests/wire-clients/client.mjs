// Terminal agents of three providers and of none, unmodified, through the gateway to a scripted model that speaks another
// wire than theirs: each completes a turn with a tool, without a network. One line for each check, and a count at the end.
//
// Environment: AGENTD (the program). Ends with 1 when a check failed.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const { AGENTD, PATH } = process.env;
const here = path.dirname(fileURLToPath(import.meta.url));
const TOKEN = "admin-token-of-the-agents-0123456789";
const SECRET = "the plum is ripe";
const QUESTION = "What do the notes say?";
const WIRES = ["responses", "chat", "messages", "gemini"];
const PATIENCE = 90_000;
const UPSTREAM_MODELS = { messages: "claude-opus-4-6", gemini: "gemini-3-pro" };

// What each of them is: the wire that it speaks, the call that the script makes of its tools, and how it is started.
const AGENTS = [
  {
    name: "Claude Code",
    package: "@anthropic-ai/claude-code",
    wire: "messages",
    call: { name: "Bash", arguments: { command: "cat notes.txt", description: "Read the notes" } },
    start: ({ url, key, model, side }) => ({
      program: "claude",
      args: ["-p", QUESTION, "--allowedTools", "Bash"],
      env: {
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_AUTH_TOKEN: key,
        ANTHROPIC_MODEL: model,
        ANTHROPIC_DEFAULT_HAIKU_MODEL: side,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      },
    }),
  },
  {
    name: "Gemini CLI",
    package: "@google/gemini-cli",
    wire: "gemini",
    call: { name: "read_file", arguments: { file_path: "notes.txt" } },
    start: ({ url, key, model, home }) => {
      write(path.join(home, ".gemini/settings.json"), JSON.stringify({ security: { auth: { selectedType: "gemini-api-key" } } }));
      return {
        program: "gemini",
        args: ["-m", model, "-p", QUESTION, "--yolo"],
        env: { GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: key, GEMINI_CLI_TRUST_WORKSPACE: "true" },
      };
    },
  },
  {
    name: "Codex",
    package: "@openai/codex",
    wire: "responses",
    call: { name: "exec_command", arguments: { cmd: "cat notes.txt" } },
    start: ({ url, key, model, home }) => {
      const provider = `name = "gateway"\nbase_url = "${url}/v1"\nenv_key = "GATEWAY_KEY"\nwire_api = "responses"\n`;
      const config = `model = "${model}"\nmodel_provider = "gateway"\n[model_providers.gateway]\n${provider}`;
      write(path.join(home, ".codex/config.toml"), config);
      const open = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
      return { program: "codex", args: ["exec", ...open, QUESTION], env: { GATEWAY_KEY: key } };
    },
  },
  {
    name: "opencode",
    package: "opencode-ai",
    wire: "chat",
    call: { name: "bash", arguments: { command: "cat notes.txt", description: "Read the notes" } },
    start: ({ url, key, model, side, home }) => {
      const provider = {
        npm: "@ai-sdk/openai-compatible",
        name: "gateway",
        options: { baseURL: `${url}/v1`, apiKey: key },
        models: { [model]: { name: model }, [side]: { name: side } },
      };
      const config = {
        provider: { gateway: provider },
        model: `gateway/${model}`,
        small_model: `gateway/${side}`,
        autoupdate: false,
        share: "disabled",
        permission: "allow",
      };
      write(path.join(home, ".config/opencode/opencode.json"), JSON.stringify(config));
      return { program: "opencode", args: ["run", QUESTION], env: {} };
    },
  },
];

let [passed, failed] = [0, 0];
const root = mkdtempSync(path.join(tmpdir(), "agentd-wire-clients-"));
const processes = [];

function write(file, text) {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text, { mode: 0o600 });
}

async function check(group, name, run) {
  try {
    await run();
    passed += 1;
    console.log(`ok    ${group}: ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${group}: ${name}: ${String(error.message ?? error).replaceAll(/\s+/g, " ").slice(0, 900)}`);
  }
}

// Starts the program. Returns where it listens.
async function started(folder, ...args) {
  const child = spawn(AGENTD, args, { cwd: folder, env: { ...process.env, HOME: folder }, stdio: ["ignore", "pipe", "ignore"] });
  processes.push(child);
  for await (const line of createInterface(child.stdout)) {
    if (line.startsWith("listening on ")) return line.split(" ")[2].replace(/\/v1$/, "");
  }
  throw new Error(`agentd ${args[0]} has ended`);
}

// An HTTP proxy that refuses all, and notes what it was asked for.
async function refusingProxy(asked) {
  const refuse = (request, end) => {
    asked.push(`${request.method} ${request.url}`);
    end();
  };
  const server = http.createServer((request, response) => refuse(request, () => response.writeHead(502).end()));
  server.on("connect", (request, socket) => {
    socket.on("error", () => {});
    refuse(request, () => socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n"));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  server.unref();
  return `http://127.0.0.1:${server.address().port}`;
}

// A gateway with a model for each agent on each other wire, and one for what agents ask for besides, such as titles.
async function gateway() {
  const settings = ['listen = "127.0.0.1:0"', "[admin]", 'token_file = "token"', "[defaults]", "tool_calls = { web_search = 0.01 }"];
  write(path.join(root, "token"), TOKEN);
  const price = "price = { input = 1.0, output = 10.0 }";
  const add = async (name, wire, script) => {
    const file = path.join(root, `${name}.json`);
    write(file, JSON.stringify({ on_exhausted: "repeat_last", responses: script }));
    const server = await started(root, "model-server", "--script", file);
    const version = wire === "gemini" ? "v1beta" : "v1";
    settings.push(`[upstreams.${name}]`, `base_url = "${server}/${version}"`, `wire = "${wire}"`);
    settings.push(`[models.${name}]`, `upstream = "${name}"`, `upstream_model = "${UPSTREAM_MODELS[wire] ?? "m"}"`, price);
  };
  await add("side", "chat", [{ steps: [{ message: '{"title":"Notes","isNewTopic":true}' }] }]);
  for (const [agent, wire] of pairs()) {
    const call = { steps: [{ reasoning: "I look." }, { message: "I read." }, { function_call: agent.call }, { usage: { input_tokens: 3000, output_tokens: 20 } }] };
    const expect = { tool_output_contains: SECRET };
    const said = { expect, steps: [{ message: "They say: {{last_tool_output}} (done)" }, { usage: { input_tokens: 3100, output_tokens: 30 } }] };
    await add(modelOf(agent, wire), wire, [call, said]);
  }
  const file = path.join(root, "gateway.toml");
  write(file, settings.join("\n"));
  return started(root, "gateway", "--config", file);
}

function pairs() {
  return AGENTS.flatMap((agent) => WIRES.filter((wire) => wire !== agent.wire).map((wire) => [agent, wire]));
}

function modelOf(agent, wire) {
  return `${agent.package.replaceAll(/[^a-z]+/g, "-").replace(/^-/, "")}-${wire}`;
}

async function admin(url, target, body) {
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  const answer = await fetch(url + target, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  assert.equal(answer.ok, true, `${target}: ${answer.status}`);
  return answer.json();
}

// Runs an agent with an empty home. Returns its output and its status.
async function run({ program, args, env }, { home, work, proxy }) {
  const proxies = { HTTP_PROXY: proxy, HTTPS_PROXY: proxy, http_proxy: proxy, https_proxy: proxy, NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1" };
  const child = spawn(path.join(here, "node_modules/.bin", program), args, {
    cwd: work,
    env: { PATH, HOME: home, TMPDIR: home, TERM: "dumb", CI: "1", ...proxies, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let output = "";
  child.stdout.on("data", (data) => (output += data));
  child.stderr.on("data", (data) => (output += data));
  const timer = setTimeout(() => process.kill(-child.pid, "SIGKILL"), PATIENCE);
  const status = await new Promise((done) => child.on("close", (code, signal) => done(code ?? signal)));
  clearTimeout(timer);
  return { output, status };
}

async function turn(url, proxy, asked, agent, wire) {
  const model = modelOf(agent, wire);
  const [home, work] = ["home", "work"].map((name) => path.join(root, model, name));
  mkdirSync(home, { recursive: true });
  write(path.join(work, "notes.txt"), `${SECRET}\n`);
  const project = (await admin(url, "/v1/organization/projects", { name: model })).id;
  const account = await admin(url, `/v1/organization/projects/${project}/service_accounts`, { name: "agent" });
  asked.length = 0;
  const start = agent.start({ url, key: account.api_key.value, model, side: "side", home });
  const { output, status } = await run(start, { home, work, proxy });
  const reasons = `status ${status}, asked the proxy for ${JSON.stringify([...new Set(asked)].slice(0, 8))}: ${output.slice(-500)}`;
  assert.ok(status === 0 && output.includes("They say: ") && output.includes(SECRET) && output.includes("(done)"), reasons);
  const since = Math.floor(Date.now() / 86_400_000) * 86_400 - 86_400;
  const usage = `/v1/organization/usage/completions?start_time=${since}&bucket_width=1d&limit=2&project_ids=${project}&group_by=model`;
  let found;
  for (let tries = 0; tries < 400; tries += 1) {
    const { data } = await admin(url, usage);
    const results = data.flatMap((bucket) => bucket.results).filter((result) => result.model === model);
    found = results.reduce((sum, one) => [sum[0] + one.num_model_requests, sum[1] + one.input_tokens, sum[2] + one.output_tokens], [0, 0, 0]);
    if (found[0] >= 2) break;
    await new Promise((done) => setTimeout(done, 25));
  }
  assert.deepEqual(found, [2, 6100, 50], "requests, input and output in the ledger");
}

const version = (name) => JSON.parse(readFileSync(path.join(here, "node_modules", name, "package.json"))).version;
try {
  console.log(`client ${AGENTS.map((agent) => `${agent.package} ${version(agent.package)}`).join(", ")} on Node ${process.version}`);
  const asked = [];
  const [url, proxy] = [await gateway(), await refusingProxy(asked)];
  for (const [agent, wire] of pairs()) {
    await check(agent.name, `a turn with a tool on ${wire}`, () => turn(url, proxy, asked, agent, wire));
  }
} catch (error) {
  failed += 1;
  console.log(`FAIL  all: start: ${error.stack}`);
} finally {
  processes.forEach((child) => child.kill());
  rmSync(root, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed || !passed ? 1 : 0);
