// Being asked: the answers of a long request stay in view, a request out of view is announced, and so is one that
// comes while the page is not looked at.

import { SCREENS, call, report, say, serve } from "./harness.mjs";
import { checkAccessible } from "./states.mjs";

/** Keeps what the page would show outside of itself, and lets it believe that it is not looked at. */
const BEFORE = `
  window.shown = [];
  window.Notification = class {
    static permission = "default";
    static async requestPermission() { return (this.permission = "granted"); }
    constructor(title, options) { this.title = title; Object.assign(this, options); window.shown.push(this); }
    close() { this.isClosed = true; }
  };
  window.isLookedAt = true;
  Document.prototype.hasFocus = () => window.isLookedAt;
`;

export async function checkAsking(browser) {
  const long = `printf '%s' ${Array.from({ length: 120 }, (_, at) => `line-${at} \\\n `).join("")}&& touch new`;
  const plan = call("update_plan", { explanation: "Two steps.", plan: [{ step: "Ask", status: "in_progress" }, { step: "End", status: "pending" }] });
  const server = await serve({
    name: "asking", options: ["approval_policy=\"untrusted\""],
    responses: [{ steps: [plan, call("exec_command", { cmd: long })] }, { steps: [call("exec_command", { cmd: "touch other" })] }, { steps: [say("Ended. ".repeat(600))] }, { steps: [say("Again.")] }],
  });
  const page = await browser.page({ before: BEFORE });
  await page.connect(server);
  await page.start();
  const is = async (name, expression) => {
    const holds = await page.evaluate(expression);
    report("asking", name, holds === true ? [] : [`${expression} is ${JSON.stringify(holds)}`]);
  };

  await page.click("#settings-open");
  await page.click("#notify");
  await page.wait("Notification.permission === 'granted' && notify.checked");
  await page.evaluate("document.getElementById('settings').close()");
  await page.evaluate("window.isLookedAt = false");
  await page.send("Ask me.");
  await page.wait("document.querySelector('.request .primary')");
  await is("a request that is not looked at is told", "shown.length === 1 && shown[0].title === 'answer needed: Ask me. · agentd' && shown[0].body === 'Run this command?'");
  await is("the title says so", "document.title === '(answer needed) Ask me. · agentd'");
  await page.evaluate("window.isLookedAt = true; shown[0].onclick()");
  await is("a click leads to the request", "document.activeElement === document.querySelector('.request') && shown[0].isClosed");
  await page.evaluate("window.dispatchEvent(new Event('focus'))");
  await is("the title is as before once the page is looked at", "document.title === 'Ask me. · agentd'");

  for (const [screen, width, height] of SCREENS) {
    await page.screen(width, height);
    for (const place of ["the beginning", "the middle"]) {
      await page.evaluate(place === "the beginning"
        ? "document.querySelector('.request').scrollIntoView({ block: 'start' })"
        : "stream.scrollTop += 500");
      await page.drawn();
      await is(`${screen}: the answers are in view at ${place} of a long request`, `(() => {
        const { top, bottom } = document.getElementById("stream").getBoundingClientRect();
        return [...document.querySelectorAll(".request .buttons button")].every((button) => {
          const place = button.getBoundingClientRect();
          const hit = document.elementFromPoint(place.x + place.width / 2, place.y + place.height / 2);
          return place.top >= top && place.bottom <= bottom && button.contains(hit);
        });
      })()`);
      await page.screenshot(`long-request-${screen}-${place.replaceAll(" ", "-")}`);
    }
  }
  await page.screen(1280, 800);
  await checkAccessible(page, "a long request");
  await page.evaluate("stream.scrollTop = 0; document.querySelector('.items > .asking').style.marginTop = '150vh'");
  await page.evaluate("stream.scrollTop = 0; stream.dispatchEvent(new WheelEvent('wheel'))");
  await page.wait("!document.getElementById('request-waits').hidden");
  await checkAccessible(page, "a request out of view");
  await page.click("#request-show");
  await page.wait("document.getElementById('request-waits').hidden");
  await is("its line leads to the request", "document.activeElement === document.querySelector('.request')");
  await page.answer();
  await page.wait("document.querySelector('.request .subject')?.textContent === 'touch other'");
  await is("a request that is looked at is not told", "shown.length === 1");
  await page.evaluate("window.isLookedAt = false");
  await page.answer();
  await page.wait("document.querySelector('.turn[data-status=completed]')");
  await page.wait("shown.length === 2");
  await is("the end of a turn is told, too", "shown[1].title.startsWith('done: ') && document.title.startsWith('(done) ')");
  await page.evaluate("window.isLookedAt = true; window.dispatchEvent(new Event('focus'))");

  // The plan is a part of its turn, also when the page is loaded again.
  const plans = "[...document.querySelectorAll('.turn .plan-steps')].map((e) => e.textContent).join()";
  await is("the turn has its plan", `${plans}.includes("0 of 2 done") && ${plans}.includes("Two steps.")`);
  await page.reload();
  await page.wait(`${plans}.includes("0 of 2 done") && ${plans}.includes("Ask")`);
  const other = await browser.page();
  await other.open(`${server.url}&${await page.evaluate("location.hash.slice(1)")}`);
  await other.wait(`${plans}.includes("0 of 2 done") && ${plans}.includes("Ask")`);
  report("asking", "another page has the plan, too", other.errors);
  await other.close();
  await page.evaluate("message.focus()");

  // Without leave, the title alone says it.
  await page.evaluate("document.getElementById('settings-open').click(); if (notify.checked) notify.click(); document.getElementById('settings').close(); window.isLookedAt = false");
  await page.send("Again.");
  await page.wait("document.querySelectorAll('.turn[data-status=completed]').length === 2");
  await is("notifications that are off are not shown, but the title tells", "shown.length === 0 && document.title.startsWith('(done) ')");
  report("asking", "no error of a script", page.errors);
  await page.close();
}
