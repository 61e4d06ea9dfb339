/** Headless Chromium, driven over its DevTools protocol by a pipe: it ends with the test. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import type { Readable, Writable } from "node:stream";
import type { TestContext } from "node:test";

const PROGRAM = "chromium";
const FLAGS = [
  "--headless",
  // Its own sandbox does not work as root, and the only page is ours.
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--disable-dev-shm-usage",
  "--disable-background-networking",
  "--disable-breakpad",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
  "--remote-debugging-pipe",
];

/** Why there is no browser; none when there is one. */
export function missing(): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  return folders.some((it) => existsSync(join(it, PROGRAM))) ? undefined : `missing on this machine: ${PROGRAM}`;
}

type Answer = { result?: Record<string, unknown>; error?: { message: string } };

/** A page of a browser of its own. */
export class Page {
  readonly #input: Writable;
  readonly #calls = new Map<number, (answer: Answer) => void>();
  #session: unknown;
  #next = 0;

  private constructor(input: Writable, output: Readable) {
    this.#input = input;
    let text = "";
    output.setEncoding("utf8").on("data", (part: string) => {
      const messages = (text + part).split("\0");
      text = messages.pop() ?? "";
      for (const message of messages.map((it) => JSON.parse(it))) this.#calls.get(message.id)?.(message);
    });
  }

  static async open(context: TestContext, url: string): Promise<Page> {
    const profile = mkdtempSync(join(tmpdir(), "agentd-embed-browser-"));
    const browser = spawn(PROGRAM, [...FLAGS, `--user-data-dir=${profile}`, "about:blank"], {
      env: { ...process.env, HOME: profile },
      stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
      // So that its helpers end with it.
      detached: true,
    });
    context.after(async () => {
      if (browser.pid !== undefined && browser.exitCode === null) {
        process.kill(-browser.pid, "SIGKILL");
        await once(browser, "exit");
      }
      // Its helpers may still be about to end.
      rmSync(profile, { recursive: true, force: true, maxRetries: 20 });
    });
    const page = new Page(browser.stdio[3] as Writable, browser.stdio[4] as Readable);
    const { targetId } = await page.#call("Target.createTarget", { url: "about:blank" });
    page.#session = (await page.#call("Target.attachToTarget", { targetId, flatten: true }))["sessionId"];
    await page.#call("Page.enable", {});
    const { errorText } = await page.#call("Page.navigate", { url });
    if (errorText !== undefined) throw new Error(`${url}: ${String(errorText)}`);
    return page;
  }

  /** The value of an expression in the page; a promise is awaited. */
  async evaluate(expression: string): Promise<unknown> {
    const params = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await this.#call("Runtime.evaluate", params);
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails));
    return (result as { value?: unknown }).value;
  }

  async #call(method: string, params: object): Promise<Record<string, unknown>> {
    const id = this.#next++;
    const answer = new Promise<Answer>((resolve) => this.#calls.set(id, resolve));
    this.#input.write(`${JSON.stringify({ id, method, params, sessionId: this.#session })}\0`);
    const { result = {}, error } = await answer;
    this.#calls.delete(id);
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result;
  }
}
