// `agentd mcp-server` against the official conformance suite: the server scenarios that need no tool,
// resource or prompt that the suite itself prescribes. One line per scenario, and a count at the end.
// Environment: AGENTD (the program). Exits with 1 if a scenario fails.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";

const folder = path.dirname(fileURLToPath(import.meta.url));
const NODE = path.join(folder, "node_modules/node/bin/node");
const SUITE = path.join(folder, "node_modules/.bin/conformance");
const WARNING = /\bWARNING\b/;
const SCENARIOS = {
  "2025-11-25": [
    "server-initialize",
    "server-session-lifecycle",
    "ping",
    "tools-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
  ],
  "2026-07-28": [
    "server-stateless",
    "tools-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
    "http-header-validation",
    "input-required-result-unsupported-methods",
  ],
};

async function run() {
  const { version } = createRequire(import.meta.url)(
    "@modelcontextprotocol/conformance/package.json",
  );
  console.log(`client @modelcontextprotocol/conformance ${version}`);
  const server = await start();
  let [passed, failed] = [0, 0];
  try {
    for (const [revision, names] of Object.entries(SCENARIOS)) {
      for (const name of names.filter((name) => (process.env.SCENARIO ?? name) === name)) {
        const { code, text } = await suite([
          "server",
          ...["--url", server.url, "--scenario", name, "--spec-version", revision],
        ]);
        const failures = failedChecks(text);
        const isPassed =
          code === 0 ? !WARNING.test(text) : failures.length > 0 && failures.every(isUntestable);
        if (isPassed) {
          passed += 1;
          console.log(`ok    ${revision}: ${name} (server)`);
        } else {
          failed += 1;
          console.log(`FAIL  ${revision}: ${name} (server): ${reasons(text)}`);
        }
        if (process.env.VERBOSE) console.log(text);
      }
    }
  } finally {
    await server.end();
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

// The reasons of the checks that failed.
function failedChecks(text) {
  const part = text.split("=== Failed Checks ===")[1] ?? "";
  return [...part.matchAll(/^ +Error: (.*)$/gm)].map(([, reason]) => reason);
}

// A check of a diagnostic tool that only the suite's own server has.
function isUntestable(reason) {
  return /^Not testable: server does not list the diagnostic tool/.test(reason);
}

function reasons(text) {
  const failures = failedChecks(text).filter((reason) => !isUntestable(reason));
  const lines = failures.length
    ? failures
    : text.split("\n").filter((line) => /WARNING|rror:/.test(line));
  return lines.slice(0, 4).map((line) => line.trim()).join(" | ").slice(0, 600);
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

// Starts the program with the offline model.
function start() {
  const home = mkdtempSync(path.join(tmpdir(), "agentd-mcp-server-"));
  const settings = ['model_provider="offline"', 'model="echo"'].flatMap((text) => ["-c", text]);
  const child = spawn(
    process.env.AGENTD,
    ["mcp-server", "--listen", "http://127.0.0.1:0", ...settings],
    { cwd: home, env: { ...process.env, AGENT_HOME: home }, stdio: ["ignore", "pipe", "inherit"] },
  );
  const closed = new Promise((resolve) => child.on("close", resolve));
  const end = async () => {
    child.kill("SIGTERM");
    await closed;
    rmSync(home, { recursive: true, force: true });
  };
  return new Promise((resolve, reject) => {
    closed.then((code) => reject(new Error(`agentd mcp-server ended with ${code}`)));
    readline.createInterface({ input: child.stdout }).on("line", (line) => {
      const url = /^listening on (http:\S+)$/.exec(line)?.[1];
      if (url) resolve({ url, end });
    });
  });
}

await run();
