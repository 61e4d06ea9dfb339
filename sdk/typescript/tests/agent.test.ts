/** The client against a real server with a scripted model. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";

import {
  Agent,
  type Approval,
  InvalidOutput,
  InvalidParams,
  RequestError,
  TurnFailed,
  TurnInterrupted,
  TurnTimeout,
  image,
  tool,
} from "@agentd-embed/sdk";
import { z } from "zod";

import { IDLE, all, call, isMessage, message, scripted, started, turnOf } from "./servers.js";

test("three lines are enough", async (context) => {
  const { env } = scripted(context, []);
  const agent = await started(context, { offline: true, model: "echo", env });
  const result = await agent.run("Hello there");
  assert.match(result.text, /Hello there/);
  assert.equal(result.output, result.text);
  assert.ok((result.usage?.total.totalTokens ?? 0) > 0);
  assert.equal(result.items[0]?.type, "userMessage");
});

test("a turn is streamed and the thread goes on", async (context) => {
  const responses = [message("One two three", { chunk_chars: 4, chunk_delay_ms: 20 }), message("Again")];
  const agent = await started(context, scripted(context, responses));
  const thread = await agent.thread();
  const turn = await thread.turn("go");
  const texts = await all(turn.text());
  assert.equal(texts.join(""), "One two three");
  assert.ok(texts.length > 1);
  assert.equal((await turn.result()).text, "One two three");
  await thread.rename("A title");
  const again = await agent.resume(thread.id);
  assert.equal((await again.run("more")).text, "Again");
  assert.equal((await again.read()).name, "A title");
  const listed = await all(agent.list({ limit: 1 }));
  assert.deepEqual(listed.map((it) => it.id), [thread.id]);
  assert.notEqual((await agent.fork(thread.id)).id, thread.id);
  await thread.rollback(1);
  assert.equal((await thread.read()).turns.length, 1);
  await thread.archive();
  assert.equal((await agent.request("thread/list", { archived: true })).data.length, 1);
  await agent.unarchive(thread.id);
});

const ESCALATED = { cmd: "touch made", sandbox_permissions: "require_escalated", justification: "to make it" };

for (const allows of [true, false, undefined]) {
  test(`a command is asked about: ${allows}`, async (context) => {
    const asked: Approval[] = [];
    const options = scripted(context, [call("exec_command", ESCALATED), message("Done")]);
    const approve = (approval: Approval) => {
      asked.push(approval);
      return allows as boolean;
    };
    const agent = await started(context, { ...options, ...(allows !== undefined && { approve }) });
    assert.equal((await agent.run("go", { approvalPolicy: "onRequest" })).text, "Done");
    if (allows !== undefined) {
      assert.deepEqual(asked.map((it) => [it.kind, it.reason]), [["command", "to make it"]]);
      assert.match(asked[0]?.command ?? "", /touch made/);
    }
    assert.equal(existsSync(join(options.cwd, "made")), allows === true);
  });
}

test("a function is a tool", async (context) => {
  const calls: [string, number][] = [];
  const weather = tool({
    name: "weather",
    description: "What the weather will be.",
    parameters: z.object({ city: z.string(), days: z.number().default(1) }),
    run({ city, days }) {
      calls.push([city, days]);
      return { weather: "sunny" };
    },
  });
  const responses = [
    call("weather", { city: "Vienna", days: 3 }),
    { expect: { tool_output_contains: "sunny" }, ...call("weather", { city: 5 }) },
    { expect: { tool_output_contains: "arguments.city: " }, ...message("It will be sunny.") },
  ];
  const agent = await started(context, { ...scripted(context, responses), tools: [weather] });
  assert.equal((await agent.run("weather?")).text, "It will be sunny.");
  assert.deepEqual(calls, [["Vienna", 3]]);
});

test("questions are answered", async (context) => {
  const options = [{ label: "Rust", description: "r" }, { label: "Go", description: "g" }];
  const question = { id: "lang", header: "Language", question: "Which?", options };
  const responses = [call("request_user_input", { questions: [question] }), message("Rust it is")];
  const asked: unknown[] = [];
  const settings = scripted(context, responses);
  const agent = await started(context, {
    ...settings,
    async ask(params) {
      asked.push(params.questions[0]?.question);
      return { lang: "Rust" };
    },
  });
  const collaborationMode = { mode: "plan" as const, settings: { model: settings.model } };
  assert.equal((await agent.run("go", { collaborationMode })).text, "Rust it is");
  assert.deepEqual(asked, ["Which?"]);
});

const Plan = z.object({
  title: z.string(),
  kind: z.enum(["short", "long"]),
  steps: z.array(z.object({ name: z.string(), minutes: z.number().nullable() })),
});

test("an answer has the wanted shape", async (context) => {
  const plan = { title: "T", kind: "short", steps: [{ name: "a", minutes: null }] };
  const responses = [message(JSON.stringify(plan)), message('{"title":1}'), message("no JSON")];
  const agent = await started(context, scripted(context, responses));
  const thread = await agent.thread();
  const { output } = await thread.run("plan", { output: Plan });
  const title: string = output.title;
  assert.equal(title, "T");
  assert.deepEqual(output, plan);
  await assert.rejects(thread.run("plan", { output: Plan }), /InvalidOutput.*the answer\.title: /);
  await assert.rejects(thread.run("plan", { output: { type: "object" } }), (error) => {
    return error instanceof InvalidOutput && error.text === "no JSON";
  });
  await assert.rejects(thread.run("plan", { output: "text" as never }), TypeError);
});

test("an image is sent", async (context) => {
  const options = scripted(context, [message("Seen"), message("Seen")]);
  const agent = await started(context, options);
  const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const result = await agent.run([{ type: "text", text: "Look" }, image(Buffer.from(pixel, "base64"))]);
  writeFileSync(join(options.cwd, "a pixel.png"), Buffer.from(pixel, "base64"));
  const file = await agent.run([image("a pixel.png"), image(pathToFileURL(join(options.cwd, "a pixel.png")))]);
  assert.equal(file.text, "Seen");
  assert.deepEqual(image(new URL("https://a.example/b.png")), { type: "image", url: "https://a.example/b.png" });
  assert.throws(() => image(5 as never), /TypeError.*`source`/);
  for (const wrong of [5, null, [5], {}]) await assert.rejects(agent.run(wrong as never), /TypeError.*`message`/);
  const [first] = result.items;
  assert.ok(first?.type === "userMessage" && first.content.some((it) => it.type === "image"));
});

test("a turn that takes too long is interrupted", async (context) => {
  const agent = await started(context, scripted(context, [IDLE, message("Next")]));
  const thread = await agent.thread();
  const turn = await thread.turn("go");
  for await (const event of turn) if (isMessage(event)) break;
  await assert.rejects(turn.result({ timeout: 10 }), (error) => {
    return error instanceof TurnTimeout && error.message.includes("10 ms; the turn was interrupted");
  });
  assert.equal((await thread.run("again")).text, "Next");
});

test("a turn is interrupted and steered", async (context) => {
  const agent = await started(context, scripted(context, [IDLE]));
  const turn = await turnOf(agent);
  for await (const event of turn) {
    if (!isMessage(event)) continue;
    await turn.steer("also this");
    await turn.interrupt();
  }
  await assert.rejects(turn.result(), TurnInterrupted);
});

test("refusals and failures have kinds", async (context) => {
  const failing = { steps: [{ error: { status: 401, message: "no" } }] };
  const agent = await started(context, scripted(context, [failing]));
  await assert.rejects(agent.thread({ sandbox: "none" as never }), InvalidParams);
  await assert.rejects(agent.resume("01a00000-0000-7000-8000-000000000000"), (error) => {
    return error instanceof RequestError && error.method === "thread/resume" && error.code !== 0;
  });
  await assert.rejects(agent.run("go"), (error) => error instanceof TurnFailed && error.kind !== null);
});

test("an aborted signal interrupts a run, a result and an iteration", async (context) => {
  const agent = await started(context, scripted(context, [IDLE]));
  for (const way of ["run", "result", "iteration"]) {
    const thread = await agent.thread();
    const abort = new AbortController();
    const reason = new Error("enough");
    const { signal } = abort;
    if (way === "run") {
      const run = thread.run("go", { signal });
      setTimeout(() => abort.abort(reason), 300);
      await assert.rejects(run, (error) => error === reason);
    } else {
      const turn = await thread.turn("go", way === "iteration" ? { signal } : {});
      await assert.rejects(async () => {
        for await (const event of turn) {
          if (!isMessage(event)) continue;
          setTimeout(() => abort.abort(reason), 10);
          if (way === "result") await turn.result({ signal });
        }
      }, (error) => error === reason);
    }
    assert.equal((await thread.read()).turns[0]?.status, "interrupted");
  }
  const aborted = AbortSignal.abort(new Error("before"));
  await assert.rejects((await agent.thread()).run("go", { signal: aborted }), /before/);
});

test("the tour runs", async (context) => {
  const { env } = scripted(context, []);
  const tour = fileURLToPath(new URL("../examples/tour.js", import.meta.url));
  const options = { env: { ...env, AGENTD_PATH: process.env["AGENTD_PATH"] } };
  const { stdout } = await promisify(execFile)(process.execPath, [tour], options);
  assert.match(stdout, /files: \[ 'AGENTD_DEMO\.md' \]/);
  assert.match(stdout, /resumed: 1 turn/);
});

test("the program of the README runs", async (context) => {
  const { env, cwd } = scripted(context, []);
  const program = fileURLToPath(new URL("../examples/readme.js", import.meta.url));
  const options = { cwd, env: { ...env, AGENTD_PATH: process.env["AGENTD_PATH"] } };
  const { stdout } = await promisify(execFile)(process.execPath, [program], options);
  const wanted = readFileSync(join(process.env["SDK"] ?? fileURLToPath(new URL("../../", import.meta.url)), "../readme-output.txt"), "utf8");
  assert.match(stdout, outputPattern(wanted));
  assert.ok(existsSync(join(cwd, "AGENTD_DEMO.md")));
});

/** An ellipsis stands for any text in a line, and alone on its line for any number of lines. */
function outputPattern(wanted: string): RegExp {
  const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const lines = wanted.trimEnd().split("\n");
  return new RegExp(`^${lines.map((it) => (it === "…" ? "(?:.*\n)*" : `${escaped(it).replaceAll("…", ".*")}\n`)).join("")}$`);
}

test("a thread is compacted", async (context) => {
  const responses = [message("One"), message("What came before, in short."), message("Two")];
  const agent = await started(context, scripted(context, responses));
  const thread = await agent.thread();
  await thread.run("go");
  await thread.compact();
  assert.equal((await thread.run("more")).text, "Two");
  const turns = (await thread.read()).turns;
  assert.deepEqual(turns.map((it) => it.status), ["completed", "completed", "completed"]);
  assert.ok(turns[1]?.items.some((it) => it.type === "contextCompaction"));
});

test("two turns at once have an answer each", async (context) => {
  const agent = await started(context, scripted(context, [message("One"), message("Two")]));
  const thread = await agent.thread();
  const results = await Promise.all([thread.run("first"), thread.run("second")]);
  assert.deepEqual(results.map((it) => it.text), ["One", "Two"]);
});

test("configuration may be a table", async (context) => {
  const provider = { name: "Mine\u007f \u{1f600}", base_url: "http://127.0.0.1:1/v1", request_max_retries: 0, env_key: undefined };
  const options = scripted(context, []);
  const agent = await started(context, { ...options, config: { "model_providers.mine": provider, unset: undefined } });
  await agent.thread({ modelProvider: "mine" });
  const read = (await agent.request("config/read", {})) as unknown as { config: { model_providers: { mine: typeof provider } } };
  assert.equal(read.config.model_providers.mine.name, provider.name);
  for (const [value, expected] of [
    [{ c: [1, null] }, /config\["a\.b"\]\.c\[1\] is null, which TOML does not have/],
    ["\ud800", /half of a character/],
    [new Date(0), /is a Date/],
    [() => 1, /of the type function/],
  ] as const) {
    await assert.rejects(Agent.start({ ...options, config: { "a.b": value } }), (error) => error instanceof TypeError && expected.test(error.message));
  }
});

test("questions are left to the model without a callback", async (context) => {
  const options = [{ label: "Rust", description: "r" }, { label: "Go", description: "g" }];
  const question = { id: "lang", header: "Language", question: "Which?", options };
  const settings = scripted(context, [
    call("request_user_input", { questions: [question] }),
    { expect: { tool_output_contains: "decide yourself" }, ...message("As you like") },
  ]);
  const agent = await started(context, settings);
  const collaborationMode = { mode: "plan" as const, settings: { model: settings.model } };
  assert.equal((await agent.run("go", { collaborationMode })).text, "As you like");
});
