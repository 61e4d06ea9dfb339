// What the checks of the web client share: servers with scripted models, a browser with its pages, real keys
// and clicks, and the lines of the report. With ASSETS, the files of the page come from that folder and not
// from the program, so that a change of the page needs no build.

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import readline from "node:readline";

const PATIENCE_MS = 60_000;
export const root = mkdtempSync(path.join(tmpdir(), "agentd-web-"));
export const SCREENS = [["desktop", 1280, 800], ["phone", 360, 740]];

let [passed, failed] = [0, 0];
export function report(group, name, problems) {
  if (problems.length) failed += 1;
  else passed += 1;
  console.log(problems.length ? `FAIL  ${group}: ${name}: ${problems.join("; ").slice(0, 900)}` : `ok    ${group}: ${name}`);
}
/** Prints the counts. Returns the exit code. */
export function counts() {
  console.log(`${passed} passed, ${failed} failed`);
  return failed ? 1 : 0;
}

/** Runs a part of the checks; an error in it is one failed check. */
export async function part(name, run) {
  try {
    await run();
  } catch (error) {
    report("run", name, [String(error.stack).split(/\s+/).join(" ")]);
  }
}

export const call = (name, parameters) => ({ function_call: { name, arguments: parameters } });
export const patch = (input) => ({ custom_tool_call: { name: "apply_patch", input } });
export const say = (text, more = {}) => ({ message: { text, ...more } });

const children = [];
const gone = (child) => new Promise((resolve) => (child.exitCode === null && child.signalCode === null ? child.once("exit", resolve) : resolve()));

/** Starts `agentd web`. `responses`: the script of the model; `files`: those of its folder; `config`: its config.toml. */
export async function serve({ name, responses, files = {}, config = "", options = [], env = {} }) {
  const base = path.join(root, name);
  const [home, work] = ["home", "work"].map((folder) => path.join(base, folder));
  for (const folder of [home, work]) mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(home, "config.toml"), config);
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(work, file)), { recursive: true });
    writeFileSync(path.join(work, file), text);
  }
  let model = [];
  if (responses) {
    writeFileSync(path.join(base, "script.json"), JSON.stringify({ responses }));
    model = ["model_provider=\"offline\"", `model=${JSON.stringify(path.join(base, "script.json"))}`];
  }
  const all = [...model, ...options].flatMap((option) => ["-c", option]);
  const child = spawn(process.env.AGENTD, ["web", "--no-open", "--listen", "127.0.0.1:0", ...all], {
    cwd: work, stdio: ["ignore", "pipe", "ignore"], env: { PATH: process.env.PATH, HOME: base, AGENT_HOME: home, ...env },
  });
  children.push([child, "SIGINT"]);
  const url = await new Promise((resolve, reject) => {
    readline.createInterface({ input: child.stdout }).once("line", resolve);
    child.once("exit", (code) => reject(new Error(`agentd web ended with ${code}`)));
  });
  return { url, home, work };
}

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
  "--disable-background-timer-throttling", "--disable-renderer-backgrounding",
  // A page whose files come from ASSETS counts as one from elsewhere, which may not connect to this machine.
  ...(process.env.ASSETS ? ["--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets"] : [])];
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8" };

/** Starts the browser, over a pipe. */
export function browse() {
  const child = spawn("chromium", [...FLAGS, `--user-data-dir=${path.join(root, "profile")}`], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  children.push([child, "SIGKILL"]);
  return new Browser(child);
}

class Browser {
  #pipe;
  #answers = new Map();
  #listeners = new Map();
  #last = 0;

  constructor(child) {
    this.#pipe = child.stdio;
    // A browser that has ended is reported by the command that gets no answer.
    for (const stream of this.#pipe.slice(3)) stream.on("error", () => {});
    let rest = "";
    this.#pipe[4].on("data", (data) => {
      const messages = (rest + data).split("\0");
      rest = messages.pop();
      for (const message of messages.map((text) => JSON.parse(text))) this.#receive(message);
    });
  }

  #receive(message) {
    if (message.id === undefined) this.#listeners.get(message.sessionId)?.(message.method, message.params);
    this.#answers.get(message.id)?.(message);
    this.#answers.delete(message.id);
  }

  command(method, params = {}, sessionId = undefined) {
    const id = ++this.#last;
    this.#pipe[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no answer to ${method}`)), PATIENCE_MS);
      this.#answers.set(id, ({ result, error }) => {
        clearTimeout(timer);
        if (error) reject(new Error(`${method}: ${error.message}`));
        else resolve(result);
      });
    });
  }

  /** Opens an empty page. `before`: a script that runs in each document before those of the page. */
  async page({ before } = {}) {
    const { targetId } = await this.command("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.command("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    this.#listeners.set(sessionId, (method, params) => page.receive(method, params));
    for (const domain of ["Page", "Runtime", "Log"]) await page.command(`${domain}.enable`);
    if (before) await page.command("Page.addScriptToEvaluateOnNewDocument", { source: before });
    if (process.env.ASSETS) await page.command("Fetch.enable", { patterns: [{ urlPattern: "http://127.0.0.1:*" }] });
    await page.screen(1280, 800);
    await page.scheme("light");
    return page;
  }
}

const KEYS = { Enter: [13, "\r"], Escape: [27], Tab: [9], " ": [32, " "], ArrowLeft: [37], ArrowUp: [38], ArrowRight: [39], ArrowDown: [40], Home: [36], End: [35], Delete: [46], Backspace: [8] };
const MODIFIERS = { Alt: 1, Control: 2, Shift: 8 };

class Page {
  #browser;
  #session;
  #target;
  /** Errors of scripts, and violations of the page's security policy. */
  errors = [];

  constructor(browser, session, target) {
    this.#browser = browser;
    this.#session = session;
    this.#target = target;
  }

  receive(method, params) {
    if (method === "Fetch.requestPaused") this.#fulfil(params);
    if (method === "Runtime.exceptionThrown") this.errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Log.entryAdded" && params.entry.level === "error" && params.entry.source !== "network") this.errors.push(params.entry.text);
  }

  /** Answers from the folder of ASSETS, with the headers of the server. */
  async #fulfil({ requestId, request }) {
    const url = new URL(request.url);
    const file = path.join(process.env.ASSETS, url.pathname === "/" ? "index.html" : url.pathname);
    if (!existsSync(file)) return this.command("Fetch.continueRequest", { requestId });
    const { headers } = await fetch(new URL("/", url));
    const kept = [...headers].filter(([name]) => !["content-type", "content-length", "etag", "content-encoding"].includes(name));
    const type = TYPES[file.split(".").at(-1)] ?? "application/octet-stream";
    const responseHeaders = [...kept, ["content-type", type]].map(([name, value]) => ({ name, value }));
    return this.command("Fetch.fulfillRequest", { requestId, responseCode: 200, responseHeaders, body: readFileSync(file).toString("base64") });
  }

  command(method, params) {
    return this.#browser.command(method, params, this.#session);
  }

  async evaluate(expression) {
    const { result, exceptionDetails } = await this.command("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true, userGesture: true });
    if (exceptionDetails) throw new Error(`${expression.slice(0, 200)}: ${exceptionDetails.exception?.description}`);
    return result.value;
  }

  /** Waits until an expression is true. */
  async wait(condition) {
    for (const end = Date.now() + PATIENCE_MS; Date.now() < end; ) {
      if (await this.evaluate(`Boolean(${condition})`)) return;
      await new Promise((wake) => setTimeout(wake, 30));
    }
    throw new Error(`never true: ${condition}; the page says: ${await this.evaluate("document.body.innerText")} ${this.errors}`);
  }

  async open(url) {
    await this.command("Page.navigate", { url: "about:blank" });
    await this.command("Page.navigate", { url });
    await this.wait("document.readyState === 'complete' && document.getElementById('status')");
  }

  async reload() {
    await this.evaluate("window.isOld = true");
    await this.command("Page.reload");
    await this.wait("!window.isOld && document.readyState === 'complete' && document.getElementById('status').dataset.phase === 'open'");
  }

  /** Opens the page of a server, connected. */
  async connect(server) {
    await this.open(server.url);
    await this.wait("document.getElementById('status').dataset.phase === 'open'");
  }

  /** Starts a thread in the folder of the server. */
  async start() {
    await this.click("#new-thread");
    await this.wait("document.getElementById('start-dialog').open");
    await this.click("#start-form .primary");
    await this.wait("!document.getElementById('composer').hidden && !document.getElementById('send').disabled");
  }

  async send(text) {
    await this.evaluate("message.focus()");
    await this.type(text);
    await this.press("Enter");
  }

  /** Answers the open request with one of its buttons, after the time in which it takes no answer. */
  async answer(selector = ".request .primary") {
    await this.wait(`document.querySelector(${JSON.stringify(selector)})`);
    await new Promise((wake) => setTimeout(wake, 450));
    await this.evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`);
  }

  /** Clicks the middle of an element once it is there; it must not be covered. */
  async click(selector) {
    await this.wait(`document.querySelector(${JSON.stringify(selector)})`);
    const at = await this.evaluate(`(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      if (!element) throw new Error("there is no element");
      element.scrollIntoView({ block: "nearest", behavior: "instant" });
      const { x, y, width, height } = element.getBoundingClientRect();
      const [left, top] = [x + width / 2, y + height / 2];
      const hit = document.elementFromPoint(left, top);
      if (!(element.contains(hit) || hit?.contains(element))) throw new Error(\`it is covered by \${hit?.outerHTML.slice(0, 80)}\`);
      return { x: left, y: top };
    })()`);
    for (const type of ["mousePressed", "mouseReleased"]) await this.command("Input.dispatchMouseEvent", { type, ...at, button: "left", clickCount: 1 });
  }

  type(text) {
    return this.command("Input.insertText", { text });
  }

  /** Presses a key, as in `Enter` or `Shift+Tab`. */
  async press(keys) {
    const parts = keys.split("+");
    const key = parts.pop();
    const [code, text] = KEYS[key] ?? [key.toUpperCase().charCodeAt(0), key];
    const modifiers = parts.reduce((sum, name) => sum + MODIFIERS[name], 0);
    const event = { key, code: key === " " ? "Space" : key, windowsVirtualKeyCode: code, modifiers };
    await this.command("Input.dispatchKeyEvent", { ...event, type: text && !(modifiers & 3) ? "keyDown" : "rawKeyDown", text: modifiers & 3 ? undefined : text });
    await this.command("Input.dispatchKeyEvent", { ...event, type: "keyUp" });
  }

  /** Changes the size, and waits until the page is drawn in it. */
  async screen(width, height) {
    await this.command("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
    await this.drawn();
  }

  drawn() {
    return this.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))).then(() => true)");
  }

  scheme(value) {
    return this.command("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }, { name: "prefers-reduced-motion", value: "reduce" }] });
  }

  /** Where SCREENSHOTS names a folder, a picture of the page. */
  async screenshot(name) {
    if (!process.env.SCREENSHOTS) return;
    await this.drawn();
    const { data } = await this.command("Page.captureScreenshot", { format: "png" });
    writeFileSync(path.join(process.env.SCREENSHOTS, `${name}.png`), Buffer.from(data, "base64"));
  }

  close() {
    return this.#browser.command("Target.closeTarget", { targetId: this.#target });
  }
}

/** Ends all servers and the browser, and removes their folders. */
export async function end() {
  for (const [child, signal] of children) child.kill(signal);
  await Promise.all(children.map(([child]) => gone(child)));
  rmSync(root, { recursive: true, force: true, maxRetries: 5 });
}
