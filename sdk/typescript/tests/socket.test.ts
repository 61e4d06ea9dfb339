/** Servers behind sockets: sharing one, tokens, and coming back to one after the connection was lost. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { type AddressInfo, type Socket, connect, createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Agent, ConnectionLost, TurnInterrupted } from "@agentd/sdk";

import { call, message, scripted, started } from "./servers.js";

const within = { timeout: 60_000 };
const TOKEN = "secret-token-of-the-test-0123456789";

type Home = ReturnType<typeof scripted>;

async function listen(context: TestContext, { env }: Home, args: string[]): Promise<[string, ChildProcess]> {
  const program = process.env["AGENTD_PATH"] as string;
  const server = spawn(program, ["app-server", ...args], { env, stdio: ["ignore", "pipe", "ignore"] });
  context.after(() => server.kill("SIGKILL"));
  for await (const line of createInterface({ input: server.stdout })) {
    if (line.startsWith("listening on ")) return [line.slice("listening on ".length), server];
  }
  throw new Error("the server does not listen");
}

/** A proxy in front of a socket, whose connections can be cut. */
async function proxy(context: TestContext, path: string) {
  const open = new Set<Socket>();
  let isClosed = false;
  let connections = 0;
  const server = createServer((near) => {
    connections += 1;
    if (isClosed) return near.destroy();
    const far = connect(path);
    for (const socket of [near, far]) {
      open.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => (near.destroy(), far.destroy(), open.delete(socket)));
    }
    near.pipe(far).pipe(near);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => (server.close(), open.forEach((it) => it.destroy())));
  const { port } = server.address() as AddressInfo;
  return {
    address: `ws://127.0.0.1:${port}`,
    cut: () => open.forEach((it) => it.destroy()),
    refuse: (refuses: boolean) => (isClosed = refuses),
    connections: () => connections,
  };
}

for (const kind of ["unix", "ws"]) {
  test(`two agents share a server: ${kind}`, within, async (context) => {
    const home = scripted(context, [message("Hi")]);
    const file = join(home.folder, "token");
    writeFileSync(file, TOKEN, { mode: 0o600 });
    const auth = ["--ws-auth", "capability-token", "--ws-token-file", file];
    const args = kind === "unix" ? [`unix://${home.folder}/s.sock`] : ["ws://127.0.0.1:0", ...auth];
    const [address, server] = await listen(context, home, ["--listen", ...args]);
    const options = { address, offline: true, model: home.model, token: TOKEN, reconnectTimeout: 300 };
    if (kind === "ws") await assert.rejects(Agent.start({ ...options, token: "wrong" }), /ConnectionLost.*401/);
    const [first, second] = [await started(context, options), await started(context, options)];
    const thread = await first.thread({ cwd: home.cwd });
    const other = await second.resume(thread.id);
    assert.equal((await thread.run("go")).text, "Hi");
    assert.equal((await other.read()).turns[0]?.status, "completed");
    server.kill("SIGKILL");
    await assert.rejects(other.read(), ConnectionLost);
    await assert.rejects(other.read(), ConnectionLost);
  });
}

const LONG = Array.from({ length: 200 }, (_, at) => `word ${at} of it `).join("");

test("a stream goes on after losses, with nothing lost or doubled", within, async (context) => {
  const home = scripted(context, [message(LONG, { chunk_chars: 8, chunk_delay_ms: 5 }), message("Next")]);
  const path = `${home.folder}/s.sock`;
  await listen(context, home, ["--listen", `unix://${path}`]);
  const gate = await proxy(context, path);
  const agent = await started(context, { address: gate.address, offline: true, model: home.model });
  const thread = await agent.thread({ cwd: home.cwd });
  const turn = await thread.turn("go");
  let text = "";
  let next = 300;
  for await (const part of turn.text()) {
    text += part;
    if (text.length > next) {
      next += 600;
      gate.cut();
    }
  }
  const result = await turn.result();
  assert.equal(text, LONG);
  assert.equal(result.text, LONG);
  assert.deepEqual(result.items.map((it) => it.type), ["userMessage", "agentMessage"]);
  assert.ok(gate.connections() >= 4, `${gate.connections()} connections`);
  // A thread that nobody followed is subscribed to when its next turn starts.
  gate.cut();
  await sleep(50);
  assert.equal((await thread.run("more")).text, "Next");
});

test("a question that is open during a loss is asked once", within, async (context) => {
  const escalated = { cmd: "touch made", sandbox_permissions: "require_escalated", justification: "to make it" };
  const home = scripted(context, [call("exec_command", escalated), message("Done")]);
  const path = `${home.folder}/s.sock`;
  await listen(context, home, ["--listen", `unix://${path}`]);
  const gate = await proxy(context, path);
  let asked = 0;
  const approve = async () => {
    asked += 1;
    gate.cut();
    await sleep(1000);
    return true;
  };
  const agent = await started(context, { address: gate.address, offline: true, model: home.model, approve });
  const result = await agent.run("go", { approvalPolicy: "onRequest", thread: { cwd: home.cwd } });
  assert.equal(result.text, "Done");
  assert.equal(asked, 1);
});

test("a server that was killed and started again ends its turns", within, async (context) => {
  const home = scripted(context, [{ steps: [{ message: "I begin." }, "idle"] }, message("Next")]);
  const path = `${home.folder}/s.sock`;
  const [, server] = await listen(context, home, ["--listen", `unix://${path}`]);
  const agent = await started(context, { address: `unix://${path}`, offline: true, model: home.model });
  const thread = await agent.thread({ cwd: home.cwd });
  const turn = await thread.turn("go");
  for await (const text of turn.text()) if (text) break;
  server.kill("SIGKILL");
  const ended = assert.rejects(turn.result(), TurnInterrupted);
  await once(server, "exit");
  await listen(context, home, ["--listen", `unix://${path}`]);
  await ended;
  assert.equal((await thread.read()).turns[0]?.status, "interrupted");
});

test("a turn that was rolled back during a loss ends", within, async (context) => {
  const home = scripted(context, [{ steps: [{ message: "I begin." }, "idle"] }]);
  const path = `${home.folder}/s.sock`;
  await listen(context, home, ["--listen", `unix://${path}`]);
  const gate = await proxy(context, path);
  const agent = await started(context, { address: gate.address, offline: true, model: home.model });
  const other = await started(context, { address: `unix://${path}`, offline: true, model: home.model });
  const thread = await agent.thread({ cwd: home.cwd });
  const turn = await thread.turn("go");
  for await (const text of turn.text()) if (text) break;
  const same = await other.resume(thread.id);
  gate.refuse(true);
  gate.cut();
  await other.request("turn/interrupt", { threadId: thread.id, turnId: turn.id });
  await same.rollback(1);
  const ended = assert.rejects(turn.result(), /ConnectionLost: the turn is no longer part of its thread/);
  gate.refuse(false);
  await ended;
});

test("a server that does not come back is given up", within, async (context) => {
  const home = scripted(context, [{ steps: [{ message: "I begin." }, "idle"] }]);
  const path = `${home.folder}/s.sock`;
  await listen(context, home, ["--listen", `unix://${path}`]);
  const gate = await proxy(context, path);
  const options = { address: gate.address, offline: true, model: home.model, reconnectTimeout: 500 };
  const agent = await started(context, options);
  const turn = await (await agent.thread({ cwd: home.cwd })).turn("go");
  gate.refuse(true);
  gate.cut();
  await sleep(50);
  const waits = [turn.result(), agent.request("thread/list")].map((it) => assert.rejects(it, /it was not made again/));
  await Promise.all(waits);
});

test("what is no server is named", within, async (context) => {
  const answers: [Buffer | string, RegExp][] = [
    ["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", /answered 200/],
    ["no HTTP\r\n\r\n", /ConnectionLost: there is no server/],
    ["HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n", /does not speak WebSocket/],
    ["", /took longer than 500 ms/],
  ];
  for (const [answer, expected] of answers) {
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.write(answer);
      if (answer !== "") socket.end();
      context.after(() => socket.destroy());
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    context.after(() => server.close());
    const address = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await assert.rejects(Agent.start({ address, startTimeout: 500 }), expected);
  }
});
