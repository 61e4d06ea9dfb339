// `agentd` against a login service that others wrote: the package oidc-provider, a certified OpenID
// provider. One line per check, and a count at the end. Environment: AGENTD (the program). Exits with 1 if
// a check fails.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import readline from "node:readline";
import Provider from "oidc-provider";

const agentd = process.env.AGENTD;
const root = mkdtempSync(path.join(tmpdir(), "agentd-login-"));
const home = path.join(root, "home");
const credentials = path.join(home, "credentials.json");
mkdirSync(home);
const { version } = createRequire(import.meta.url)("oidc-provider/package.json");
const PROCESSES = 200;

let [passed, failed] = [0, 0];

// Runs a function as a check. An exception is the reason of a failure.
async function check(group, name, run) {
  try {
    await run();
    passed += 1;
    console.log(`ok    ${group}: ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${group}: ${name}: ${String(error.stack).split(/\s+/).join(" ").slice(0, 700)}`);
  }
}

const listen = (server) =>
  new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${server.address().port}`)));

// The login service.
const service = http.createServer();
const issuer = await listen(service);
const claims = { email: "ann@example.com", plan_type: "team", account_id: "workspace-1" };
// It recommends settings for production.
console.info = console.warn = () => {};
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "agentd",
      application_type: "native",
      token_endpoint_auth_method: "none",
      grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
      redirect_uris: ["http://127.0.0.1/auth/callback"],
    },
  ],
  claims: { email: Object.keys(claims) },
  features: { deviceFlow: { enabled: true }, revocation: { enabled: true }, devInteractions: { enabled: true } },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...claims }) }),
  pkce: { required: () => true, methods: ["S256"] },
  rotateRefreshToken: true,
  ttl: { AccessToken: 3600, IdToken: 3600, RefreshToken: 86400, Grant: 86400, Interaction: 600, Session: 600, DeviceCode: 60 },
});
service.on("request", provider.callback());
const refreshes = { answered: 0, refused: 0 };
const count = (kind) => (ctx) => {
  if (ctx.oidc?.params?.grant_type === "refresh_token") refreshes[kind] += 1;
};
provider.on("grant.success", count("answered"));
provider.on("grant.error", count("refused"));

// A model behind the same accounts: it accepts the access tokens that the service knows, unless a check
// refuses one.
const seen = [];
let refuses = null;
const model = http.createServer(async (request, response) => {
  const token = (request.headers.authorization ?? "").replace("Bearer ", "");
  if (request.url === "/v1/responses") seen.push({ token, account: request.headers["hosted-account-id"] });
  const known = token && token !== refuses && (await provider.AccessToken.find(token));
  request.resume();
  if (!known) {
    response.writeHead(401, { "content-type": "application/json" });
    return response.end(JSON.stringify({ error: { code: "invalid_api_key", message: "no" } }));
  }
  const content = [{ type: "output_text", text: "Hello." }];
  const events = [
    { type: "response.output_item.done", item: { type: "message", id: "m", role: "assistant", content } },
    { type: "response.completed", response: { id: "r" } },
  ];
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.end(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
});
const base = await listen(model);
const config = (more = "") =>
  writeFileSync(
    path.join(home, "config.toml"),
    `hosted_base_url = "${issuer}"\ndefault_provider_base_url = "${base}/v1"\nmodel = "gpt-5"\n${more}`,
  );
config();

const environment = { PATH: process.env.PATH, HOME: root, AGENT_HOME: home };
const start = (...words) => spawn(agentd, words, { cwd: root, env: environment });

// What a program printed, and its exit code.
async function run(...words) {
  const child = start(...words);
  child.stdin.end();
  let [out, err] = ["", ""];
  child.stdout.on("data", (data) => (out += data));
  child.stderr.on("data", (data) => (err += data));
  const code = await new Promise((resolve) => child.on("close", resolve));
  return { code, out, err };
}

// A browser: it keeps cookies, follows redirects and submits forms. It stops at an address for which
// `until` holds.
class Browser {
  cookies = new Map();

  async load(url, form, until = () => false) {
    for (let hops = 0; hops < 20; hops += 1) {
      if (until(url)) return { url, text: "" };
      const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
      const response = await fetch(url, {
        method: form ? "POST" : "GET",
        body: form && new URLSearchParams(form),
        headers: { cookie },
        redirect: "manual",
      });
      for (const line of response.headers.getSetCookie()) {
        const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
        if (value) this.cookies.set(name, value);
        else this.cookies.delete(name);
      }
      const location = response.headers.get("location");
      if (!location) return { url, text: await response.text() };
      [url, form] = [new URL(location, url).href, undefined];
    }
    throw new Error("too many redirects");
  }

  // Submits the form of a page with these values.
  submit(page, values, until) {
    const action = page.text.match(/<form[^>]* action="([^"]+)"/)[1];
    const hidden = page.text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g);
    const form = Object.fromEntries([...hidden].map(([, name, value]) => [name, value]));
    return this.load(new URL(action, page.url).href, { ...form, ...values }, until);
  }

  // Logs in and consents. Returns the page or the address after it.
  async agree(page, until) {
    page = await this.submit(page, { login: "ann", password: "x" }, until);
    return page.text.includes("prompt") && !until(page.url) ? this.submit(page, {}, until) : page;
  }
}

const isCallback = (url) => url.startsWith("http://127.0.0.1:") && url.includes("/auth/callback?");

// The user's part of a login in a browser.
async function authorize(url) {
  const browser = new Browser();
  const { url: callback } = await browser.agree(await browser.load(url), isCallback);
  return callback;
}

// A login that has printed its address, and its end.
function begin(...words) {
  const child = start("login", ...words);
  const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let err = "";
  child.stderr.on("data", (data) => (err += data));
  const ended = new Promise((resolve) => child.on("close", (code) => resolve({ code, err })));
  return { child, ended, line: async () => (await lines.next()).value };
}

async function logIn() {
  const login = begin();
  const page = await (await fetch(await authorize(await login.line()))).text();
  assert.match(page, /You are logged in/);
  const status = await login.line();
  assert.equal((await login.ended).code, 0);
  return status;
}

const stored = () => JSON.parse(readFileSync(credentials, "utf8"));
const store = (changes) => writeFileSync(credentials, JSON.stringify({ ...stored(), ...changes }), { mode: 0o600 });
const expire = () => store({ obtainedAtMs: stored().obtainedAtMs - 7_200_000 });

// A client of the application server.
class Client {
  constructor() {
    this.child = start("app-server");
    this.messages = readline.createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
    this.unread = [];
    this.id = 0;
  }

  async next(fits) {
    const at = this.unread.findIndex(fits);
    if (at >= 0) return this.unread.splice(at, 1)[0];
    for (;;) {
      const { value, done } = await this.messages.next();
      if (done) throw new Error("the server has ended");
      const message = JSON.parse(value);
      if (fits(message)) return message;
      this.unread.push(message);
    }
  }

  async call(method, params) {
    const id = (this.id += 1);
    this.child.stdin.write(`${JSON.stringify({ id, method, params })}\n`);
    const answer = await this.next((message) => message.id === id && !message.method);
    if (answer.error) throw new Error(answer.error.message);
    return answer.result;
  }

  async notification(method) {
    return (await this.next((message) => message.method === method)).params;
  }

  async turn() {
    const { thread } = await this.call("thread/start", { cwd: root });
    await this.call("turn/start", { threadId: thread.id, input: [{ type: "text", text: "Hi." }] });
    return (await this.notification("turn/completed")).turn;
  }

  static async start() {
    const client = new Client();
    await client.call("initialize", { clientInfo: { name: "login_tests", version: "1" } });
    client.child.stdin.write(`${JSON.stringify({ method: "initialized" })}\n`);
    return client;
  }
}

console.log(`client oidc-provider ${version} on Node.js ${process.versions.node}`);
const logged = "Logged in as ann@example.com, plan team, workspace workspace-1";

await check("browser", "a code with PKCE, state and nonce", async () => {
  assert.equal(await logIn(), logged);
  const { refreshToken, issuer: from } = stored();
  assert.ok(refreshToken);
  assert.equal(from, issuer);
});

await check("browser", "a user who refuses", async () => {
  const login = begin();
  const url = await login.line();
  const browser = new Browser();
  const page = await browser.load(url);
  const abort = page.text.match(/href="([^"]*abort[^"]*)"/)[1];
  const { url: callback } = await browser.load(new URL(abort, page.url).href, undefined, isCallback);
  assert.match(await (await fetch(callback)).text(), /access_denied/);
  const { code, err } = await login.ended;
  assert.equal(code, 1);
  assert.match(err, /access_denied/);
  // The earlier login stays.
  assert.equal((await run("login", "status")).out.trim(), logged);
});

await check("browser", "an answer to another login changes nothing", async () => {
  const [one, two] = [begin(), begin()];
  const [first, second] = [await one.line(), await two.line()];
  const callback = new URL(await authorize(first));
  const port = new URL(new URL(second).searchParams.get("redirect_uri")).port;
  const right = callback.port;
  callback.port = port;
  assert.equal((await fetch(callback)).status, 400);
  callback.port = right;
  assert.equal((await fetch(callback)).status, 200);
  assert.equal((await one.ended).code, 0);
  two.child.kill("SIGINT");
  assert.equal((await two.ended).code, 130);
});

await check("browser", "a code that is used twice is refused", async () => {
  const login = begin();
  const callback = await authorize(await login.line());
  const { searchParams } = new URL(callback);
  const answers = await Promise.allSettled([fetch(callback), fetch(callback)]);
  assert.ok(answers.some((one) => one.value?.status === 200), JSON.stringify(answers));
  assert.equal(answers.filter((one) => one.value?.status === 200).length, 1);
  assert.equal((await login.ended).code, 0);
  assert.ok(searchParams.get("iss") === issuer, "the service names itself");
});

await check("device", "a code that the user enters", async () => {
  const login = begin("--device");
  const [url, code] = [await login.line(), await login.line()];
  const browser = new Browser();
  let page = await browser.submit(await browser.load(url), { user_code: code });
  page = await browser.submit(page, { confirm: "yes" });
  page = await browser.agree(page, () => false);
  assert.match(page.text, /Sign-in Success|success/i);
  assert.equal(await login.line(), logged);
  assert.equal((await login.ended).code, 0);
});

await check("device", "a user who refuses", async () => {
  const login = begin("--device");
  const [url, code] = [await login.line(), await login.line()];
  const browser = new Browser();
  const page = await browser.submit(await browser.load(url), { user_code: code });
  await browser.submit(page, { abort: "yes" });
  const { code: exit, err } = await login.ended;
  assert.equal(exit, 1);
  assert.match(err, /denied/);
});

await check("refresh", `${PROCESSES} processes and one expired login: one request`, async () => {
  await logIn();
  const before = { ...refreshes };
  const old = stored().refreshToken;
  expire();
  const all = await Promise.all(Array.from({ length: PROCESSES }, () => run("login", "status", "--refresh")));
  for (const { code, out, err } of all) assert.deepEqual([code, out.trim()], [0, logged], err);
  assert.deepEqual(refreshes, { answered: before.answered + 1, refused: before.refused });
  assert.notEqual(stored().refreshToken, old, "the service rotates refresh tokens");
});

await check("refresh", "a reused token ends the login, for all processes", async () => {
  const old = stored().refreshToken;
  expire();
  assert.equal((await run("login", "status", "--refresh")).code, 0);
  // As a thief would, or a process that crashed before it wrote.
  const thief = await fetch(`${issuer}/token`, {
    method: "POST",
    body: new URLSearchParams({ grant_type: "refresh_token", refresh_token: old, client_id: "agentd" }),
  });
  assert.equal(thief.status, 400);
  expire();
  const before = refreshes.refused;
  for (let n = 0; n < 3; n += 1) {
    const { code, out } = await run("login", "status", "--refresh");
    assert.equal(code, 1);
    assert.match(out, /Not logged in: .*invalid_grant/);
  }
  assert.equal(refreshes.refused, before + 1);
  assert.equal(stored().accessToken, undefined);
});

await check("logout", "revokes the refresh token", async () => {
  await logIn();
  const { refreshToken } = stored();
  assert.equal((await run("logout")).out.trim(), "Logged out");
  const body = new URLSearchParams({ grant_type: "refresh_token", refresh_token: refreshToken, client_id: "agentd" });
  assert.equal((await fetch(`${issuer}/token`, { method: "POST", body })).status, 400);
});

await check("server", "a login over the protocol, and turns with its tokens", async () => {
  const client = await Client.start();
  const { loginId, authUrl } = await client.call("account/login/start", { type: "hosted" });
  await fetch(await authorize(authUrl));
  const done = await client.notification("account/login/completed");
  assert.deepEqual(done, { loginId, success: true, error: null });
  assert.deepEqual(await client.notification("account/updated"), { authMode: "hosted", planType: "team" });
  const { account } = await client.call("account/read", {});
  assert.deepEqual(account, { type: "hosted", email: "ann@example.com", planType: "team" });
  seen.length = 0;
  assert.equal((await client.turn()).status, "completed");
  assert.deepEqual(seen, [{ token: stored().accessToken, account: "workspace-1" }]);
  // The provider no longer accepts the token, long before it expires.
  refuses = stored().accessToken;
  assert.equal((await client.turn()).status, "completed");
  assert.deepEqual(seen.map((one) => one.token), [refuses, refuses, stored().accessToken]);
  // Expired at the service and here.
  expire();
  assert.equal((await client.turn()).status, "completed");
  assert.equal(seen.length, 4);
  const before = refreshes.answered;
  await client.call("account/read", { refreshToken: true });
  assert.equal(refreshes.answered, before + 1);
  await client.call("account/logout");
  assert.equal((await client.turn()).error.agentErrorInfo, "Unauthorized");
  client.child.stdin.end();
});

await check("server", "two servers on one home refresh an expired login once", async () => {
  await logIn();
  const clients = await Promise.all([Client.start(), Client.start()]);
  const before = refreshes.answered;
  expire();
  const turns = await Promise.all(clients.map((client) => client.turn()));
  assert.deepEqual(turns.map((turn) => turn.status), ["completed", "completed"]);
  assert.equal(refreshes.answered, before + 1);
  for (const client of clients) client.child.stdin.end();
});

await check("settings", "another workspace than the forced one is refused", async () => {
  const forced = "01234567-89ab-cdef-0123-456789abcdef";
  config(`forced_hosted_workspace_id = "${forced}"\n`);
  const { code, out } = await run("login", "status");
  assert.equal(code, 1);
  assert.match(out, new RegExp(`Not logged in: .*${forced}.*workspace-1`));
  const login = begin();
  const page = await (await fetch(await authorize(await login.line()))).text();
  assert.match(page, /forced_hosted_workspace_id/);
  assert.equal((await login.ended).code, 1);
  config();
});

service.close();
model.close();
service.closeAllConnections();
model.closeAllConnections();
rmSync(root, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
