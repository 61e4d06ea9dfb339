/** The package in a real browser, through a WebSocket with a token. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join, normalize } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Page, missing } from "./browser.js";
import { TOKEN, call, listen, message, proxy, scripted } from "./servers.js";

const BUILT = fileURLToPath(new URL("../../dist/", import.meta.url));

/** The built package as a site; its page has the package as `sdk`. */
async function site(context: TestContext): Promise<string> {
  const server = createServer(({ url = "/" }, response) => {
    const file = join(BUILT, normalize(url));
    if (url === "/") {
      response.setHeader("content-type", "text/html");
      response.end("<!doctype html><script type=module>window.sdk = await import('./browser.js');</script>");
    } else if (existsSync(file)) {
      response.setHeader("content-type", "text/javascript");
      response.end(readFileSync(file));
    } else {
      response.writeHead(404).end();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => (server.closeAllConnections(), server.close()));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const LONG = Array.from({ length: 100 }, (_, at) => `word ${at} of it `).join("");
const ESCALATED = { cmd: "touch made", sandbox_permissions: "require_escalated", justification: "to make it" };

test("a page runs a turn with an approval, and goes on after a loss", { timeout: 120_000, skip: missing() }, async (context) => {
  const responses = [call("exec_command", ESCALATED), message(LONG, { chunk_chars: 8, chunk_delay_ms: 5 })];
  const home = scripted(context, responses);
  const file = join(home.folder, "token");
  writeFileSync(file, TOKEN, { mode: 0o600 });
  const origin = await site(context);
  const auth = ["--ws-auth", "capability-token", "--ws-token-file", file, "--ws-allow-origin", origin];
  const [address] = await listen(context, home, ["--listen", "ws://127.0.0.1:0", ...auth]);
  const gate = await proxy(context, Number(new URL(address).port));
  const page = await Page.open(context, origin);

  const start = (options: object) => `
    new Promise((resolve) => {
      const look = () => (window.sdk ? resolve(window.sdk) : setTimeout(look, 10));
      look();
    }).then(({ Agent }) => Agent.start({ ...${JSON.stringify(options)}, approve: (it) => (asked.push(it.command), true) }))`;
  const options = { address: gate.address, token: TOKEN, offline: true, model: home.model, cwd: home.cwd };
  await page.evaluate("window.asked = []; 1");
  const refused = await page.evaluate(`${start({ ...options, token: "wrong" })}.catch((error) => String(error))`);
  assert.match(String(refused), /ConnectionLost: there is no server at ws:.*refused the token or this page's origin/);

  const begun = await page.evaluate(`(async () => {
    window.agent = await ${start(options)};
    window.turn = await (await agent.thread()).turn("go", { approvalPolicy: "onRequest" });
    window.texts = turn.text();
    return (await texts.next()).value;
  })()`);
  const before = gate.connections();
  gate.cut();
  const rest = await page.evaluate(`(async () => {
    let text = "";
    for await (const part of texts) text += part;
    const { text: whole } = await turn.result();
    await agent.close();
    return { text, whole, asked };
  })()`);
  const { text, whole, asked } = rest as { text: string; whole: string; asked: string[] };
  assert.equal(String(begun) + text, LONG);
  assert.equal(whole, LONG);
  assert.equal(asked.length, 1);
  assert.match(asked[0] ?? "", /touch made/);
  assert.ok(existsSync(join(home.cwd, "made")));
  assert.ok(gate.connections() > before, `${gate.connections()} connections`);
});

test("a page without an address is told what it lacks", { timeout: 120_000, skip: missing() }, async (context) => {
  const page = await Page.open(context, await site(context));
  const message = await page.evaluate(
    `import(${JSON.stringify("./browser.js")}).then(({ Agent }) => Agent.start({ address: "unix:///s.sock" })).catch((error) => String(error))`,
  );
  assert.match(String(message), /TypeError.*not an address for a browser/);
});
