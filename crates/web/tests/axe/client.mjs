// The web client under axe-core, a checker of accessibility that others wrote: every state of the page, light
// and dark, on a desktop and on a phone. One line per check, and a count at the end. Environment: AGENTD (the
// program). Exits with 1 if a check fails.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import readline from "node:readline";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const { version } = require("axe-core/package.json");
const root = mkdtempSync(path.join(tmpdir(), "agentd-web-"));
const PATIENCE_MS = 60_000;
const SCREENS = [["desktop", 1280, 800], ["phone", 360, 740]];
const SCHEMES = ["light", "dark"];

let [passed, failed] = [0, 0];
function report(group, name, problems) {
  if (problems.length) failed += 1;
  else passed += 1;
  console.log(problems.length ? `FAIL  ${group}: ${name}: ${problems.join("; ").slice(0, 900)}` : `ok    ${group}: ${name}`);
}

// The server, with a turn that asks for everything that the page can show.

const call = (name, parameters) => ({ function_call: { name, arguments: parameters } });
const question = {
  id: "q", header: "Tax", question: "With the tax?", isOther: true,
  options: [{ label: "Yes", description: "What customers pay." }, { label: "No", description: "Before it." }],
};
const answer = "# Done\n\nA **bold** [link](https://example.com) and `code`.\n\n- one\n- two\n\n> quoted\n\n" +
  "| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\necho ok\n```\n";
const patch = "*** Begin Patch\n*** Update File: price.txt\n@@\n-pears 2.5\n+pears 2.50\n*** End Patch\n";
const script = { responses: [
  { steps: [{ reasoning: "First I look." }, { message: { text: "I look.", phase: "commentary" } },
    call("update_plan", { plan: [{ step: "Look", status: "completed" }, { step: "Change", status: "in_progress" }, { step: "Check", status: "pending" }] }),
    call("exec_command", { cmd: "cat price.txt && touch new" })] },
  { steps: [{ custom_tool_call: { name: "apply_patch", input: patch } }] },
  { steps: [call("request_user_input", { questions: [question] })] },
  { steps: [call("exec_command", { cmd: "while :; do echo tick; sleep 1; done", yield_time_ms: 250 })] },
  { steps: [{ message: { text: answer, phase: "final_answer" } }] },
] };
for (const folder of ["home", "work"]) mkdirSync(path.join(root, folder));
writeFileSync(path.join(root, "script.json"), JSON.stringify(script));
writeFileSync(path.join(root, "work", "price.txt"), "pears 2.5\n");
const options = ["model_provider=\"offline\"", `model=${JSON.stringify(path.join(root, "script.json"))}`, "approval_policy=\"untrusted\""];
const server = spawn(process.env.AGENTD, ["web", "--no-open", "--listen", "127.0.0.1:0", ...options.flatMap((option) => ["-c", option])], {
  cwd: path.join(root, "work"), stdio: ["ignore", "pipe", "ignore"],
  env: { PATH: process.env.PATH, HOME: root, AGENT_HOME: path.join(root, "home") },
});
const url = await new Promise((resolve, reject) => {
  readline.createInterface({ input: server.stdout }).once("line", resolve);
  server.once("exit", (code) => reject(new Error(`agentd web ended with ${code}`)));
});

// The browser, over a pipe.

const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
  `--user-data-dir=${path.join(root, "profile")}`];
const browser = spawn("chromium", flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const answers = new Map();
let [last, session, rest] = [0, undefined, ""];
browser.stdio[4].on("data", (data) => {
  const messages = (rest + data).split("\0");
  rest = messages.pop();
  for (const message of messages.map((text) => JSON.parse(text))) {
    answers.get(message.id)?.(message);
    answers.delete(message.id);
  }
});
function command(method, params = {}) {
  const id = ++last;
  browser.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId: session })}\0`);
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer to ${method}`)), PATIENCE_MS);
    answers.set(id, ({ result, error }) => {
      clearTimeout(timer);
      if (error) reject(new Error(`${method}: ${error.message}`));
      else resolve(result);
    });
  });
}
async function evaluate(expression) {
  const { result, exceptionDetails } = await command("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
  if (exceptionDetails) throw new Error(`${expression.slice(0, 200)}: ${exceptionDetails.exception?.description}`);
  return result.value;
}
async function wait(condition) {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; ) {
    if (await evaluate(`Boolean(${condition})`)) return;
    await new Promise((wake) => setTimeout(wake, 50));
  }
  throw new Error(`never true: ${condition}; the page says: ${await evaluate("document.body.innerText")}`);
}
async function open(address) {
  await command("Page.navigate", { url: "about:blank" });
  await command("Page.navigate", { url: address });
  await wait("document.readyState === 'complete' && document.getElementById('status')");
}
const click = (selector) => evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`);
const settled = () => new Promise((wake) => setTimeout(wake, 500));

// One state of the page, in each size and scheme.
async function check(state) {
  await evaluate(axe + ";0");
  for (const [screen, width, height] of SCREENS) {
    await command("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
    for (const scheme of SCHEMES) {
      await command("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
      const { violations, wide } = await evaluate(
        `new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))).then(() => axe.run())
          .then(({ violations }) => ({ violations, wide: document.documentElement.scrollWidth > innerWidth }))`);
      const problems = violations.map(({ id, nodes }) =>
        `${id} at ${nodes.map(({ target, any }) => `${target} (${any[0]?.message ?? ""})`).slice(0, 3).join(", ")}`);
      report(`${screen}, ${scheme}`, state, wide ? [...problems, "the page is wider than the screen"] : problems);
    }
  }
  await command("Emulation.setDeviceMetricsOverride", { width: 1280, height: 800, deviceScaleFactor: 1, mobile: false });
}

console.log(`client JavaScript axe-core ${version}`);
try {
  const { targetId } = await command("Target.createTarget", { url: "about:blank" });
  session = (await command("Target.attachToTarget", { targetId, flatten: true })).sessionId;
  await open(url.replace(/#.*/, "#token=of-another-server-0123456789"));
  await wait("document.getElementById('token-dialog').open");
  await check("the question for a token");
  await open(url);
  await wait("document.getElementById('status').dataset.phase === 'open'");
  await check("no thread");
  await click("#new-thread");
  await check("the dialog of a new thread");
  await click("#start-form .primary");
  await wait("!document.getElementById('composer').hidden && !document.getElementById('send').disabled");
  await evaluate("message.value = 'Correct the price.'; composer.requestSubmit()");
  await wait("document.querySelector('.request pre')");
  await check("an approval of a command");
  await settled();
  await click(".request .primary");
  await wait("document.querySelector('.request .lines')");
  await check("an approval of a change");
  await settled();
  await click(".request .primary");
  await wait("document.querySelector('.request legend')");
  await check("a question");
  await evaluate("message.value = 'What comes next'; enqueue.click()");
  await wait("document.querySelector('#queue li')");
  await check("a message that waits for the end of the turn");
  await click("#queue [aria-label^=Remove]");
  await settled();
  await click(".request input");
  await click(".request .primary");
  await wait("document.querySelector('.request pre')?.textContent.includes('tick')");
  await settled();
  await click(".request .primary");
  await wait("document.querySelector('.turn[data-status=completed] figure')");
  await check("the end of a turn");
  await click("#panel-toggle");
  for (const tab of ["changes", "processes", "agents", "files"]) {
    await click(`#tab-${tab}`);
    await wait(`document.getElementById('pane-${tab}').textContent`);
    await check(`the panel, ${tab}`);
  }
  await click("#pane-files .entry");
  await wait("document.querySelector('#pane-files .file')");
  await check("the panel, a file");
  await click("#panel-close");
  await click("#settings-open");
  await check("the settings");
  await evaluate("document.getElementById('settings').close()");
  await click("#archive");
  await wait("!document.getElementById('welcome').hidden");
  await click("#archived");
  await wait("document.querySelector('#threads .archived')");
  await check("archived threads, and a notice");
  await evaluate("document.body.classList.add('menu-open')");
  await check("the list of threads over the page");
} catch (error) {
  report("run", "the page goes through its states", [String(error.stack).split(/\s+/).join(" ")]);
}
const gone = (child) => new Promise((resolve) => (child.exitCode === null && child.signalCode === null ? child.once("exit", resolve) : resolve()));
server.kill("SIGINT");
browser.kill("SIGKILL");
await Promise.all([gone(server), gone(browser)]);
rmSync(root, { recursive: true, force: true, maxRetries: 5 });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
