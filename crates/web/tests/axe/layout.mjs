// Nothing is clipped: in every pane and on both screens, each card has its natural height, and the pane scrolls.
// Compared by layout, with changes of 1, 8, 30 and 200 files, long lines and long names.

import { SCREENS, patch, report, say, serve } from "./harness.mjs";

const COUNTS = [1, 8, 30, 200];
const LONG_LINE = "x".repeat(3000);
const LONG_NAME = `${"a-long-folder-name/".repeat(8)}${"and-a-long-file-name".repeat(6)}.txt`;

/** A patch that adds so many files; some have long lines, and one a long name. */
function files(count) {
  const names = Array.from({ length: count }, (_, at) => (at === 0 ? `n${count}/${LONG_NAME}` : `n${count}/file-${at}.txt`));
  const added = names.map((name, at) => `*** Add File: ${name}\n+one\n+${at % 4 ? "two" : LONG_LINE}\n+three\n`);
  return `*** Begin Patch\n${added.join("")}*** End Patch\n`;
}

/**
 * The elements within `selector` that hide a part of what they contain and cannot be scrolled there, and the
 * lines of diffs that have no height. Runs in the page.
 */
const CLIPPED = `((selector) => {
  const problems = [];
  const place = document.querySelector(selector);
  for (const element of [place, ...place.querySelectorAll("*")]) {
    if (!element.checkVisibility() || element.classList.contains("unseen")) continue;
    const { overflowY, overflowX, webkitLineClamp, textOverflow } = getComputedStyle(element);
    const name = element.id || element.className || element.tagName;
    const hides = (overflow) => overflow === "hidden" || overflow === "clip";
    if (hides(overflowY) && webkitLineClamp === "none" && element.scrollHeight > element.clientHeight + 1) problems.push(name + " hides " + (element.scrollHeight - element.clientHeight) + " px of its height");
    if (hides(overflowX) && textOverflow !== "ellipsis" && element.scrollWidth > element.clientWidth + 1) problems.push(name + " hides " + (element.scrollWidth - element.clientWidth) + " px of its width");
  }
  for (const card of place.querySelectorAll(".change, .terminal, .agents li")) {
    const parts = [...card.children].reduce((sum, child) => sum + child.getBoundingClientRect().height, 0);
    const { height } = card.getBoundingClientRect();
    if (height + 1 < parts) problems.push("a card of " + height + " px holds " + parts + " px");
  }
  const rows = [...place.querySelectorAll(".diff tr")];
  const empty = rows.filter((row) => row.checkVisibility() && row.getBoundingClientRect().height < 10).length;
  if (empty) problems.push(empty + " lines have no height");
  const outside = [...place.children].filter((child) => child.checkVisibility() && child.getBoundingClientRect().right > place.getBoundingClientRect().right + 1);
  if (outside.length) problems.push(outside.length + " cards reach beyond the edge");
  return [...new Set(problems)];
})`;

/** Whether the last element of a pane comes into view by scrolling. */
const REACHES_END = `((selector) => {
  const pane = document.querySelector(selector);
  pane.scrollTop = pane.scrollHeight;
  const last = [...pane.querySelectorAll(".change, li, tr, button, p")].filter((one) => one.checkVisibility()).at(-1);
  return last.getBoundingClientRect().bottom <= pane.getBoundingClientRect().bottom + 1;
})`;

export async function checkLayout(browser) {
  const tick = { function_call: { name: "exec_command", arguments: { cmd: `echo ${LONG_LINE}; seq 300; sleep 600`, yield_time_ms: 250 } } };
  const responses = [...COUNTS.flatMap((count) => [{ steps: [patch(files(count))] }, { steps: [say(`${count} files are there.`)] }]),
    ...Array.from({ length: 4 }, () => ({ steps: [tick] })), { steps: [say("They run.")] }];
  const server = await serve({ name: "layout", responses, options: ["approval_policy=\"never\"", "sandbox_mode=\"danger-full-access\""],
    files: Object.fromEntries(Array.from({ length: 120 }, (_, at) => [`many/file-${at}-${"long".repeat(at % 30)}.txt`, "text\n"])) });
  const page = await browser.page();
  await page.connect(server);
  await page.start();
  const check = async (name, selector, count) => {
    for (const [screen, width, height] of SCREENS) {
      await page.screen(width, height);
      const problems = await page.evaluate(`${CLIPPED}(${JSON.stringify(selector)})`);
      if (!await page.evaluate(`${REACHES_END}(${JSON.stringify(selector)})`)) problems.push("the end cannot be scrolled to");
      const cards = await page.evaluate(`document.querySelectorAll(${JSON.stringify(`${selector} .change`)}).length`);
      if (count && cards !== count) problems.push(`${cards} cards instead of ${count}`);
      if (await page.evaluate("document.documentElement.scrollWidth > innerWidth")) problems.push("the page is wider than the screen");
      report(`${screen}, layout`, name, problems);
      await page.screenshot(`layout-${screen}-${name.replaceAll(/\W+/g, "-")}`);
    }
    await page.screen(1280, 800);
  };
  for (const count of COUNTS) {
    await page.send(`Make ${count}.`);
    await page.wait(`[...document.querySelectorAll(".turn[data-status=completed] .agentMessage")].at(-1)?.textContent.startsWith("${count} files")`);
    if (await page.evaluate("panel.hidden")) await page.click("#panel-toggle");
    await page.wait(`document.querySelectorAll("#pane-changes .change").length === ${count}`);
    await check(`the changes of ${count} files`, "#pane-changes", count);
    await check(`the thread after ${count} files`, "#stream");
  }
  await page.send("Run.");
  await page.wait("[...document.querySelectorAll('.turn[data-status=completed] .agentMessage')].at(-1)?.textContent.startsWith('They run')");
  await page.click("#tab-processes");
  await page.wait("document.querySelectorAll('#pane-processes .terminal').length === 4 && document.querySelector('#pane-processes .screen').textContent.includes('300')");
  await check("four processes with long output", "#pane-processes");
  await page.click("#tab-agents");
  await check("no agents", "#pane-agents");
  await page.click("#tab-files");
  await page.wait("document.querySelector('#pane-files .entry')");
  await page.evaluate("[...document.querySelectorAll('#pane-files .entry')].find((entry) => entry.textContent.startsWith('many')).click()");
  await page.wait("document.querySelectorAll('#pane-files .entry').length === 120");
  await check("a folder of 120 files", "#pane-files");
  await page.evaluate("document.querySelector('#pane-files .entry').click()");
  await page.wait("document.querySelector('#pane-files .file')");
  await check("a file", "#pane-files");
  report("layout", "no error of a script", page.errors);
  await page.close();
}
