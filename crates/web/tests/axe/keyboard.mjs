// The keyboard: every control is reached with Tab and shows that it has the focus; dialogs keep it and give it back.

import { SCREENS, call, report, say, serve } from "./harness.mjs";

/** The controls that Tab must reach; of a group with arrow keys, one has it. Runs in the page. */
const REACHABLE = `[...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter((e) =>
  e.tabIndex >= 0 && !e.disabled && e.type !== "radio" && e.checkVisibility({ contentVisibilityAuto: false }) && !e.closest("[inert]"))`;

/** What is wrong with the element that has the focus. Runs in the page. */
const SHOWN = `(() => {
  const element = document.activeElement;
  const name = element.id || element.ariaLabel || element.textContent.slice(0, 30) || element.tagName;
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  const frame = getComputedStyle(element.closest(".writing") ?? element).boxShadow;
  const place = element.getBoundingClientRect();
  const problems = [];
  if ((outlineStyle === "none" || parseFloat(outlineWidth) < 2) && (element.id !== "message" || frame === "none")) problems.push(name + " does not show the focus");
  if (place.bottom <= 0 || place.top >= innerHeight || place.right <= 0 || place.left >= innerWidth) problems.push(name + " is out of view");
  element.dataset.visited = "yes";
  return { name, problems };
})()`;

export async function checkKeyboard(browser) {
  const plan = call("update_plan", { plan: [{ step: "Look", status: "completed" }] });
  const server = await serve({ name: "keyboard", files: { "a.txt": "x" }, options: ["approval_policy=\"untrusted\""],
    responses: [{ steps: [{ reasoning: "I look." }, plan, say("A [link](https://example.com).\n\n```sh\nls\n```\n\n|a|\n|---|\n|1|\n", { phase: "commentary" }), call("exec_command", { cmd: "touch new" })] }, { steps: [say("Done.")] }] });
  const page = await browser.page();
  await page.connect(server);
  const walk = async (name) => {
    const problems = [];
    await page.evaluate("document.querySelectorAll('[data-visited]').forEach((e) => delete e.dataset.visited); document.activeElement.blur(); getSelection().removeAllRanges()");
    await page.evaluate("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')");
    const count = await page.evaluate(`${REACHABLE}.length`);
    for (let at = 0; at < count + 12; at += 1) {
      await page.press("Tab");
      if (await page.evaluate("document.activeElement === document.body")) continue; // the browser's own controls
      problems.push(...(await page.evaluate(SHOWN)).problems);
    }
    const missed = await page.evaluate(`${REACHABLE}.filter((e) => !e.dataset.visited).map((e) => e.id || e.ariaLabel || e.className || e.textContent.slice(0, 30))`);
    if (missed.length) problems.push(`not reached: ${missed.join(", ")}`);
    report("keyboard", `${name}: ${count} controls`, [...new Set(problems)]);
  };
  await walk("without a thread");
  await page.start();
  await page.send("Look.");
  await page.wait("document.querySelector('.request .primary')");
  await page.evaluate("message.focus()");
  for (const [screen, width, height] of SCREENS) {
    await page.screen(width, height);
    await walk(`${screen}, an approval`);
  }
  await page.screen(1280, 800);
  // An approval is given by keyboard alone.
  await page.evaluate("document.querySelector('.request').focus()");
  await new Promise((wake) => setTimeout(wake, 450));
  while (!await page.evaluate("document.activeElement.classList.contains('primary')")) await page.press("Tab");
  await page.press("Enter");
  await page.wait("document.querySelector('.turn[data-status=completed]') && !send.disabled");
  report("keyboard", "after an answer the focus is in the message", await page.evaluate("document.activeElement.id") === "message" ? [] : ["it is not"]);
  await page.evaluate("document.getElementById('panel-toggle').focus()");
  await page.press("Enter");
  for (const tab of ["changes", "processes", "agents", "files"]) {
    await page.wait(`document.activeElement.id === 'tab-${tab}' && document.getElementById('pane-${tab}').textContent`);
    await walk(`details, ${tab}`);
    await page.evaluate(`document.getElementById('tab-${tab}').focus()`);
    if (tab !== "files") await page.press("ArrowRight");
  }
  await page.press("Escape");
  await page.wait("document.activeElement.id === 'panel-toggle'");

  // Dialogs: the focus is in them, stays there, and comes back.
  const dialog = async (name, open, back) => {
    await open();
    await page.wait("document.querySelector('dialog[open]')");
    const problems = [];
    for (let at = 0; at < 30; at += 1) {
      const isIn = await page.evaluate("document.activeElement === document.body || Boolean(document.activeElement.closest('dialog[open]'))");
      if (!isIn) problems.push("the focus leaves it");
      if (at > 0 && await page.evaluate("document.activeElement !== document.body")) problems.push(...(await page.evaluate(SHOWN)).problems);
      await page.press("Tab");
    }
    // The browser's own controls come between the last of the dialog and the first.
    while (await page.evaluate("document.activeElement === document.body")) await page.press("Tab");
    await page.press("Escape");
    await page.wait("!document.querySelector('dialog[open]')");
    const now = await page.evaluate("document.activeElement.id");
    if (now !== back) problems.push(`the focus is at ${now || "nothing"} instead of ${back}`);
    report("keyboard", `the dialog ${name}`, [...new Set(problems)]);
  };
  const key = (id) => async () => {
    await page.evaluate(`document.getElementById(${JSON.stringify(id)}).focus()`);
    await page.press("Enter");
  };
  await dialog("of the settings", key("settings-open"), "settings-open");
  await dialog("of a new thread", key("new-thread"), "new-thread");
  await dialog("of the settings, from the line below the message", key("status-line"), "status-line");
  for (const name of ["rename", "review", "goal", "cost", "delete", "undo"]) {
    await dialog(`of /${name}`, async () => {
      await page.evaluate("message.focus(); message.value = ''");
      await page.send(`/${name}`);
    }, "message");
  }
  await dialog("of /login", async () => {
    await page.evaluate("message.focus(); message.value = ''");
    await page.send("/login");
  }, "message");
  report("keyboard", "no error of a script", page.errors);
  await page.close();
}
