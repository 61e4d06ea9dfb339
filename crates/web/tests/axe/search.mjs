// The search in what was said: hits with their snippets, which open the thread at the place.

import { report, say, serve } from "./harness.mjs";
import { checkAccessible } from "./states.mjs";

/** Turns after the one that is searched for, so that it is not on the first page. */
const LATER = 25;

export async function checkSearch(browser) {
  const long = "A long answer.\n\n".repeat(60);
  const responses = Array.from({ length: 2 + LATER }, () => ({ steps: [say(long)] }));
  const server = await serve({ name: "search", responses, options: ["approval_policy=\"never\""] });
  const page = await browser.page();
  await page.connect(server);
  const is = async (name, expression) => {
    const holds = await page.evaluate(expression);
    report("search", name, holds === true ? [] : [`${expression} is ${JSON.stringify(holds)}`]);
  };
  const turns = "document.querySelectorAll('.turn[data-status=completed]').length";
  await page.start();
  const later = Array.from({ length: LATER }, (_, at) => `Later ${at}.`);
  for (const [at, text] of ["Begin.", "Why does the lexer fail?", ...later].entries()) {
    await page.send(text);
    await page.wait(`${turns} === ${at + 1} && !send.disabled`);
  }
  const first = await page.evaluate("location.hash");
  await page.start();
  await page.wait(`location.hash !== ${JSON.stringify(first)}`);
  await page.send("Another thread.");
  await page.wait(`${turns} === 1 && !send.disabled`);
  const find = async (text) => {
    await page.evaluate("search.focus(); search.select()");
    await page.type(text);
  };
  await find("lexer fai");
  await page.wait("document.querySelectorAll('#found li').length === 1 && document.querySelectorAll('#threads li').length <= 1");
  await is("the words stand out in the snippet", "[...document.querySelectorAll('#found mark')].map((e) => e.textContent).join() === 'lexer,fai'");
  await checkAccessible(page, "a search in what was said");

  // By keyboard alone: to the hit, and into the thread.
  await page.evaluate("search.focus()");
  for (let at = 0; at < 12 && !await page.evaluate("Boolean(document.activeElement.closest('#found'))"); at += 1) await page.press("Tab");
  await page.press("Enter");
  await page.wait("document.activeElement.classList.contains('hit')");
  await is("the thread is open at the place", "document.activeElement.textContent.includes('Why does the lexer fail?')");
  await page.drawn();
  await is("the place is in view", "(({ bottom, top }) => bottom > 0 && top < innerHeight)(document.activeElement.getBoundingClientRect())");
  await page.evaluate("message.focus()");
  await is("the mark goes with the focus", "!document.querySelector('.hit')");
  await find("nowhere at all");
  await page.wait("document.getElementById('no-threads').textContent === 'Nothing found.' && !document.getElementById('no-threads').hidden");
  await is("there are no hits", "document.getElementById('found-place').hidden");
  await page.evaluate("search.value = ''; search.dispatchEvent(new Event('input'))");
  await page.wait("document.querySelectorAll('#threads li').length === 2");
  report("search", "no error of a script", page.errors);
  await page.close();
}
