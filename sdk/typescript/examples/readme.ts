/** The agent changes a file in the current folder, and this program decides whether it may. */

import { Agent, type Approval } from "@agentd-embed/sdk";

function approve(approval: Approval): boolean {
  console.log(`\n[may it? ${approval.kind}: ${approval.command ?? approval.reason}]`);
  return approval.kind === "fileChange";
}

// Without `offline`, the model is that of the configuration.
await using agent = await Agent.start({ offline: true, approve });
const thread = await agent.thread({ sandbox: "readOnly", approvalPolicy: "onRequest" });
const turn = await thread.turn("Describe this project in a file");
for await (const text of turn.text({ commentary: true })) process.stdout.write(text);

const result = await turn.result();
console.log();
for (const item of result.items) {
  if (item.type === "fileChange") console.log("changed:", item.changes[0]?.path);
}
console.log(result.items.length, "items");
