/** Servers that end, write garbage, or are of another version: a clear error, and nothing hangs. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import {
  Agent,
  ConnectionLost,
  FolderNotFound,
  MethodNotFound,
  ProgramNotFound,
  TurnInterrupted,
  TurnTimeout,
  VersionMismatch,
  tool,
} from "@agentd-embed/sdk";

import { fake, folderOf, started, turnOf } from "./servers.js";

const within = { timeout: 30_000 };

test("a server that ends fails every call with its last words", within, async (context) => {
  const body = "await hello(); await receive(); console.error('out of memory'); process.exit(3);";
  const agent = await started(context, fake(context, body));
  await assert.rejects(agent.request("thread/list"), /ConnectionLost.*ended with 3; it said:\n {2}out of memory/);
  await assert.rejects(agent.request("thread/list"), /ended with 3/);
});

test("a server that ends in a turn ends its iteration", within, async (context) => {
  const delta = { threadId: "t", turnId: "u", itemId: "i", delta: "x" };
  const body = `await turn(); send({ method: "item/agentMessage/delta", params: ${JSON.stringify(delta)} }); process.exit(0);`;
  const agent = await started(context, fake(context, body));
  const turn = await turnOf(agent);
  await assert.rejects(async () => {
    for await (const _ of turn);
  }, ConnectionLost);
  for (let time = 0; time < 2; time++) await assert.rejects(turn.result(), ConnectionLost);
});

const GARBAGE = [
  "not JSON",
  "",
  "[1]",
  "5",
  "null",
  "[".repeat(100_000),
  '{"method": 5}',
  '{"method": "x", "params": [1]}',
  '{"method": "x", "params": ""}',
  '{"method": "x", "id": 1, "params": "text"}',
  '{"method": "x", "id": {}}',
  '{"id": [1], "result": 1}',
];

for (const [number, line] of GARBAGE.entries()) {
  test(`garbage is named: ${number}`, within, async (context) => {
    const agent = await started(context, fake(context, `await hello(); await receive(); raw(${JSON.stringify(line)}); await forever();`));
    await assert.rejects(agent.request("thread/list"), /ConnectionLost.*not the protocol/);
  });
}

test("a line without an end is given up", within, async (context) => {
  const body = `await hello(); await receive();
    const part = "x".repeat(1 << 20);
    for (let at = 0; at < 66; at++) process.stdout.write(part);
    await forever();`;
  const agent = await started(context, fake(context, body));
  await assert.rejects(agent.request("thread/list"), /a line is longer than/);
});

test("answers out of order and unknown notifications are taken", within, async (context) => {
  const body = `await hello();
    send({ method: "some/news", params: { threadId: 5 } });
    send({ id: 99, result: {} });
    send({ id: null, error: {} });
    send({ id: "q", method: "some/question", params: {} });
    const both = [await receive(), await receive()];
    const asked = both.find((it) => it.method);
    send({ id: asked.id, result: both.find((it) => !it.method).error.code });
    await forever();`;
  const agent = await started(context, fake(context, body));
  assert.equal(await agent.request("thread/list"), -32601);
});

test("an odd refusal is an error all the same", within, async (context) => {
  const body = `await hello();
    for (const error of [null, 5, { code: "x", message: 7 }, { code: -32601, message: "no" }]) send({ id: (await receive()).id, error });
    await forever();`;
  const agent = await started(context, fake(context, body));
  for (let time = 0; time < 3; time++) await assert.rejects(agent.requestUntyped("a/b"), /RequestError: a\/b: /);
  await assert.rejects(agent.requestUntyped("a/b"), MethodNotFound);
});

for (const version of ["x/1.0.0 (linux)", "x/0.0.9 (linux)", "nonsense", ""]) {
  test(`other versions are refused: ${version}`, within, async (context) => {
    const body = `await hello(${JSON.stringify(version)}); await forever();`;
    await assert.rejects(Agent.start(fake(context, body)), (error) => {
      return error instanceof VersionMismatch && error.message.includes("0.1 and later");
    });
  });
}

test("what cannot be reached is named", within, async () => {
  await assert.rejects(Agent.start({ program: "/nowhere/agentd" }), (error) => {
    return error instanceof ProgramNotFound && error.message.startsWith("`program` is '/nowhere/agentd'");
  });
  await assert.rejects(Agent.start({ address: "unix:///nowhere.sock" }), /ConnectionLost: there is no server at unix/);
  await assert.rejects(Agent.start({ address: "ws://127.0.0.1:1" }), /ConnectionLost: there is no server at ws/);
  for (const address of ["http://host", "", null as never]) {
    await assert.rejects(Agent.start({ address }), /TypeError.*unix:\/\/\/PATH/);
  }
  await assert.rejects(Agent.start({ startTimeout: -1 }), RangeError);
  await assert.rejects(Agent.start({ reconnectTimeout: Number.NaN }), RangeError);
});

for (const method of ["item/completed", "thread/tokenUsage/updated", "turn/completed"]) {
  test(`an event without its content is named: ${method}`, within, async (context) => {
    const body = `await turn(); send({ method: "${method}", params: { threadId: "t", turnId: "u" } }); await forever();`;
    const turn = await turnOf(await started(context, fake(context, body)));
    for (let time = 0; time < 2; time++) {
      await assert.rejects(turn.result(), (error: Error) => error.message.includes(`not the protocol: \`${method}\``));
    }
  });
}

test("a result without an id is named", within, async (context) => {
  const body = "await hello(); send({ id: (await receive()).id, result: { thread: 5 } }); await forever();";
  const agent = await started(context, fake(context, body));
  await assert.rejects(agent.thread(), /the result of `thread\/start` has no `thread` with an id/);
});

test("a server without a handshake is given up", within, async (context) => {
  const body = "await receive(); await forever();";
  const start = Agent.start({ ...fake(context, body), startTimeout: 500 });
  await assert.rejects(start, /ConnectionLost: the handshake took longer than 500 ms/);
});

test("a timeout ends without the help of the server", within, async (context) => {
  const options = { ...fake(context, "await turn(); await forever();"), interruptTimeout: 100 };
  const turn = await turnOf(await started(context, options));
  await assert.rejects(turn.result({ timeout: 0 }), (error) => {
    return error instanceof TurnTimeout && error.message.includes("did not confirm");
  });
  await assert.rejects(turn.result(), (error) => {
    return error instanceof TurnInterrupted && error.message.includes("no answer within 100 ms");
  });
  await assert.rejects(turn.result({ timeout: -1 }), RangeError);
  const agent = await started(context, fake(context, "await hello(); await thread(); await forever();"));
  const run = (await agent.thread()).run("go", { timeout: 100 });
  await assert.rejects(run, /TurnTimeout: the server did not start the turn within 100 ms/);
});

test("a turn that starts too late is interrupted", within, async (context) => {
  const body = `await hello(); await thread();
    const { id } = await receive();
    await new Promise((done) => setTimeout(done, 300));
    send({ id, result: { turn: { id: "u" } } });
    const { method, params } = await receive();
    const last = await receive();
    send({ id: last.id, result: [method, params] });
    await forever();`;
  const agent = await started(context, fake(context, body));
  await assert.rejects((await agent.thread()).run("go", { timeout: 50 }), TurnTimeout);
  await sleep(500);
  assert.deepEqual(await agent.requestUntyped("last"), ["turn/interrupt", { threadId: "t", turnId: "u" }]);
});

const NO_JSON: [string, unknown][] = [
  ["set", new Set([1])],
  ["nan", Number.NaN],
  ["bigint", 5n],
  ["undefined", undefined],
  ["function", () => 1],
];

for (const [name, answer] of NO_JSON) {
  test(`an answer that is no JSON is refused: ${name}`, within, async (context) => {
    const body = `await hello();
      const call = await receive();
      send({ id: "q", method: "mcpServer/elicitation/request", params: {} });
      send({ id: call.id, result: (await receive()).error.message });
      await forever();`;
    const agent = await started(context, { ...fake(context, body), elicit: () => answer as never, sendToolErrors: true, log: () => undefined });
    assert.match(String(await agent.request("thread/list")), /JSON/);
    if (answer !== undefined) await assert.rejects(agent.request("thread/list", { limit: answer as never }), /JSON/);
  });
}

test("two who read a turn both end", within, async (context) => {
  const body = `await turn();
    send({ method: "turn/completed", params: { threadId: "t", turn: { id: "u", status: "completed", items: [] } } });
    await forever();`;
  const turn = await turnOf(await started(context, fake(context, body)));
  const results = await Promise.all([turn.result(), turn.result()]);
  assert.deepEqual(results.map((it) => it.turn.status), ["completed", "completed"]);
});

test("closing ends every wait", within, async (context) => {
  const agent = await started(context, fake(context, "await turn(); await forever();"));
  const turn = await turnOf(agent);
  const waits = [turn.result(), agent.request("thread/list")].map((it) => assert.rejects(it, /connection was closed/));
  await agent.close();
  await Promise.all(waits);
  await assert.rejects(agent.thread(), /connection was closed/);
});

test("a turn that is waited for survives a collection", within, async (context) => {
  const body = `await turn();
    const { id } = await receive();
    send({ method: "turn/completed", params: { threadId: "t", turn: { id: "u", status: "completed", items: [] } } });
    send({ id, result: {} });
    await forever();`;
  const agent = await started(context, fake(context, body));
  const waiting = (async () => (await turnOf(agent)).result())();
  await sleep(300);
  globalThis.gc?.();
  await agent.requestUntyped("go/on");
  assert.equal((await waiting).turn.status, "completed");
});

test("a tool says what it lacks", () => {
  const parameters = { type: "object" };
  assert.throws(() => tool({ name: "", description: "x", parameters, run: () => 1 }), /name/);
  assert.throws(() => tool({ name: "x", description: "x", parameters: 5 as never, run: () => 1 }), /schema/);
  assert.throws(() => tool({ name: "x", description: "x", parameters, run: 5 as never }), /function/);
  const foreign = { "~standard": { version: 1, vendor: "old", validate: () => ({ value: 1 }) } } as const;
  assert.throws(() => tool({ name: "x", description: "x", parameters: foreign, run: () => 1 }), /toJSONSchema/);
});

test("a working folder that is missing is named", within, async (context) => {
  const cwd = join(folderOf(context), "missing");
  await assert.rejects(Agent.start({ ...fake(context, "await hello();"), cwd }), (error) => {
    return error instanceof FolderNotFound && error.message.startsWith(`the working folder ${cwd} is not there`);
  });
});

test("a mute server is killed at the limit", within, async (context) => {
  const written = join(folderOf(context), "pid");
  const body = `import("node:fs").then((fs) => fs.writeFileSync(${JSON.stringify(written)}, String(process.pid)));
    process.on("SIGTERM", () => undefined);
    setInterval(() => undefined, 1000);`;
  const began = Date.now();
  await assert.rejects(Agent.start({ ...fake(context, body), startTimeout: 2_000 }), /the handshake took longer than 2000 ms/);
  // Less than the time that a server has to end by itself.
  assert.ok(Date.now() - began < 5_000);
  const pid = Number(readFileSync(written, "utf8"));
  const lives = () => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  while (lives()) await sleep(10);
});

test("a token that no header holds is refused without repeating it", within, async () => {
  await assert.rejects(Agent.start({ address: "unix:///nowhere.sock", token: "secret\n" }), (error) => {
    return error instanceof TypeError && /its character 7 .* remove the white space/.test(error.message) && !error.message.includes("secret");
  });
});
