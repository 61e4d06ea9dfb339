// The queue of a thread: two pages see the same, messages move by keyboard, and after an interruption the queue waits
// until it is started.

import { report, say, serve } from "./harness.mjs";
import { checkAccessible } from "./states.mjs";

export async function checkQueue(browser) {
  const answers = ["Two.", "Three.", "One."].map((text) => ({ steps: [say(text)] }));
  const server = await serve({ name: "queue", responses: [{ steps: [say("Half"), "idle"] }, ...answers], options: ["approval_policy=\"never\""] });
  const page = await browser.page();
  await page.connect(server);
  await page.start();
  const is = async (name, expression, of = page) => {
    const holds = await of.evaluate(expression);
    report("queue", name, holds === true ? [] : [`${expression} is ${JSON.stringify(holds)}; notice: ${await of.evaluate("document.getElementById('notice-text').textContent")}`]);
  };
  const rows = "[...document.querySelectorAll('#queue .grow')].map((e) => e.textContent).join()";
  const add = async (text, count) => {
    await page.evaluate("message.focus()");
    await page.type(text);
    await page.press("Alt+Enter");
    await page.wait(`document.querySelectorAll('#queue li').length === ${count} && message.value === ''`);
  };
  await page.send("Begin.");
  await page.wait("!interrupt.hidden && document.querySelector('.agentMessage')?.textContent.includes('Half')");
  await add("one", 1);
  await add("two", 2);
  await add("three", 3);

  // The same in another page, which changes it.
  const other = await browser.page();
  await other.open(server.url);
  await other.wait("document.getElementById('status').dataset.phase === 'open'");
  await other.click("#threads .thread");
  await other.wait(`${rows} === 'one,two,three'`);
  await other.evaluate("document.querySelector('#queue [aria-label=\"Move up: three\"]').focus()");
  await other.press("Enter");
  await page.wait(`${rows} === 'one,three,two'`);
  await other.wait(`${rows} === 'one,three,two'`);
  await is("a control keeps the focus while its message moves", "document.activeElement.ariaLabel === 'Move up: three'", other);
  await other.press("Enter");
  await page.wait(`${rows} === 'three,one,two'`);
  await other.wait(`${rows} === 'three,one,two'`);
  await is("at the top the next control has it", "document.activeElement.ariaLabel === 'Move down: three'", other);
  await other.press("Enter");
  await page.wait(`${rows} === 'one,three,two'`);

  // An edited message goes back into its place.
  await page.click("#queue [aria-label='Edit: three']");
  await page.wait(`message.value === 'three' && ${rows} === 'one,two'`);
  await page.type("!");
  await page.press("Alt+Enter");
  await page.wait(`${rows} === 'one,three!,two'`);
  await other.wait(`${rows} === 'one,three!,two'`);
  await is("the focus is in the message", "document.activeElement === message");

  await page.click("#interrupt");
  await page.wait("!document.getElementById('queue-start').hidden && !document.getElementById('queue-start').disabled");
  await is("the page says why the queue waits", "document.getElementById('queue-title').textContent === 'The queue waits: the turn was interrupted.'");
  await is("so does the other one", "document.getElementById('queue-title').textContent.startsWith('The queue waits')", other);
  // The page in the background is not drawn.
  await checkAccessible(other, "a queue that waits");
  await page.reload();
  await page.wait(`${rows} === 'one,three!,two' && !document.getElementById('queue-start').hidden`);
  await page.evaluate("document.getElementById('queue-start').focus()");
  await page.press("Enter");
  await page.wait("[...document.querySelectorAll('.turn[data-status=completed]')].length === 3 && document.getElementById('queue-place').hidden");
  await is("each message had a turn, in order",
    "[...document.querySelectorAll('.userMessage')].map((e) => e.textContent.replace('You: ', '')).join() === 'Begin.,one,three!,two'");
  await other.wait("document.getElementById('queue-place').hidden");
  for (const each of [page, other]) {
    report("queue", "no error of a script", each.errors);
    await each.close();
  }
}
