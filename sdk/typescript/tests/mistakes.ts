/**
 * Mistakes that the compiler finds: it is part of the tests that each line below `@ts-expect-error` is refused, and that
 * the lines without it are not. Nothing here is run.
 */

import { Agent, type Result, type ThreadEvent, type Turn, image, tool } from "@agentd-embed/sdk";
import { Agent as BrowserAgent } from "@agentd-embed/sdk/browser";
import { z } from "zod";

const Plan = z.object({ title: z.string() });

export async function mistakes(agent: Agent, turn: Turn, event: ThreadEvent): Promise<void> {
  // @ts-expect-error 1: an option with a typing error
  await Agent.start({ ofline: true });
  // @ts-expect-error 2: a text in place of a flag
  await Agent.start({ offline: "yes" });
  // @ts-expect-error 3: a decision that does not exist
  await Agent.start({ approve: () => "allow" });
  // @ts-expect-error 4: an answer of the wrong shape
  await Agent.start({ ask: () => [5] });
  // @ts-expect-error 5: a browser has no program
  await BrowserAgent.start({ address: "ws://host", program: "agentd" });
  // @ts-expect-error 6: a parameter of a thread with a typing error
  await agent.thread({ sandBox: "readOnly" });
  // @ts-expect-error 7: a sandbox that does not exist
  await agent.thread({ sandbox: "none" });
  // @ts-expect-error 8: a policy that does not exist
  await agent.run("go", { approvalPolicy: "always" });
  const thread = await agent.thread({ sandbox: "readOnly", context: { user: 5 } });
  // @ts-expect-error 9: a message that is none
  await thread.run(5);
  // @ts-expect-error 10: seconds as a text
  await thread.run("go", { timeout: "60" });
  // @ts-expect-error 11: a word that does not exist
  await thread.turn("go", { onBusy: "queue" });
  const plan: Result<{ title: string }> = await thread.run("go", { output: Plan });
  // @ts-expect-error 12: a member that the answer does not have
  console.log(plan.output.titel);
  const text: string = (await thread.run("go")).output;
  // @ts-expect-error 13: a text has no members of a schema
  console.log(text.title);
  // @ts-expect-error 14: a method with a typing error
  await agent.request("thread/lst", {});
  // @ts-expect-error 15: parameters that are missing
  await agent.request("thread/read");
  // @ts-expect-error 16: a parameter of the wrong type
  await agent.request("thread/read", { threadId: 5 });
  // @ts-expect-error 17: a result that has no such member
  (await agent.request("thread/read", { threadId: "t" })).turns;
  // @ts-expect-error 18: an event that does not exist
  if (event.method === "turn/finished") return;
  if (event.method === "turn/completed") {
    // @ts-expect-error 19: a member of another event
    console.log(event.params.delta);
    console.log(event.params.turn.status, event.cursor);
  }
  const parameters = z.object({ city: z.string() });
  // @ts-expect-error 20: an argument that the schema does not have
  tool({ name: "a", description: "b", parameters, run: ({ town }) => town });
  tool({ name: "a", description: "b", parameters, run: ({ city }, { signal, threadId }) => [city, signal, threadId] });
  // @ts-expect-error 21: an image of nothing
  image(5);
  // @ts-expect-error 22: a review of nothing
  await thread.review({ type: "everything" });
  // @ts-expect-error 23: a number of turns as a text
  await thread.rollback("1");
  // @ts-expect-error 24: a status of a goal that does not exist
  await thread.setGoal({ objective: "x", status: "done" });
  // @ts-expect-error 26: an id that is a number
  await thread.deleteQueued(5);
  // @ts-expect-error 27: a search without words
  agent.search();
  // @ts-expect-error 28: a member that a queued message does not have
  console.log((await thread.queue("go")).text);
  for await (const each of turn) {
    // @ts-expect-error 25: an event of a thread is none of a turn
    if (each.method === "thread/closed") return;
  }
}
