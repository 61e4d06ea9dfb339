// The stream parser of the official JavaScript client: one line per check, and a count at the end.
// Environment: CASES, a JSON file with a list of `{group, name, base_url, cache_key, helper, expected}`. Exits
// with 1 if a check fails.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import OpenAI, { APIError } from "openai";

let [passed, failed] = [0, 0];

const phases = ["commentary", "final_answer"];
const texts = (parts) => (parts ?? []).map((part) => part.text ?? part.refusal);

// An item as `crates/model/examples/read_stream.rs` describes it.
function described(item) {
  const { type, call_id, name } = item;
  switch (type) {
    case "message": {
      const phase = phases.includes(item.phase) ? item.phase : null;
      return { type, text: texts(item.content).join(""), phase };
    }
    case "reasoning":
      return { type, summary: texts(item.summary), content: texts(item.content) };
    case "function_call":
      return { type, call_id, name, arguments: item.arguments };
    case "custom_tool_call":
      return { type, call_id, name, input: item.input };
    case "tool_search_call":
      return { type, call_id, arguments: item.arguments };
    case "web_search_call":
      return { type, action: item.action ?? null, failed: item.status === "failed" };
    case "image_generation_call": {
      const [status, revised_prompt] = [item.status ?? null, item.revised_prompt ?? null];
      return { type, status, result: item.result ?? "", revised_prompt };
    }
    default:
      return { type, call_id: call_id ?? null };
  }
}

function counted(usage) {
  return {
    input: usage?.input_tokens ?? 0,
    cached: usage?.input_tokens_details?.cached_tokens ?? 0,
    output: usage?.output_tokens ?? 0,
    reasoning: usage?.output_tokens_details?.reasoning_tokens ?? 0,
    total: usage?.total_tokens ?? (usage ? usage.input_tokens + usage.output_tokens : 0),
  };
}

const deltas = {
  "response.output_text.delta": () => "text",
  "response.reasoning_summary_text.delta": (event) => `summary ${event.summary_index ?? 0}`,
  "response.reasoning_text.delta": (event) => `reasoning ${event.content_index ?? 0}`,
  "response.function_call_arguments.delta": () => "arguments",
  "response.custom_tool_call_input.delta": () => "input",
};
const ends = ["response.completed", "response.failed", "response.incomplete"];

// Reads up to the end of the response, as a program that uses the client does.
async function read(events) {
  const result = { items: [], texts: {}, usage: counted(null), end: { completed: false } };
  try {
    for await (const event of events) {
      if (event.type in deltas) {
        const key = `${event.output_index ?? 0} ${deltas[event.type](event)}`;
        result.texts[key] = (result.texts[key] ?? "") + event.delta;
      } else if (event.type === "response.output_item.done") {
        result.items.push(described(event.item));
      } else if (ends.includes(event.type)) {
        result.usage = counted(event.response.usage);
        result.end.completed = event.type === "response.completed";
        result.end.message = event.response.error?.message;
        break;
      } else if (event.type === "error") {
        result.end.message = event.message;
        break;
      }
    }
  } catch (error) {
    if (error instanceof APIError && error.status) throw error;
    // It throws for `error` events, for a connection that breaks, and for an event that is not JSON.
    result.end.message = error instanceof APIError ? error.error?.message : undefined;
  }
  return result;
}

// The same body as ours, so that the server answers the same.
const request = ({ cache_key }) => ({
  model: "m",
  input: [],
  store: false,
  prompt_cache_key: cache_key,
});

async function ofParser(client, given) {
  return read(await client.responses.create({ ...request(given), stream: true }));
}

// The client's accumulated response: its items are those of the final response.
async function ofHelper(client, given) {
  const stream = client.responses.stream(request(given));
  const seen = [];
  const all = (async () => {
    for await (const event of stream) seen.push(event);
  })();
  const broke = await all.then(() => null, (error) => error);
  const result = await read(
    (async function* () {
      yield* seen;
      if (broke) throw broke;
    })(),
  );
  if (result.end.completed) {
    const final = await stream.finalResponse();
    result.items = final.output.map(described);
    result.usage = counted(final.usage);
    const messages = result.items.filter((item) => item.type === "message");
    assert.equal(final.output_text, messages.map((item) => item.text).join(""));
  }
  return result;
}

function compare(found, expected) {
  for (const part of ["items", "texts", "usage"]) {
    if (part in expected) assert.deepEqual(found[part], expected[part], part);
  }
  const [theirs, ours] = [found.end, expected.end];
  assert.equal(theirs.completed, ours.completed, "completed");
  assert.equal(theirs.status ?? null, ours.status ?? null, "status");
  const message = theirs.message ?? "";
  assert.ok((ours.message ?? "").includes(message), `${message} is not in ${ours.message}`);
}

async function check(given) {
  const client = new OpenAI({ baseURL: given.base_url, apiKey: "none", maxRetries: 0 });
  let found;
  try {
    found = await (given.helper ? ofHelper : ofParser)(client, given);
  } catch (error) {
    if (!(error instanceof APIError && error.status)) throw error;
    const end = { completed: false, status: error.status, message: error.error?.message };
    found = { items: [], texts: {}, usage: counted(null), end };
  }
  compare(found, given.expected);
}

const { version } = JSON.parse(
  readFileSync(new URL("node_modules/openai/package.json", import.meta.url)),
);
console.log(`client openai ${version} on Node.js ${process.versions.node}`);
for (const given of JSON.parse(readFileSync(process.env.CASES))) {
  const { group, name } = given;
  try {
    await check(given);
    passed += 1;
    console.log(`ok    ${group}: ${name}`);
  } catch (error) {
    failed += 1;
    const reason = `${error.name}: ${error.message}`.split(/\s+/).join(" ").slice(0, 900);
    console.log(`FAIL  ${group}: ${name}: ${reason}`);
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
