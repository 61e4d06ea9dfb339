// What is done with threads: the menu by keyboard, and fork, undo, review, compact, goal, cost, export, archive, delete.

import { readFileSync } from "node:fs";
import path from "node:path";

import { call, patch, report, say, serve } from "./harness.mjs";
import { checkAccessible } from "./states.mjs";

/** Keeps the text of what the page lets the browser save. */
const BEFORE = `
  const make = URL.createObjectURL.bind(URL);
  URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return make(blob); };
`;

export async function checkActions(browser) {
  const change = "*** Begin Patch\n*** Update File: price.txt\n@@\n-pears 2.5\n+pears 2.50\n*** End Patch\n";
  const server = await serve({
    name: "actions", files: { "price.txt": "pears 2.5\n" },
    options: ["approval_policy=\"never\"", "sandbox_mode=\"workspace-write\"", "features.undo=true"],
    responses: [
      { steps: [patch(change)] }, { steps: [say("Changed. Use ```ticks```.")] },
      { steps: [say(JSON.stringify({ findings: [], overall_correctness: "patch is correct", overall_explanation: "It is fine.", overall_confidence_score: 0.9 }))] },
      { steps: [say("A summary.")] }, { steps: [say("For the goal.")] }, { steps: [call("update_goal", { status: "complete" })] }, { steps: [say("Reached.")] }, { steps: [say("More.")] },
    ],
  });
  const page = await browser.page({ before: BEFORE });
  await page.connect(server);
  await page.start();
  const is = async (name, expression) => {
    const holds = await page.evaluate(expression);
    report("actions", name, holds === true ? [] : [`${expression} is ${JSON.stringify(holds)}; page: ${await page.evaluate("(document.querySelector(\"dialog[open]\") ?? document.getElementById(\"notice\")).textContent")}`]);
  };
  const completed = (count) => page.wait(`document.querySelectorAll('.turn[data-status=completed]').length === ${count} && !send.disabled && interrupt.hidden`);
  const choose = async (id) => {
    await page.click("#actions");
    await page.click(`#${id}`);
  };

  await page.send("Correct the price.");
  await completed(1);
  // The menu, by keyboard.
  await page.evaluate("actions.focus()");
  await page.press("Enter");
  await page.wait("document.activeElement.id === 'rename'");
  await checkAccessible(page, "the menu of a thread");
  await page.press("ArrowUp");
  await is("Up from the first entry goes to the last", "document.activeElement.id === 'delete'");
  await page.press("Home");
  await page.press("ArrowDown");
  await is("Down goes to the next", "document.activeElement.id === 'fork'");
  await page.press("Escape");
  await is("Esc closes the menu, and gives the focus back", "document.getElementById('actions-menu').hidden && document.activeElement.id === 'actions'");
  await page.press("ArrowDown");
  await page.press("Enter");
  await page.wait("document.getElementById('rename-dialog').open");
  await page.press("Escape");
  await page.wait("!document.getElementById('rename-dialog').open");
  await is("a dialog gives the focus back, too", "document.activeElement.id === 'actions'");

  // Export.
  await choose("export");
  await page.wait("window.saved");
  await is("the export has the messages, the change, and a fence that the text does not end", `saved.startsWith("# Correct the price.") && saved.includes("## You\\n\\nCorrect the price.") && saved.includes("+pears 2.50") && saved.includes("Changed. Use")`);

  // Fork.
  const before = await page.evaluate("location.hash");
  await choose("fork");
  await page.wait(`location.hash !== ${JSON.stringify(before)} && title.textContent === 'Correct the price. (fork)'`);
  await completed(1);
  await page.send("In the fork.");
  await completed(2);
  await is("the list has both, under their folder", "document.querySelectorAll('#threads .group').length === 1 && document.querySelectorAll('#threads li').length === 2");
  await page.click("#threads li:nth-child(2) button");
  await page.wait(`location.hash === ${JSON.stringify(before)}`);
  await completed(1);

  // Undo.
  await choose("undo");
  await page.wait("document.querySelector('dialog[open] .change')");
  await checkAccessible(page, "the question before an undo");
  await is("it shows what would change", "document.querySelector('dialog[open]').textContent.includes('Undo the turn and restore 1 file') && document.querySelector('dialog[open] .removed .line').textContent === 'pears 2.50'");
  await page.press("Escape");
  await page.wait("!document.querySelector('dialog[open]')");
  report("actions", "Esc undoes nothing", readFileSync(path.join(server.work, "price.txt"), "utf8") === "pears 2.50\n" ? [] : ["the file has changed"]);
  await choose("undo");
  await page.click("dialog[open] .primary");
  await page.wait("!document.querySelector('.turn') && message.value === 'Correct the price.'");
  report("actions", "an undo restores the file", readFileSync(path.join(server.work, "price.txt"), "utf8") === "pears 2.5\n" ? [] : ["the file is as before"]);

  // Review.
  await page.evaluate("document.querySelector('#threads li button').click()");
  await page.wait("title.textContent === 'Correct the price. (fork)'");
  await completed(2);
  await choose("review");
  await page.evaluate("document.querySelector('dialog[open] [value=custom]').click()");
  await is("a field comes for what is to be reviewed", "document.querySelector('dialog[open] textarea').checkVisibility()");
  await checkAccessible(page, "the choice of a review");
  await page.click("dialog[open] textarea");
  await page.type("The price.");
  await page.click("dialog[open] .primary");
  await page.wait("document.querySelector('.exitedReviewMode')?.textContent.includes('It is fine.')");
  await completed(3);
  await is("the findings are shown in words, and not as JSON", "document.querySelector('.exitedReviewMode').checkVisibility() && ![...document.querySelectorAll('.agentMessage')].some((e) => e.checkVisibility() && e.textContent.includes('overall_'))");

  // Compact.
  await choose("compact");
  await page.wait("document.querySelector('.contextCompaction')?.textContent.includes('compacted')");
  await completed(4);

  // Goal: goals are off, and switched on with it.
  await choose("goal");
  await page.click("dialog[open] textarea");
  await page.type("All prices have two decimals.");
  await page.evaluate("document.querySelector('dialog[open] [type=number]').value = '100000'");
  await checkAccessible(page, "the dialog of the goal");
  await page.click("dialog[open] .primary");
  await page.wait("document.querySelector('dialog[open] h2')?.textContent === 'Switch goals on?'");
  await page.click("dialog[open] .primary");
  await page.wait("!document.getElementById('goal-line').hidden");
  await is("the goal is shown", "document.getElementById('goal-line').textContent.includes('All prices have two decimals.')");
  await checkAccessible(page, "a thread with a goal");
  await page.wait("interrupt.hidden && document.querySelector('#goal-line').textContent.includes('tokens')");
  await page.reload();
  await page.wait("document.getElementById('goal-line').textContent.includes('All prices have two decimals.')");
  await page.evaluate("message.focus()");
  await page.send("/goal clear");
  await page.wait("document.getElementById('goal-line').hidden");
  await page.wait("interrupt.hidden && !send.disabled");

  // Cost.
  await choose("cost");
  await page.wait("document.querySelector('dialog[open] h2')?.textContent === 'Cost and limits'");
  await is("the tokens of the thread are shown, also after a reload", "/Tokens[\\d,]+Input/.test(document.querySelector('dialog[open] .facts').textContent)");
  await checkAccessible(page, "cost and limits");
  await page.press("Escape");

  // Delete.
  await choose("delete");
  await page.wait("document.querySelector('dialog[open] .destructive')");
  await checkAccessible(page, "the question before a thread is deleted");
  await page.press("Escape");
  await page.wait("!document.querySelector('dialog[open]')");
  await is("Esc deletes nothing", "document.querySelectorAll('#threads li').length === 2");
  await choose("delete");
  await page.click("dialog[open] .destructive");
  await page.wait("!welcome.hidden && document.getElementById('notice-text').textContent === 'The thread was deleted.'");
  report("actions", "no error of a script", page.errors);
  await page.close();
}
