// The way to a model: what a first start without a key shows, a key, a server at another address, the offline model.

import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import path from "node:path";

import { report, root, serve } from "./harness.mjs";
import { checkAccessible } from "./states.mjs";

const KEY = "sk-of-the-test-0123456789";

/** A server with one model, which answers any request. Returns what it was asked. */
function modelServer() {
  const asked = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    asked.push({ url: request.url, key: request.headers.authorization, model: body && JSON.parse(body).model });
    if (request.url.endsWith("/models")) {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ object: "list", data: [{ id: "house-large", object: "model" }] }));
      return;
    }
    const item = { type: "message", id: "m", role: "assistant", status: "completed", content: [{ type: "output_text", text: "From the house.", annotations: [] }] };
    const events = [{ type: "response.created", response: { id: "r" } }, { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response: { id: "r", status: "completed", output: [item], usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } } }];
    const limits = { "x-house-primary-used-percent": "42", "x-house-primary-window-minutes": "300", "x-house-secondary-used-percent": "7" };
    for (const [name, value] of Object.entries(limits)) response.setHeader(name, value);
    response.setHeader("content-type", "text/event-stream");
    response.end(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(""));
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve({ asked, server, url: `http://127.0.0.1:${server.address().port}/v1` })));
}

export async function checkSetup(browser) {
  const house = await modelServer();
  const server = await serve({ name: "setup" });
  const page = await browser.page();
  const is = async (name, expression) => {
    const holds = await page.evaluate(expression);
    report("setup", name, holds === true ? [] : [`${expression} is ${JSON.stringify(holds)}`]);
  };
  const way = (words) => page.evaluate(`[...document.querySelectorAll("#setup .way")].find((e) => e.textContent.includes(${JSON.stringify(words)})).click()`);

  await page.connect(server);
  await page.wait("document.getElementById('setup').open");
  await checkAccessible(page, "the first start without a key");
  await is("it says what is missing", "document.getElementById('setup').textContent.includes('no account and no API key for the provider “default”')");
  await is("the focus is on the first way", "document.activeElement.classList.contains('way')");
  await page.press("Escape");
  await page.wait("!document.getElementById('setup').open");
  await is("a line says it as long as there is none", "document.getElementById('no-provider').checkVisibility()");
  await checkAccessible(page, "no thread and no provider");
  await page.reload();
  await page.wait("document.getElementById('setup').open");

  // A server at another address.
  await way("another address");
  await page.wait("document.querySelector('#setup [type=url]')");
  await checkAccessible(page, "another address");
  await page.type("The house");
  await page.press("Tab");
  await page.type(house.url);
  await page.press("Tab");
  await page.type(KEY);
  await page.press("Enter");
  await page.wait("document.querySelector('#setup select')");
  await is("the models of the server can be chosen", "document.querySelector('#setup select').value === 'house-large'");
  await checkAccessible(page, "the models of another address");
  await page.press("Tab");
  await page.press("Enter");
  await page.wait("document.querySelector('#setup .way-start')");
  await page.press("Enter");
  await page.wait("document.getElementById('start-dialog').open && document.getElementById('no-provider').hidden");
  await page.press("Enter");
  await page.wait("!document.getElementById('composer').hidden && !send.disabled");
  await page.send("Hello.");
  await page.wait("document.querySelector('.agentMessage')?.textContent.includes('From the house.')");
  const last = house.asked.findLast(({ url }) => url.endsWith("/responses"));
  report("setup", "the model of the other address answers, with its key", last.model === "house-large" && last.key === `Bearer ${KEY}` ? [] : [JSON.stringify(house.asked)]);

  // A key for the hosted service.
  await page.evaluate("message.focus()");
  await page.send("/login");
  await page.wait("document.getElementById('setup').open");
  await way("API key");
  await page.wait("document.querySelector('#setup [type=password]')");
  await checkAccessible(page, "the field for a key");
  await page.type(KEY);
  await page.press("Enter");
  await page.wait("document.getElementById('setup').textContent.includes('provider “default”')");
  const stored = readFileSync(path.join(server.home, "credentials.json"), "utf8");
  report("setup", "the key is stored by the server", stored.includes(KEY) ? [] : [stored.slice(0, 20)]);
  await is("the page keeps no key", `!JSON.stringify([localStorage, sessionStorage]).includes("${KEY}") && !document.documentElement.outerHTML.includes("${KEY}")`);
  await page.press("Escape");
  await page.click("#settings-open");
  await page.click("#account-open");
  await page.wait("document.querySelector('#setup .account')");
  await checkAccessible(page, "the provider page with a key");
  await page.click("#setup .account button");
  await page.wait("!document.querySelector('#setup .account') && !document.getElementById('no-provider').hidden");
  await way("server's machine");
  await page.wait("document.getElementById('setup').textContent.includes('LM Studio')");
  await way("LM Studio");
  await page.wait("document.querySelector('#setup [role=alert]')?.textContent.includes('No model was found')");
  await page.evaluate("[...document.querySelectorAll('#setup button')].find((e) => e.textContent === 'Back').click()");
  await page.evaluate("[...document.querySelectorAll('#setup button')].find((e) => e.textContent === 'Back').click()");
  await is("a program that is not there changes nothing", "document.getElementById('setup').textContent.includes('provider “default”')");
  await way("offline");
  await page.wait("document.querySelector('#setup .way-start')");
  await is("the offline model needs nothing", "document.getElementById('no-provider').hidden && document.getElementById('setup').textContent.includes('“offline”')");
  report("setup", "no error of a script", page.errors);
  await page.close();
  await checkCost(browser, house);
  house.server.close();
}

/** Cost, where the model has a price, and the limits that the provider reports. */
async function checkCost(browser, house) {
  const catalog = path.join(root, "cost", "catalog.json");
  const priced = { models: [{ id: "house-large", context_window: 128_000, prices: { input: "1000", output: "8000" } }] };
  const config = `model_provider = "house"\nmodel = "house-large"\nmodel_catalog_json = ${JSON.stringify(catalog)}\n[model_providers.house]\nbase_url = "${house.url}"\n`;
  const server = await serve({ name: "cost", config, files: { "../catalog.json": JSON.stringify(priced) } });
  const page = await browser.page();
  const is = async (name, expression) => {
    const holds = await page.evaluate(expression);
    report("cost", name, holds === true ? [] : [`${expression} is ${JSON.stringify(holds)}; ${await page.evaluate("document.getElementById('status-line').textContent + document.querySelector('dialog[open]')?.textContent")}`]);
  };
  await page.connect(server);
  await page.start();
  await page.send("Hello.");
  await page.wait("document.querySelector('.turn[data-status=completed]') && !send.disabled");
  await is("the line below the message has the cost", "document.getElementById('status-line').textContent.includes('$0.009')");
  await page.reload();
  await page.wait("document.getElementById('status-line').textContent.includes('$0.009')");
  await page.evaluate("message.focus()");
  await page.send("/cost");
  await page.wait("document.querySelector('dialog[open] meter')");
  await is("the cost of the thread is shown", "document.querySelector('dialog[open] .facts').textContent.includes('Cost of the thread$0.009')");
  await is("the limits of the provider are shown", "document.querySelector('dialog[open]').textContent.includes('Per 5 hours: 42 % used') && document.querySelector('dialog[open] meter').value === 42");
  await checkAccessible(page, "cost and limits of an account");
  await page.press("Escape");
  await page.wait("!document.querySelector('dialog[open]') && document.activeElement.id === 'message'");
  report("cost", "no error of a script", page.errors);
  await page.close();
}
