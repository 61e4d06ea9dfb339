// Frameworks that speak to the hosted API, unmodified, through the gateway to scripted models, and the inspector of MCP with
// the agent as its server: one line for each check, and a count at the end.
//
// Environment: AGENTD (the program). Ends with 1 when a check failed.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { tool as langchainTool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { APICallError, Output, embedMany, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { AGENTD } = process.env;
const PACKAGES = ["ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "@langchain/openai", "@modelcontextprotocol/inspector"];
const TOKEN = "admin-token-of-the-frameworks-0123456789";
const CALL = { steps: [{ function_call: { name: "weather", arguments: { city: "Vienna" } } }] };
const SCRIPTS = {
  // Each conversation of two requests: a call, and an answer that repeats its output.
  tools: { on_exhausted: "restart", responses: [CALL, { steps: [{ message: "It is {{last_tool_output}}." }] }] },
  json: { on_exhausted: "repeat_last", responses: [{ steps: [{ message: '{"city":"Vienna","days":3}' }] }] },
};
const FORECAST = z.object({ city: z.string(), days: z.number() });
const CITY = z.object({ city: z.string() });

let passed = 0;
let failed = 0;
const processes = [];

async function check(group, name, work) {
  try {
    await work();
    passed += 1;
    console.log(`ok    ${group}: ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${group}: ${name}: ${String(error).replace(/\s+/g, " ").slice(0, 600)}`);
  }
}

function versionOf(name) {
  return JSON.parse(readFileSync(path.join(import.meta.dirname, "node_modules", name, "package.json"), "utf8")).version;
}

/** Starts the program, and returns where it listens. */
async function started(folder, args) {
  const child = spawn(AGENTD, args, { cwd: folder, env: { ...process.env, HOME: folder }, stdio: ["ignore", "pipe", "inherit"] });
  processes.push(child);
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith("listening on ")) return line.split(" ")[2];
  }
  throw new Error(`agentd ${args.join(" ")} does not listen`);
}

/** A gateway in front of a model server for each script or, without any, of the offline model. */
async function gateway(folder, scripts) {
  mkdirSync(folder);
  writeFileSync(path.join(folder, "token"), TOKEN, { mode: 0o600 });
  const settings = ['listen = "127.0.0.1:0"', "[admin]", 'token_file = "token"'];
  for (const [name, script] of Object.entries(scripts)) {
    const file = path.join(folder, `${name}.json`);
    writeFileSync(file, JSON.stringify(script));
    const url = await started(folder, ["model-server", "--script", file]);
    settings.push(`[upstreams.${name}]`, `base_url = "${url}"`, `[models.${name}]`, `upstream = "${name}"`);
  }
  if (Object.keys(scripts).length === 0) settings.push("[models.text]", "[models.embedding]");
  writeFileSync(path.join(folder, "gateway.toml"), settings.join("\n"));
  const baseURL = `${await started(folder, ["gateway", "--config", path.join(folder, "gateway.toml")])}/v1`;
  const create = async (place) => {
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    return (await fetch(baseURL + place, { method: "POST", headers, body: '{"name": "frameworks"}' })).json();
  };
  const { id } = await create("/organization/projects");
  const account = await create(`/organization/projects/${id}/service_accounts`);
  return { baseURL, apiKey: account.api_key.value };
}

async function aiSdk(offline, scripted) {
  const [text, script] = [createOpenAI(offline), createOpenAI(scripted)];
  const wires = {
    chat: text.chat("text"),
    responses: text.responses("text"),
    "compatible chat": createOpenAICompatible({ name: "gateway", includeUsage: true, ...offline })("text"),
  };
  const weather = (extra) => tool({ description: "The weather in a city", inputSchema: CITY, ...extra });
  for (const [wire, model] of Object.entries(wires)) {
    await check("ai sdk", `${wire}: generateText, with usage`, async () => {
      const made = await generateText({ model, prompt: "Good morning", maxRetries: 0 });
      assert.match(made.text, /Good morning/);
      assert.ok(made.usage.totalTokens > 0);
    });
    await check("ai sdk", `${wire}: streamText, with usage`, async () => {
      const made = streamText({ model, prompt: "Good morning", maxRetries: 0 });
      let all = "";
      for await (const part of made.textStream) all += part;
      assert.match(all, /Good morning/);
      assert.ok((await made.usage).totalTokens > 0);
    });
    await check("ai sdk", `${wire}: a tool that must be called`, async () => {
      // The offline model calls it without its argument.
      const tools = { weather: tool({ description: "The weather", inputSchema: z.object({}) }) };
      const made = await generateText({ model, prompt: "How is it?", tools, toolChoice: "required", maxRetries: 0 });
      assert.deepEqual(made.toolCalls.map((it) => it.toolName), ["weather"]);
    });
  }
  await check("ai sdk", "responses: a tool, and its result", async () => {
    const tools = { weather: weather({ execute: ({ city }) => `sunny in ${city}` }) };
    const stopWhen = stepCountIs(3);
    const made = await generateText({ model: script.responses("tools"), prompt: "How is it?", tools, stopWhen, maxRetries: 0 });
    assert.equal(made.text, "It is sunny in Vienna.");
  });
  await check("ai sdk", "responses: structured output", async () => {
    const output = Output.object({ schema: FORECAST });
    const made = await generateText({ model: script.responses("json"), prompt: "How is it?", output, maxRetries: 0 });
    assert.deepEqual(made.output, { city: "Vienna", days: 3 });
  });
  await check("ai sdk", "embedMany", async () => {
    const model = text.embedding("embedding");
    const made = await embedMany({ model, values: ["a", "b"], providerOptions: { openai: { dimensions: 8 } } });
    assert.deepEqual(made.embeddings.map((it) => it.length), [8, 8]);
  });
  await check("ai sdk", "an unknown model is an APICallError", async () => {
    const asked = generateText({ model: text.responses("nothing"), prompt: "x", maxRetries: 0 });
    await assert.rejects(asked, (error) => APICallError.isInstance(error) && error.statusCode === 404);
  });
}

async function langchain(offline, scripted) {
  const model = (name, useResponsesApi) => {
    const { apiKey, baseURL } = name in SCRIPTS ? scripted : offline;
    return new ChatOpenAI({ model: name, apiKey, configuration: { baseURL }, useResponsesApi, maxRetries: 0 });
  };
  for (const wire of ["chat", "responses"]) {
    const isResponses = wire === "responses";
    await check("langchain.js", `${wire}: invoke, with usage`, async () => {
      const answer = await model("text", isResponses).invoke("Good morning");
      assert.match(answer.text, /Good morning/);
      assert.ok(answer.usage_metadata.total_tokens > 0);
    });
    await check("langchain.js", `${wire}: stream`, async () => {
      let all = "";
      for await (const part of await model("text", isResponses).stream("Good morning")) all += part.text;
      assert.match(all, /Good morning/);
    });
  }
  await check("langchain.js", "responses: a tool call", async () => {
    const weather = langchainTool(({ city }) => `sunny in ${city}`, { name: "weather", description: "x", schema: CITY });
    const bound = model("tools", true).bindTools([weather]);
    const asked = await bound.invoke("How is it?");
    assert.deepEqual(asked.tool_calls.map((it) => it.args), [{ city: "Vienna" }]);
    const result = await weather.invoke(asked.tool_calls[0]);
    assert.equal((await bound.invoke(["How is it?", asked, result])).text, "It is sunny in Vienna.");
  });
  await check("langchain.js", "responses: structured output", async () => {
    const made = await model("json", true).withStructuredOutput(FORECAST, { method: "jsonSchema" }).invoke("How is it?");
    assert.deepEqual(made, { city: "Vienna", days: 3 });
  });
  await check("langchain.js", "embeddings", async () => {
    const { apiKey, baseURL } = offline;
    const made = new OpenAIEmbeddings({ model: "embedding", dimensions: 8, apiKey, configuration: { baseURL } });
    assert.deepEqual((await made.embedDocuments(["a", "b"])).map((it) => it.length), [8, 8]);
  });
}

async function inspector(folder) {
  mkdirSync(folder);
  const env = { ...process.env, HOME: folder, AGENT_HOME: path.join(folder, "home") };
  mkdirSync(env.AGENT_HOME);
  writeFileSync(path.join(env.AGENT_HOME, "config.toml"), 'model = "echo"\nmodel_provider = "offline"\n');
  const program = path.join(import.meta.dirname, "node_modules/@modelcontextprotocol/inspector/cli/build/cli.js");
  const asked = async (...args) => {
    const variables = ["PATH", "HOME", "AGENT_HOME"].flatMap((name) => ["-e", `${name}=${env[name]}`]);
    const command = [program, "--cli", ...variables, AGENTD, "mcp-server", ...args];
    const { stdout } = await promisify(execFile)(process.execPath, command, { env, cwd: folder, timeout: 60_000 });
    return JSON.parse(stdout);
  };
  let tools = [];
  await check("mcp inspector", "tools/list", async () => {
    ({ tools } = await asked("--method", "tools/list"));
    assert.ok(tools.length > 0 && tools.every((it) => it.inputSchema.type === "object"));
  });
  await check("mcp inspector", "tools/call: a turn of the agent", async () => {
    const [name] = tools.map((it) => it.name).filter((it) => !it.endsWith("-reply"));
    const made = await asked("--method", "tools/call", "--tool-name", name, "--tool-arg", "prompt=Good morning");
    assert.match(JSON.stringify(made), /Good morning/);
  });
}

const folder = mkdtempSync(path.join(tmpdir(), "frameworks-"));
try {
  const [offline, scripted] = [await gateway(path.join(folder, "offline"), {}), await gateway(path.join(folder, "scripted"), SCRIPTS)];
  console.log(`client ${PACKAGES.map((name) => `${name} ${versionOf(name)}`).join(", ")} on Node ${process.versions.node}`);
  await aiSdk(offline, scripted);
  await langchain(offline, scripted);
  await inspector(path.join(folder, "inspector"));
} finally {
  for (const child of processes) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
