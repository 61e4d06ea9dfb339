// Threads by folder, and the choice of a folder for a new one.

import { mkdirSync } from "node:fs";
import path from "node:path";

import { report, say, serve } from "./harness.mjs";
import { checkAccessible } from "./states.mjs";

/** Threads besides those that the page starts, so that the list has a second page. */
const MORE = 50;

/** Starts threads with a turn each, over a connection of their own. Runs in the page. */
const startMore = (folder) => `(async () => {
  const token = btoa(sessionStorage.getItem("agentd.token")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const socket = new WebSocket(\`ws://\${location.host}/\`, ["agentd", \`agentd.bearer.\${token}\`]);
  const answers = new Map();
  let [id, ended] = [0, 0];
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.method === "turn/completed") ended += 1;
    if (message.method === undefined) answers.get(message.id)(message.result);
  };
  await new Promise((open) => { socket.onopen = open; });
  const call = (method, params) => new Promise((resolve) => {
    answers.set(++id, resolve);
    socket.send(JSON.stringify({ id, method, params }));
  });
  await call("initialize", { clientInfo: { name: "test", title: "test", version: "1" } });
  socket.send(JSON.stringify({ method: "initialized" }));
  for (let at = 0; at < ${MORE}; at += 1) {
    const { thread } = await call("thread/start", { cwd: ${JSON.stringify(folder)} });
    await call("turn/start", { threadId: thread.id, input: [{ type: "text", text: "More." }] });
    while (ended <= at) await new Promise((wake) => setTimeout(wake, 5));
  }
  socket.close();
})()`;

export async function checkFolders(browser) {
  const server = await serve({ name: "folders", responses: Array.from({ length: 9 + MORE }, () => ({ steps: [say("Yes.")] })), options: ["approval_policy=\"never\""],
    files: { "shop/src/a.txt": "", "shop/tests/a.txt": "", "school/a.txt": "", "shop/.hidden/a.txt": "" } });
  mkdirSync(path.join(server.work, "empty"));
  const page = await browser.page();
  await page.connect(server);
  const is = async (name, expression) => {
    const holds = await page.evaluate(expression);
    report("folders", name, holds === true ? [] : [`${expression} is ${JSON.stringify(holds)}`]);
  };
  const rows = "[...document.querySelectorAll('#folders li')].map((e) => e.textContent).join()";
  const start = async (folder) => {
    const before = await page.evaluate("location.hash");
    await page.click("#new-thread");
    await page.evaluate("cwd.select()");
    await page.type(path.join(server.work, folder));
    await page.press("Enter");
    await page.wait(`location.hash !== ${JSON.stringify(before)} && document.getElementById('folder').textContent.endsWith(${JSON.stringify(folder)}) && !send.disabled`);
    await page.send(`In ${folder}.`);
    await page.wait("document.querySelector('.turn[data-status=completed]')");
  };
  for (let at = 0; at < 8; at += 1) await start("shop");
  await start("school");

  const groups = "[...document.querySelectorAll('#threads .group')]";
  await is("each folder has its threads, the latest first", `${groups}.map((e) => e.querySelector('h2').textContent).join() === 'school1,shop8'`);
  await is("a long group is cut, and says so", `${groups}[1].querySelectorAll('li').length === 6 && ${groups}[1].querySelector('.quiet').textContent === '2 more'`);
  await checkAccessible(page, "threads by folder");
  await page.click("#threads .group:nth-child(2) > .quiet");
  await is("all of a folder can be shown", `${groups}[1].querySelectorAll('li').length === 8`);
  await page.click("#threads .group:nth-child(2) h2 button");
  await is("a folder can be closed, and the focus stays", `${groups}[1].querySelectorAll('li').length === 0 && document.activeElement.ariaExpanded === 'false'`);
  await page.reload();
  await page.wait(`${groups}.length === 2`);
  await is("it stays closed", `${groups}[1].querySelectorAll('li').length === 0`);
  await page.click("#search");
  await page.type("In shop");
  await page.wait(`${groups}.length === 1`);
  await is("a search shows all that it found", `${groups}[0].querySelectorAll('li').length === 8`);
  await page.evaluate("search.value = ''; search.dispatchEvent(new Event('input'))");
  await page.wait(`${groups}.length === 2`);

  // The choice of a folder.
  const button = "document.querySelector('#start-form .primary').getBoundingClientRect().top";
  const opened = await page.evaluate(`document.getElementById('new-thread').click(); ${button}`);
  await page.wait("document.querySelectorAll('#folders li').length > 0");
  await is("the buttons do not move while the folders arrive", `${button} === ${opened}`);
  await page.evaluate("cwd.value = ''; cwd.dispatchEvent(new Event('input'))");
  await page.wait(`document.getElementById('folders-title').textContent === 'Recent folders' && document.querySelectorAll('#folders li').length === 2`);
  await checkAccessible(page, "recent folders");
  await page.evaluate("cwd.focus()");
  await page.press("ArrowDown");
  await page.press("ArrowDown");
  await page.press("Enter");
  await page.wait("cwd.value.endsWith('/shop')");
  await page.type("/");
  await page.wait(`${rows} === '..,src,tests'`);
  await is("a recent folder is taken, and its folders follow", `cwd.value.endsWith("/shop/")`);
  await checkAccessible(page, "the folders of a folder");
  await page.type("te");
  await page.wait(`${rows} === '..,tests'`);
  await page.press("ArrowDown");
  await page.press("ArrowDown");
  await page.press("Enter");
  await page.wait("cwd.value.endsWith('/shop/tests/')");
  await page.press("Enter");
  await page.wait("document.getElementById('folder').textContent.endsWith('/shop/tests')");
  report("folders", "a thread starts in the folder that was walked to", []);
  await page.click("#new-thread");
  await page.evaluate("cwd.value = '/no/such/'; cwd.dispatchEvent(new Event('input'))");
  await page.wait("document.getElementById('folders-hint').textContent.includes('/no/such')");
  await is("a folder that is missing is named", "document.getElementById('folders').children.length === 0");
  await is("the buttons do not move when there are none", `${button} === ${opened}`);
  await page.press("Escape");

  // Pages of the list.
  await page.evaluate(startMore(path.join(server.work, "empty")));
  await page.reload();
  await page.wait("document.getElementById('more-threads').checkVisibility()");
  const listed = "[...document.querySelectorAll('#threads .folder .hint')].reduce((sum, e) => sum + Number(e.textContent), 0)";
  await is("the first page of the list has 50 threads, and the open one", `${listed} <= 51`);
  await page.click("#more-threads");
  await page.wait("!document.getElementById('more-threads').checkVisibility()");
  await is("the next page adds to the groups", `${listed} >= 59 && ${groups}.some((e) => e.querySelector('h2').textContent === 'shop8')`);
  report("folders", "no error of a script", page.errors);
  await page.close();
}
