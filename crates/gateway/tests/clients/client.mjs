// The official JavaScript client against the gateway: one line per check, and a count at the end.
// Environment: GATEWAY_URL (without /v1), GATEWAY_ADMIN_TOKEN. Exits with 1 if a check fails.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import OpenAI, { toFile } from "openai";

const url = process.env.GATEWAY_URL;
const token = process.env.GATEWAY_ADMIN_TOKEN;
const weather = {
  name: "weather",
  description: "The weather in a city",
  parameters: { type: "object", properties: { city: { type: "string" } } },
};
const tool = { type: "function", function: weather };
const question = [{ role: "user", content: "hello there" }];

let [passed, failed] = [0, 0];
// Values that checks pass to later ones.
const made = {};

// Runs a function as a check. An exception is the reason of a failure.
async function check(group, name, run) {
  try {
    await run();
    passed += 1;
    console.log(`ok    ${group}: ${name}`);
  } catch (error) {
    failed += 1;
    const at = /client\.mjs:(\d+)/.exec(error.stack ?? "")?.[1];
    const reason = `${error.name}: ${error.message}`.split(/\s+/).join(" ").slice(0, 600);
    console.log(`FAIL  ${group}: ${name}: ${reason}${at ? ` (line ${at})` : ""}`);
  }
}

const equal = assert.deepEqual;

// Checks that `call` throws this error, and returns it.
async function refused(kind, code, param, call) {
  try {
    await call();
  } catch (error) {
    equal([error.constructor.name, error.code, error.param ?? null], [kind.name, code, param]);
    return error;
  }
  return assert.fail(`no ${kind.name} was thrown`);
}

async function all(pages) {
  const found = [];
  for await (const one of pages) found.push(one);
  return found;
}

const open = (options) => new OpenAI({ baseURL: `${url}/v1`, maxRetries: 0, ...options });

// A client that records its responses: status, headers, and the times of request and response.
function watched(maxRetries = 3) {
  const answers = [];
  const watching = async (...request) => {
    const sent = performance.now();
    const answer = await fetch(...request);
    answers.push({ status: answer.status, headers: answer.headers, sent, at: performance.now() });
    return answer;
  };
  const client = open({ apiKey: made.key, maxRetries, fetch: watching });
  return { client, answers, statuses: () => answers.map((answer) => answer.status) };
}

// Describes a response, the wait that it asks for, and the client's wait before it.
function describe({ status, headers, sent }, index, answers) {
  const waited = index ? ` after ${(sent - answers[index - 1].at).toFixed(1)} ms` : "";
  const wait = status === 429 ? ` asked to wait ${headers.get("retry-after-ms")} ms` : "";
  return `${status}${waited}${wait}`;
}

// The sum of a counter over all series with these labels.
async function metric(name, labels = {}) {
  const lines = (await (await fetch(`${url}/metrics`)).text()).split("\n");
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return lines
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .filter((line) => wanted.every((one) => line.includes(one)))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

const manifest = new URL("./node_modules/openai/package.json", import.meta.url);
const { version, engines } = JSON.parse(readFileSync(manifest, "utf8"));
console.log(`client openai ${version} on Node ${process.versions.node} (it asks for ${engines.node})`);
const { organization } = open({ adminAPIKey: token }).admin;

// Administration

await check("admin", "create a project", async () => {
  made.project = (await organization.projects.create({ name: "javascript" })).id;
});

await check("admin", "create a service account with a key", async () => {
  const accounts = organization.projects.serviceAccounts;
  const account = await accounts.create(made.project, { name: "tests" });
  [made.account, made.key] = [account.id, account.api_key.value];
});

if (failed) {
  console.log(`Without a key nothing can be asked.\n${passed} passed, ${failed} failed`);
  process.exit(1);
}
const client = open({ apiKey: made.key });

await check("admin", "retrieve, rename and list projects", async () => {
  const { projects } = organization;
  equal((await projects.update(made.project, { name: "client" })).name, "client");
  equal((await projects.retrieve(made.project)).name, "client");
  const other = (await projects.create({ name: "other" })).id;
  const listed = (await all(projects.list({ limit: 1 }))).map((project) => project.id);
  assert(listed.includes(made.project) && listed.includes(other), listed.join());
});

await check("admin", "API keys: create a second one, retrieve, list, revoke", async () => {
  const { serviceAccounts, apiKeys } = organization.projects;
  const project_id = made.project;
  const second = await serviceAccounts.apiKeys.create(made.account, { project_id, name: "second" });
  const shown = await apiKeys.retrieve(second.id, { project_id });
  assert(shown.redacted_value !== second.value);
  assert((await all(apiKeys.list(project_id))).some((key) => key.id === second.id));
  const user = open({ apiKey: second.value });
  await user.models.list();
  equal((await apiKeys.delete(second.id, { project_id })).deleted, true);
  await refused(OpenAI.AuthenticationError, "invalid_api_key", null, () => user.models.list());
});

await check("admin", "rate limits: list, update", async () => {
  const { rateLimits } = organization.projects;
  const listed = await all(rateLimits.listRateLimits(made.project));
  const big = listed.find((limit) => limit.id === "rl-big-2026-08-01");
  equal(big.max_requests_per_1_minute, 10_000);
  const to = { project_id: made.project, max_tokens_per_1_minute: 500_000 };
  equal((await rateLimits.updateRateLimit(big.id, to)).max_tokens_per_1_minute, 500_000);
  const more = { project_id: made.project, max_tokens_per_1_minute: 2_000_000 };
  const call = () => rateLimits.updateRateLimit(big.id, more);
  await refused(OpenAI.BadRequestError, "invalid_value", "max_tokens_per_1_minute", call);
});

await check("admin", "spend limits of organization and project: update, retrieve, delete", async () => {
  const scopes = [
    [organization.spendLimit, []],
    [organization.projects.spendLimit, [made.project]],
  ];
  for (const [scope, of] of scopes) {
    const limit = { currency: "USD", interval: "month", threshold_amount: 1000 };
    equal((await scope.update(...of, limit)).threshold_amount, 1000);
    equal((await scope.retrieve(...of)).enforcement.status, "inactive");
    equal((await scope.delete(...of)).deleted, true);
  }
});

await check("admin", "unsupported routes are a NotFoundError", async () => {
  await refused(OpenAI.NotFoundError, "unknown_url", null, () => organization.users.list());
});

// Models

await check("models", "list, with aliases and without models that were shut down", async () => {
  const names = (await all(client.models.list())).map((model) => model.id);
  for (const name of ["big", "big-2026-08-01", "embedding"]) assert(names.includes(name), name);
  assert(!names.includes("gone-2024-08-01"));
});

await check("models", "retrieve", async () => {
  const model = await client.models.retrieve("big");
  equal([model.id, model.object, model.alias_of], ["big", "model", "big-2026-08-01"]);
});

// Responses

await check("responses", "create", async () => {
  const response = await client.responses.create({ model: "big", input: "hello there" });
  equal([response.status, response.model], ["completed", "big-2026-08-01"]);
  assert(response.output_text.includes("hello there"), response.output_text);
  const { usage } = response;
  equal(usage.total_tokens, usage.input_tokens + usage.output_tokens);
  made.response = response.id;
});

await check("responses", "create, streamed", async () => {
  const stream = await client.responses.create({ model: "big", input: "hello there", stream: true });
  const events = await all(stream);
  equal([events[0].type, events.at(-1).type], ["response.created", "response.completed"]);
  const deltas = events.filter((event) => event.type === "response.output_text.delta");
  const text = deltas.map((event) => event.delta).join("");
  equal(text, events.at(-1).response.output[0].content[0].text);
});

await check("responses", "the client's own accumulation of a stream", async () => {
  const stream = client.responses.stream({ model: "big", input: "hello there" });
  const response = await stream.finalResponse();
  assert(response.output_text.includes("hello there"), response.output_text);
});

await check("responses", "a tool that must be called", async () => {
  const response = await client.responses.create({
    model: "big",
    input: "the weather?",
    tools: [{ type: "function", strict: false, ...weather }],
    tool_choice: "required",
    parallel_tool_calls: false,
  });
  equal(response.output.map((item) => [item.type, item.name]), [["function_call", "weather"]]);
  equal(response.parallel_tool_calls, false);
});

await check("responses", "a conversation by previous_response_id", async () => {
  const previous_response_id = made.response;
  const response = await client.responses.create({ model: "big", input: "x", previous_response_id });
  equal(response.previous_response_id, made.response);
});

await check("responses", "retrieve", async () => {
  const response = await client.responses.retrieve(made.response);
  equal([response.id, response.status], [made.response, "completed"]);
});

await check("responses", "cancel one in the background", async () => {
  const response = await client.responses.create({ model: "big", input: "x", background: true });
  equal(response.status, "queued");
  equal((await client.responses.cancel(response.id)).status, "cancelled");
});

await check("responses", "compact", async () => {
  const input = [{ role: "user", content: "hello" }, { role: "assistant", content: "hi" }];
  const compacted = await client.responses.compact({ model: "big", input });
  equal([compacted.object, compacted.output.at(-1).type], ["response.compaction", "compaction"]);
});

await check("responses", "count the tokens of an input", async () => {
  const counted = await client.responses.inputTokens.count({ model: "big", input: "hello there" });
  assert(counted.input_tokens > 0);
});

await check("responses", "delete", async () => {
  await client.responses.delete(made.response);
  const call = () => client.responses.retrieve(made.response);
  await refused(OpenAI.NotFoundError, "not_found", null, call);
});

// Chat completions

const chat = (more) => client.chat.completions.create({ model: "big", messages: question, ...more });

await check("chat completions", "create", async () => {
  const completion = await chat();
  const [choice] = completion.choices;
  equal([completion.object, choice.finish_reason], ["chat.completion", "stop"]);
  assert(choice.message.content.includes("hello there"), choice.message.content);
  const { usage } = completion;
  equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
});

await check("chat completions", "streamed without usage", async () => {
  const chunks = await all(await chat({ stream: true }));
  assert(chunks.every((chunk) => chunk.choices.length > 0 && !chunk.usage));
  equal(chunks.at(-1).choices[0].finish_reason, "stop");
});

await check("chat completions", "streamed with include_usage", async () => {
  const chunks = await all(await chat({ stream: true, stream_options: { include_usage: true } }));
  equal(chunks.at(-1).choices, []);
  assert(chunks.at(-1).usage.total_tokens > 0);
  assert(chunks.slice(0, -1).every((chunk) => chunk.usage === null));
});

await check("chat completions", "the client's own accumulation of a stream", async () => {
  const stream = client.chat.completions.stream({ model: "big", messages: question });
  assert((await stream.finalContent()).includes("hello there"));
});

await check("chat completions", "a stream that is left early", async () => {
  const stream = await chat({ stream: true });
  for await (const _ of stream) break;
  assert(stream.controller.signal.aborted);
});

await check("chat completions", "tool_choice required, named, none; parallel_tool_calls", async () => {
  const named = { type: "function", function: { name: "weather" } };
  for (const [tool_choice, expected] of [["required", ["weather"]], [named, ["weather"]], ["none", []]]) {
    const completion = await chat({ tools: [tool], tool_choice, parallel_tool_calls: false });
    const calls = completion.choices[0].message.tool_calls ?? [];
    equal(calls.map((call) => call.function.name), expected);
  }
});

await check("chat completions", "the client's own loop of tool calls", async () => {
  let runs = 0;
  const run = () => {
    runs += 1;
    return "sunny";
  };
  const tools = [{ type: "function", function: { ...weather, function: run, parse: JSON.parse } }];
  const named = { type: "function", function: { name: "weather" } };
  const runner = client.chat.completions.runTools({ model: "big", messages: question, tools, tool_choice: named });
  // A tool that is required by name runs once, and ends the loop.
  await runner.done();
  equal(runs, 1);
});

// Embeddings, moderations

await check("embeddings", "create, a text and a list", async () => {
  const one = await client.embeddings.create({ model: "embedding", input: "hello" });
  const input = ["hello", "there"];
  const two = await client.embeddings.create({ model: "embedding", input, dimensions: 64 });
  equal([one.data.length, two.data.length, two.data[1].embedding.length], [1, 2, 64]);
});

await check("moderations", "create, with a model and with the default", async () => {
  const model = "moderation-2026-08-01";
  equal((await client.moderations.create({ model, input: "hello" })).results[0].flagged, false);
  equal((await client.moderations.create({ input: ["hello", "there"] })).results.length, 2);
});

// Images, audio

const model = "image-2026-08-01";

await check("images", "generate", async () => {
  const answer = await client.images.generate({ model, prompt: "a house", n: 2, background: "transparent" });
  equal(answer.data.map((image) => typeof image.b64_json), ["string", "string"]);
});

await check("images", "generate, streamed", async () => {
  const asked = { model, prompt: "a house", stream: true, partial_images: 1 };
  const events = await all(await client.images.generate(asked));
  const kinds = ["image_generation.partial_image", "image_generation.completed"];
  equal(events.map((event) => event.type), kinds);
});

await check("images", "edit", async () => {
  const image = await toFile(Buffer.from("not inspected"), "house.png", { type: "image/png" });
  const answer = await client.images.edit({ model, image, prompt: "with a garden" });
  assert(answer.data[0].b64_json);
});

await check("images", "a transparent JPEG is a BadRequestError", async () => {
  const asked = { model, prompt: "x", background: "transparent", output_format: "jpeg" };
  const call = () => client.images.generate(asked);
  await refused(OpenAI.BadRequestError, "invalid_value", "background", call);
});

await check("audio", "speech", async () => {
  const asked = { model: "speech-2026-08-01", voice: "alloy", input: "hello", response_format: "wav" };
  made.sound = Buffer.from(await (await client.audio.speech.create(asked)).arrayBuffer());
  equal(made.sound.subarray(0, 4).toString(), "RIFF");
});

const hear = async (more) => {
  const file = await toFile(made.sound, "hello.wav");
  return client.audio.transcriptions.create({ model: "transcription-2026-08-01", file, ...more });
};

await check("audio", "transcription, as JSON, text and verbose JSON", async () => {
  assert((await hear()).text);
  assert(await hear({ response_format: "text" }));
  assert((await hear({ response_format: "verbose_json" })).segments.length);
});

await check("audio", "transcription, streamed", async () => {
  equal((await all(await hear({ stream: true }))).at(-1).type, "transcript.text.done");
});

// Files, vector stores

const upload = async (name, text, purpose = "user_data") =>
  client.files.create({ file: await toFile(Buffer.from(text), name), purpose });

await check("files", "upload, retrieve, list, content, delete", async () => {
  const file = await upload("notes.txt", "some notes");
  equal([file.filename, file.bytes, file.purpose], ["notes.txt", 10, "user_data"]);
  equal((await client.files.retrieve(file.id)).id, file.id);
  assert((await all(client.files.list())).some((one) => one.id === file.id));
  equal(await (await client.files.content(file.id)).text(), "some notes");
  equal((await client.files.delete(file.id)).deleted, true);
  await refused(OpenAI.NotFoundError, "not_found", null, () => client.files.retrieve(file.id));
});

await check("files", "list over several pages", async () => {
  made.files = [];
  for (let n = 0; n < 5; n += 1) made.files.push((await upload(`${n}.txt`, "page")).id);
  const listed = (await all(client.files.list({ limit: 2 }))).map((file) => file.id);
  assert(made.files.every((id) => listed.includes(id)), listed.join());
});

await check("vector stores", "create, retrieve, update, list", async () => {
  made.store = (await client.vectorStores.create({ name: "notes" })).id;
  equal((await client.vectorStores.retrieve(made.store)).name, "notes");
  equal((await client.vectorStores.update(made.store, { name: "papers" })).name, "papers");
  assert((await all(client.vectorStores.list())).some((store) => store.id === made.store));
});

await check("vector stores", "files: add and poll, retrieve, list, remove", async () => {
  const { files } = client.vectorStores;
  const [file_id] = made.files;
  const of = { vector_store_id: made.store };
  equal((await files.createAndPoll(made.store, { file_id })).status, "completed");
  equal((await files.retrieve(file_id, of)).id, file_id);
  equal((await all(files.list(made.store))).map((file) => file.id), [file_id]);
  equal((await files.delete(file_id, of)).deleted, true);
});

await check("vector stores", "file batches: add and poll, retrieve, list files, upload", async () => {
  const { fileBatches } = client.vectorStores;
  const of = { vector_store_id: made.store };
  const batch = await fileBatches.createAndPoll(made.store, { file_ids: made.files.slice(0, 3) });
  equal([batch.status, batch.file_counts.completed], ["completed", 3]);
  equal((await fileBatches.retrieve(batch.id, of)).id, batch.id);
  equal((await all(fileBatches.listFiles(batch.id, of))).length, 3);
  const files = [await toFile(Buffer.from("a"), "a.txt"), await toFile(Buffer.from("b"), "b.txt")];
  equal((await fileBatches.uploadAndPoll(made.store, { files })).file_counts.completed, 2);
});

await check("vector stores", "delete", async () => {
  equal((await client.vectorStores.delete(made.store)).deleted, true);
  const call = () => client.vectorStores.retrieve(made.store);
  await refused(OpenAI.NotFoundError, "not_found", null, call);
});

// Batches

const batchOf = async (count) => {
  const body = { model: "big", messages: question };
  const line = (_, n) =>
    JSON.stringify({ custom_id: `line-${n}`, method: "POST", url: "/v1/chat/completions", body });
  const file = await upload("batch.jsonl", Array.from({ length: count }, line).join("\n"), "batch");
  const asked = { endpoint: "/v1/chat/completions", completion_window: "24h" };
  return client.batches.create({ ...asked, input_file_id: file.id });
};

// Returns the batch when it has ended.
async function ended(batch) {
  const deadline = performance.now() + 60_000;
  let now = batch;
  while (!["completed", "failed", "expired", "cancelled"].includes(now.status)) {
    assert(performance.now() < deadline, `the batch is still ${now.status}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
    now = await client.batches.retrieve(batch.id);
  }
  return now;
}

await check("batches", "create, wait until completed, read the output file", async () => {
  const batch = await ended(await batchOf(20));
  const counts = batch.request_counts;
  equal([batch.status, counts.completed, counts.failed], ["completed", 20, 0]);
  const text = await (await client.files.content(batch.output_file_id)).text();
  const lines = text.trim().split("\n").map((line) => JSON.parse(line));
  equal(new Set(lines.map((line) => line.custom_id)).size, 20);
  assert(lines.every((line) => line.response.status_code === 200));
  made.batch = batch.id;
});

await check("batches", "cancel", async () => {
  const batch = await batchOf(2000);
  const { status } = await client.batches.cancel(batch.id);
  assert(["cancelling", "cancelled"].includes(status), status);
  equal((await ended(batch)).status, "cancelled");
});

await check("batches", "list, and retrieve an unknown batch", async () => {
  assert((await all(client.batches.list({ limit: 1 }))).some((batch) => batch.id === made.batch));
  const call = () => client.batches.retrieve("batch_unknown");
  await refused(OpenAI.NotFoundError, "not_found", null, call);
});

// Headers, errors

await check("headers", "withResponse shows the limits", async () => {
  const { data, response, request_id } = await chat().withResponse();
  const header = (name) => response.headers.get(`x-ratelimit-${name}`);
  equal(header("limit-requests"), "10000");
  equal(header("limit-tokens"), "1000000");
  equal(header("limit-project-tokens"), "500000");
  assert(Number(header("remaining-requests")) < 10_000);
  assert(header("reset-requests").endsWith("s"));
  assert(request_id && response.headers.get("openai-processing-ms"));
  equal(data._request_id, request_id);
});

await check("headers", "asResponse shows the deprecation and shutdown headers", async () => {
  const asked = { model: "leaving-2025-08-01", input: "x" };
  const { headers } = await client.responses.create(asked).asResponse();
  equal(headers.get("sunset"), "Thu, 01 Jan 2099 00:00:00 GMT");
  assert(headers.get("deprecation").startsWith("@"));
});

await check("headers", "organization and project of the client", async () => {
  const of = (more) => open({ apiKey: made.key, ...more }).models.list();
  await of({ organization: "org-default", project: made.project });
  const kind = OpenAI.AuthenticationError;
  await refused(kind, "mismatched_organization", null, () => of({ organization: "org-other" }));
  await refused(kind, "mismatched_project", null, () => of({ project: "proj_other" }));
});

await check("errors", "AuthenticationError", async () => {
  const call = () => open({ apiKey: "sk-wrong" }).models.list();
  const error = await refused(OpenAI.AuthenticationError, "invalid_api_key", null, call);
  assert(error.status === 401 && error.requestID);
});

await check("errors", "NotFoundError: unknown model, and one that was shut down", async () => {
  const ask = (model) => () => client.responses.create({ model, input: "x" });
  await refused(OpenAI.NotFoundError, "model_not_found", null, ask("no-such-model"));
  const gone = await refused(OpenAI.NotFoundError, "model_not_found", null, ask("gone-2024-08-01"));
  assert(gone.message.includes("2026-01-01") && gone.message.includes("big-2026-08-01"));
});

await check("errors", "NotFoundError: retired interfaces", async () => {
  const call = () => client.get("/assistants");
  await refused(OpenAI.NotFoundError, "endpoint_retired", null, call);
});

await check("errors", "BadRequestError with code and param", async () => {
  const kind = OpenAI.BadRequestError;
  await refused(kind, "invalid_value", "max_tokens", () => chat({ max_tokens: -1 }));
  const call = () => client.responses.create({ input: "x" });
  await refused(kind, "missing_required_parameter", "model", call);
});

// Limits and retries

const rejected = () => metric("gateway_rejected_total");
const answered = (status) => metric("gateway_requests_total", { model: "slow-2026-08-01", status });

await check("retries", "RateLimitError when the request limit is reached", async () => {
  const ask = async () => {
    for (let n = 0; n < 200; n += 1) await client.responses.create({ model: "slow", input: "x" });
  };
  const error = await refused(OpenAI.RateLimitError, "rate_limit_exceeded", null, ask);
  equal([error.type, error.status], ["requests", 429]);
  assert(error.message.includes("on requests per min (RPM): Limit 30"), error.message);
  const promised = Number(error.headers.get("retry-after-ms"));
  assert(promised > 0 && promised <= 2000, `${promised}`);
  equal(error.headers.get("x-ratelimit-remaining-requests"), "0");
});

await check("retries", "the client waits for Retry-After, retries once and is served", async () => {
  const counts = async () => [await rejected(), await answered(429), await answered(200)];
  const before = await counts();
  const { client, answers, statuses } = watched();
  await client.responses.create({ model: "slow", input: "x" });
  equal(statuses(), [429, 200]);
  const promised = Number(answers[0].headers.get("retry-after-ms"));
  const waited = answers[1].sent - answers[0].at;
  assert(promised - 10 <= waited && waited < promised + 1000, `promised ${promised} ms, waited ${waited} ms`);
  equal((await counts()).map((count, index) => count - before[index]), [1, 1, 1]);
});

await check("retries", "several concurrent clients wait for Retry-After and are all served", async () => {
  const before = [await rejected(), await answered(200)];
  const clients = Array.from({ length: 4 }, () => watched(6));
  const ask = ({ client }) => client.chat.completions.create({ model: "slow", messages: question });
  await Promise.all(clients.map(ask));
  const asked = clients.map((one) => one.statuses().join());
  // Not always with one retry each: a later refusal also counts, and delays waiting clients.
  const waits = clients.map(({ answers }) => answers.map(describe).join());
  assert(asked.every((one) => /^(429,)*200$/.test(one)), waits.join(" | "));
  const refusals = clients.flatMap((one) => one.statuses()).filter((one) => one === 429).length;
  assert(refusals >= 3, asked.join(" | "));
  equal([(await rejected()) - before[0], (await answered(200)) - before[1]], [refusals, 4]);
});

await check("retries", "a request above the whole limit is not retried", async () => {
  const { client, statuses } = watched();
  const call = () => client.responses.create({ model: "big", input: "x", max_output_tokens: 900_000 });
  const error = await refused(OpenAI.RateLimitError, "rate_limit_exceeded", null, call);
  assert(error.message.includes("Request too large"), error.message);
  equal([error.type, error.headers.get("x-should-retry")], ["tokens", "false"]);
  equal([error.headers.get("retry-after"), statuses()], [null, [429]]);
});

await check("retries", "a request beyond the spend limit is not retried", async () => {
  const { spendLimit } = organization.projects;
  await spendLimit.update(made.project, { currency: "USD", interval: "month", threshold_amount: 1 });
  const { client, statuses } = watched();
  const call = () => client.responses.create({ model: "big", input: "x", max_output_tokens: 100_000 });
  const error = await refused(OpenAI.RateLimitError, "project_spend_limit_exceeded", null, call);
  equal([error.type, error.headers.get("x-should-retry")], ["insufficient_quota", "false"]);
  equal([error.headers.get("retry-after"), statuses()], [null, [429]]);
  await spendLimit.delete(made.project);
});

// Usage: last, when there are requests to count.

await check("usage", "completions by project, costs in dollars", async () => {
  const start_time = Math.floor(Date.now() / 1000) - 3600;
  const deadline = performance.now() + 10_000;
  for (;;) {
    const page = await organization.usage.completions({ start_time, group_by: ["project_id"] });
    const results = page.data.flatMap((bucket) => bucket.results);
    const mine = results.find((result) => result.project_id === made.project);
    if (mine?.num_model_requests >= 20 && mine.input_tokens > 0) break;
    // Rows are written in the background.
    assert(performance.now() < deadline, JSON.stringify(results));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const costs = await organization.usage.costs({ start_time });
  const amounts = costs.data.flatMap((bucket) => bucket.results).map((result) => result.amount);
  assert(amounts.reduce((sum, amount) => sum + amount.value, 0) > 0, JSON.stringify(amounts));
});

await check("admin", "archiving the project revokes its keys", async () => {
  equal((await organization.projects.archive(made.project)).status, "archived");
  await refused(OpenAI.AuthenticationError, "invalid_api_key", null, () => client.models.list());
});

console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
