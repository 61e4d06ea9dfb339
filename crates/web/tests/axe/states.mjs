// Every state of the page under axe-core.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { SCREENS, call, report, serve } from "./harness.mjs";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const { version } = require("axe-core/package.json");
const SCHEMES = ["light", "dark"];

/** A turn that asks for everything that the page can show. */
const question = {
  id: "q", header: "Tax", question: "With the tax?", isOther: true,
  options: [{ label: "Yes", description: "What customers pay." }, { label: "No", description: "Before it." }],
};
const answer = "# Done\n\nA **bold** [link](https://example.com) and `code`.\n\n- one\n- two\n\n> quoted\n\n" +
  "| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\necho ok\n```\n";
const patch = "*** Begin Patch\n*** Update File: price.txt\n@@\n-pears 2.5\n+pears 2.50\n*** End Patch\n";
const responses = [
  { steps: [{ reasoning: "First I look." }, { message: { text: "I look.", phase: "commentary" } },
    call("update_plan", { plan: [{ step: "Look", status: "completed" }, { step: "Change", status: "in_progress" }, { step: "Check", status: "pending" }] }),
    call("exec_command", { cmd: "cat price.txt && touch new" })] },
  { steps: [{ custom_tool_call: { name: "apply_patch", input: patch } }] },
  { steps: [call("request_user_input", { questions: [question] })] },
  { steps: [call("exec_command", { cmd: "while :; do echo tick; sleep 1; done", yield_time_ms: 250 })] },
  { steps: [{ message: { text: answer, phase: "final_answer" } }] },
];

const settled = () => new Promise((wake) => setTimeout(wake, 500));

/** One state of the page, in each size and scheme. */
export async function checkAccessible(page, state) {
  await page.evaluate(axe + ";0");
  for (const [screen, width, height] of SCREENS) {
    await page.screen(width, height);
    for (const scheme of SCHEMES) {
      await page.scheme(scheme);
      await page.drawn();
      const { violations, wide } = await page.evaluate(
        "axe.run().then(({ violations }) => ({ violations, wide: document.documentElement.scrollWidth > innerWidth }))");
      const problems = violations.map(({ id, nodes }) =>
        `${id} at ${nodes.map(({ target, any }) => `${target} (${any[0]?.message ?? ""})`).slice(0, 3).join(", ")}`);
      report(`${screen}, ${scheme}`, state, wide ? [...problems, "the page is wider than the screen"] : problems);
      await page.screenshot(`${state.replaceAll(/\W+/g, "-")}-${screen}-${scheme}`);
    }
  }
  await page.screen(1280, 800);
}

export async function checkStates(browser) {
  console.log(`client JavaScript axe-core ${version}`);
  const server = await serve({ name: "states", responses, files: { "price.txt": "pears 2.5\n" }, options: ["approval_policy=\"untrusted\""] });
  const page = await browser.page();
  const check = (state) => checkAccessible(page, state);
  await page.open(server.url.replace(/#.*/, "#token=of-another-server-0123456789"));
  await page.wait("document.getElementById('token-dialog').open");
  await check("the question for a token");
  await page.open(server.url);
  await page.wait("document.getElementById('status').dataset.phase === 'open'");
  await check("no thread");
  await page.click("#new-thread");
  await check("the dialog of a new thread");
  await page.click("#start-form .primary");
  await page.wait("!document.getElementById('composer').hidden && !document.getElementById('send').disabled");
  await page.evaluate("message.value = 'Correct the price.'; composer.requestSubmit()");
  await page.wait("document.querySelector('.request pre')");
  await check("an approval of a command");
  await settled();
  await page.click(".request .primary");
  await page.wait("document.querySelector('.request .lines')");
  await check("an approval of a change");
  await settled();
  await page.click(".request .primary");
  await page.wait("document.querySelector('.request legend')");
  await check("a question");
  await page.evaluate("message.value = 'What comes next'; enqueue.click()");
  await page.wait("document.querySelector('#queue li')");
  await check("a message that waits for the end of the turn");
  await page.click("#queue [aria-label^=Remove]");
  await page.wait("!document.querySelector('#queue li')");
  await settled();
  await page.click(".request input");
  await page.click(".request .primary");
  await page.wait("document.querySelector('.request pre')?.textContent.includes('tick')");
  await settled();
  await page.click(".request .primary");
  await page.wait("document.querySelector('.turn[data-status=completed] figure')");
  await check("the end of a turn");
  await page.click("#panel-toggle");
  for (const tab of ["changes", "processes", "agents", "files"]) {
    await page.click(`#tab-${tab}`);
    await page.wait(`document.getElementById('pane-${tab}').textContent`);
    await check(`the panel, ${tab}`);
  }
  await page.click("#pane-files .entry");
  await page.wait("document.querySelector('#pane-files .file')");
  await check("the panel, a file");
  await page.click("#panel-close");
  await page.click("#settings-open");
  await check("the settings");
  await page.evaluate("document.getElementById('settings').close()");
  await page.click("#actions"); await page.click("#archive");
  await page.wait("!document.getElementById('welcome').hidden");
  await page.click("#archived");
  await page.wait("document.querySelector('#threads .archived')");
  await check("archived threads, and a notice");
  await page.evaluate("document.body.classList.add('menu-open')");
  await check("the list of threads over the page");
  report("states", "no error of a script", page.errors);
  await page.close();
}
