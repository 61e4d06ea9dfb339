/** Sessions are recorded without secrets, and replayed without a server, up to the first message that differs. */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { Agent, type AgentOptions, ReplayMismatch, tool } from "@agentd-embed/sdk";

import { answers, calls, expecting, fails, says, scripted as scriptedModel } from "@agentd-embed/sdk/testing";
import { z } from "zod";

import { TOKEN, call, listen, message, proxy, scripted, started } from "./servers.js";

const within = { timeout: 60_000 };
const weather = tool({ name: "weather", description: "The weather.", parameters: { type: "object" }, run: () => "sunny" });
const LONG = Array.from({ length: 60 }, (_, at) => `word ${at} `).join("");

async function session(options: AgentOptions, text = "weather?"): Promise<string[]> {
  await using agent = await Agent.start(options);
  const thread = await agent.thread({ config: { "shell_environment_policy.set": { A: "b" } } });
  return [(await thread.run(text)).text, (await thread.run("more")).text];
}

test("a session is recorded and replayed", within, async (context) => {
  const options = scripted(context, [call("weather", {}), message("It will be sunny."), message("Again")]);
  const record = join(options.folder, "session.jsonl");
  const env = { ...options.env, MY_API_KEY: "not-for-files-12345" };
  const more = { offline: true, model: options.model, cwd: options.cwd, tools: [weather], clientName: "not-for-files-12345" };
  const answers = await session({ ...more, env, record });
  assert.deepEqual(answers, ["It will be sunny.", "Again"]);
  const text = readFileSync(record, "utf8");
  assert.ok(text.includes('"sent"') && text.includes('"received"') && !text.includes("not-for-files"), text.slice(0, 500));
  const replay = { ...more, env, replay: record, program: "/nowhere" };
  assert.deepEqual(await session(replay), answers);
  await assert.rejects(session(replay, "wether?"), (error) => {
    assert.ok(error instanceof ReplayMismatch, String(error));
    assert.match(error.message, /session\.jsonl:\d+: .*"weather\?".* was sent then, and .*"wether\?".* now/);
    assert.match(JSON.stringify([error.expected, error.actual]), /weather\?.*wether\?/);
    return true;
  });
  const other = tool({ name: "weather", description: "The weather.", parameters: { type: "object" }, run: () => "rainy" });
  await assert.rejects(session({ ...replay, tools: [other] }), /the replay differs at .*sunny.*rainy/);
  await using longer = await Agent.start(replay);
  await assert.rejects(longer.request("thread/list"), ReplayMismatch);
});

test("a recording has the losses of a connection", within, async (context) => {
  const home = scripted(context, [message(LONG, { chunk_chars: 8, chunk_delay_ms: 5 })]);
  const token = join(home.folder, "token");
  writeFileSync(token, TOKEN, { mode: 0o600 });
  const path = `${home.folder}/s.sock`;
  await listen(context, home, ["--listen", `unix://${path}`]);
  const gate = await proxy(context, path);
  const record = join(home.folder, "session.jsonl");
  const follow = async (options: AgentOptions) => {
    const agent = await started(context, { ...options, offline: true, model: home.model, token: TOKEN });
    const turn = await (await agent.thread({ cwd: home.cwd })).turn("go");
    let text = "";
    for await (const part of turn.text()) {
      if (text.length < 100 && text.length + part.length >= 100) gate.cut();
      text += part;
    }
    return text;
  };
  assert.equal(await follow({ address: gate.address, record }), LONG);
  const recording = readFileSync(record, "utf8");
  assert.ok(recording.includes('{"connection":1}') && !recording.includes(TOKEN));
  assert.equal(await follow({ replay: record }), LONG);
});

test("what is no recording is named", within, async (context) => {
  const { folder } = scripted(context, []);
  const replay = join(folder, "other.jsonl");
  writeFileSync(replay, '{"recording":1}\nnothing\n');
  await assert.rejects(Agent.start({ replay }), /TypeError: .*other\.jsonl:2: this is no entry of a recording/);
  await assert.rejects(Agent.start({ replay, record: replay }), /TypeError: `record` and `replay` exclude each other/);
});

test("a model of a test calls tools and answers schemas", within, async (context) => {
  const Forecast = z.object({ days: z.number(), unit: z.string().default("days") });
  const { folder, env, cwd } = scripted(context, []);
  const forecast = expecting(answers({ days: 3, unit: null }), { tool_output_contains: "sunny" });
  const model = await scriptedModel(folder, calls("weather"), forecast, fails(400, "no more"), says("Never"));
  const agent = await started(context, { ...model, env, cwd, tools: [weather] });
  const thread = await agent.thread();
  assert.deepEqual((await thread.run("weather?", { output: Forecast })).output, { days: 3, unit: "days" });
  await assert.rejects(thread.run("more"), /TurnFailed.*no more/);
  await assert.rejects(answers({ days: "three" }, Forecast), /`value`\.days: /);
  await assert.rejects(scriptedModel(folder, {} as never), /TypeError: `responses\[0\]` is no response/);
});
