/** A tour of agentd with its offline model; build it with `npm run build && tsc --project tests`. */

import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Agent, type Approval, tool } from "@agentd-embed/sdk";

const ticket = tool({
  name: "ticket",
  description: "The text of a ticket.",
  parameters: { type: "object", properties: { number: { type: "integer" } }, required: ["number"] },
  run: ({ number }) => `Ticket ${number}: the demo shall have a file.`,
});

function approve(approval: Approval): boolean {
  console.log(`May it? ${approval.kind}: ${approval.command ?? approval.reason}`);
  return approval.kind === "fileChange";
}

const folder = await mkdtemp(join(tmpdir(), "tour-"));
try {
  await using agent = await Agent.start({ offline: true, cwd: folder, approve, tools: [ticket] });
  const thread = await agent.thread({ sandbox: "readOnly", approvalPolicy: "onRequest" });
  const turn = await thread.turn("Do what ticket 7 says");
  for await (const text of turn.text()) process.stdout.write(text);
  const result = await turn.result();
  console.log(`\n${result.turn.status}, ${result.items.length} items`);
  console.log("files:", await readdir(folder));
  const again = await agent.resume(thread.id);
  console.log("resumed:", (await again.read()).turns.length, "turn");
} finally {
  await rm(folder, { recursive: true });
}
