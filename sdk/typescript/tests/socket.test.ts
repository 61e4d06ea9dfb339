/** Servers behind sockets: sharing one, tokens, and coming back to one after the connection was lost. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Agent, ConnectionLost, TurnInterrupted } from "@agentd-embed/sdk";

import { TOKEN, call, fakeSocket, listen, message, proxy, scripted, started, turnOf } from "./servers.js";

const within = { timeout: 60_000 };
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
  await gate.lose();
  gate.refuse(false);
  assert.equal((await thread.run("more")).text, "Next");
});

test("threads that a failed attempt resumed are resumed again", within, async (context) => {
  const resumed: unknown[] = [];
  let threads = 0;
  const ended = (threadId: unknown) => ({
    method: "turn/completed",
    params: { threadId, turn: { id: "u", status: "completed", items: [], error: null } },
    eventCursor: "3",
  });
  const server = await fakeSocket(context, {
    answers: ({ id, method, params }) => {
      if (method === "thread/start") return [{ id, result: { thread: { id: `t${++threads}` }, eventCursor: "1" } }];
      if (method !== "thread/resume") return undefined;
      const { threadId } = params;
      if (resumed.push(threadId) === 2) return "cut";
      const turns = [{ id: "u", status: "inProgress", items: [], error: null }];
      const eventReplay = { type: "snapshot", reason: "tooOld", fromTurnId: null, isComplete: true, openRequestIds: [] };
      const result = { thread: { id: threadId, turns }, eventCursor: "2", eventReplay };
      return resumed.length < 2 ? [{ id, result }] : [{ id, result }, ended(threadId)];
    },
  });
  const agent = await started(context, { address: server.address });
  const turns = [await (await agent.thread()).turn("go"), await (await agent.thread()).turn("go")];
  server.cut();
  const results = await Promise.all(turns.map((turn) => turn.result()));
  assert.deepEqual(results.map((result) => result.turn.status), ["completed", "completed"]);
  assert.deepEqual(resumed, ["t1", "t2", "t1", "t2"]);
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
  await gate.lose();
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
  await gate.lose();
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

/** A frame of a server, whose payload is short. */
function frame(opcode: number, payload: string | Buffer, first = 0x80): Buffer {
  const bytes = Buffer.from(payload);
  return Buffer.concat([Buffer.from([first | opcode, bytes.length]), bytes]);
}

/** What a server may not write. */
const FRAMES: [string, Buffer][] = [
  ["a reserved opcode", frame(3, "")],
  ["a reserved bit", frame(1, "{}", 0xc0)],
  ["masked", Buffer.concat([Buffer.from([0x81, 0x82]), Buffer.from("abcd{}")])],
  ["no UTF-8", frame(1, Buffer.from([0xff, 0xfe]))],
  ["binary", frame(2, "{}")],
  ["no JSON", frame(1, "{")],
  ["no object", frame(1, "[1]")],
  ["a continuation of nothing", frame(0, "{}")],
  ["a message in a message", Buffer.concat([frame(1, "{", 0), frame(1, "{}")])],
  ["a divided ping", frame(9, "", 0)],
  ["a long ping", Buffer.concat([Buffer.from([0x89, 126, 0, 200]), Buffer.alloc(200)])],
  ["too long", Buffer.concat([Buffer.from([0x81, 127]), Buffer.from([0, 0, 1, 0, 0, 0, 0, 0])])],
  ["a length of more than a number", Buffer.concat([Buffer.from([0x81, 127]), Buffer.alloc(8, 0xff)])],
];

for (const [name, raw] of FRAMES) {
  test(`malformed frames are named: ${name}`, within, async (context) => {
    const server = await fakeSocket(context, { raw });
    const agent = await started(context, { address: server.address });
    const turn = await turnOf(agent);
    const waits = [turn.result(), agent.request("thread/list"), agent.request("thread/list")];
    await Promise.all(waits.map((it) => assert.rejects(it, /ConnectionLost.*not the protocol/)));
    // It would write the same again.
    assert.equal(server.connections(), 1);
  });
}

for (const version of ["0.0.9", "1.0.0"]) {
  test(`another version behind a socket is refused: ${version}`, within, async (context) => {
    const other = `x/${version} (linux)`;
    const expected = new RegExp(`VersionMismatch: the server is version ${version}, .*0.1 and later`);
    await assert.rejects(Agent.start({ address: (await fakeSocket(context, { agents: [other] })).address }), expected);
    const server = await fakeSocket(context, { agents: ["x/0.1.0 (linux)", other] });
    const agent = await started(context, { address: server.address });
    const turn = await turnOf(agent);
    server.cut();
    await assert.rejects(turn.result(), expected);
    await assert.rejects(agent.request("thread/list"), expected);
  });
}

test("a turn waits for a dropped one that ended during a loss", within, async (context) => {
  const home = scripted(context, [{ steps: [{ message: "I begin." }, "idle"] }, message("Next")]);
  const path = `${home.folder}/s.sock`;
  await listen(context, home, ["--listen", `unix://${path}`]);
  const gate = await proxy(context, path);
  const agent = await started(context, { address: gate.address, offline: true, model: home.model });
  const other = await started(context, { address: `unix://${path}`, offline: true, model: home.model });
  const thread = await agent.thread({ cwd: home.cwd });
  const turn = await thread.turn("go");
  for await (const text of turn.text()) if (text) break;
  const waiting = thread.run("next");
  await gate.lose();
  await other.resume(thread.id);
  await other.request("turn/interrupt", { threadId: thread.id, turnId: turn.id });
  gate.refuse(false);
  assert.equal((await waiting).text, "Next");
});
