/** Schemas of answers: strict where their meaning allows it, in their order, with defaults filled in. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { z } from "zod";

import { message, scripted, started } from "./servers.js";

const Step = z.object({ name: z.string(), minutes: z.number().optional() });
const Plan = z.object({
  zeal: z.enum(["low", "high"]).default("low"),
  title: z.string().describe("A title."),
  steps: z.array(Step),
  note: z.string().nullable(),
  amount: z.union([z.object({ kind: z.literal("money"), sum: z.number().default(5) }), z.number()]).optional(),
});

test("a schema is strict, in its order, and null is the default", async (context) => {
  const answer = { zeal: null, title: "T", steps: [{ name: "a", minutes: null }, { name: "b", minutes: 3 }], note: null, amount: { kind: "money", sum: null } };
  const names = ["zeal", "title", "steps", "note", "amount"];
  const expect = {
    equals: {
      "/text/format/strict": true,
      "/text/format/schema/required": names,
      "/text/format/schema/additionalProperties": false,
      "/text/format/schema/properties/steps/items/required": ["name", "minutes"],
      "/text/format/schema/properties/zeal": { anyOf: [{ type: "string", enum: ["low", "high"] }, { type: "null" }] },
      "/text/format/schema/properties/title": { description: "A title.", type: "string" },
    },
  };
  const agent = await started(context, scripted(context, [{ expect, ...message(JSON.stringify(answer)) }]));
  const { output } = await agent.run("plan", { output: Plan });
  const zeal: "low" | "high" = output.zeal;
  assert.equal(zeal, "low");
  assert.deepEqual(output, {
    zeal: "low",
    title: "T",
    steps: [{ name: "a" }, { name: "b", minutes: 3 }],
    note: null,
    amount: { kind: "money", sum: 5 },
  });
});

test("a schema that would mean something else when strict is sent as it is", async (context) => {
  const Free = z.object({ counts: z.record(z.string(), z.number()), more: z.string().optional() });
  const Loose = z.looseObject({ a: z.string() });
  const Short = z.object({ a: z.string().min(2) });
  const answers = [{ counts: { a: 1 } }, { a: "x", b: 1 }, { a: "xy" }];
  const responses = answers.map((answer) => ({ expect: { equals: { "/text/format/strict": false } }, ...message(JSON.stringify(answer)) }));
  const agent = await started(context, scripted(context, responses));
  const thread = await agent.thread();
  for (const [at, output] of [Free, Loose, Short].entries()) {
    assert.deepEqual((await thread.run("go", { output })).output, answers[at]);
  }
});

test("a JSON Schema stays what it is, and its answer is not changed", async (context) => {
  const schema = { type: "object", properties: { b: { type: "string" }, a: { type: "null" } }, required: ["b"] };
  const expect = { equals: { "/text/format/schema": schema, "/text/format/strict": false } };
  const agent = await started(context, scripted(context, [{ expect, ...message('{"b":"x","a":null}') }]));
  assert.deepEqual((await agent.run("go", { output: schema })).output, { b: "x", a: null });
});

test("a recursive schema is strict, too", async (context) => {
  interface Tree {
    name: string;
    children: Tree[];
    label?: string | undefined;
  }
  const Tree: z.ZodType<Tree> = z.object({
    name: z.string(),
    get children() {
      return z.array(Tree);
    },
    label: z.string().optional(),
  });
  const answer = { name: "a", children: [{ name: "b", children: [], label: null }], label: null };
  const agent = await started(context, scripted(context, [message(JSON.stringify(answer))]));
  const { output } = await agent.run("go", { output: Tree });
  assert.deepEqual(output, { name: "a", children: [{ name: "b", children: [] }] });
});
