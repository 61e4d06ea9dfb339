// The last part of a first day: a thread that was begun at the terminal goes on in the browser. Its first part, at the
// terminal alone, is a test of the command line.

import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

import { patch, report, say, serve } from "./harness.mjs";
import { checkAccessible } from "./states.mjs";

const update = (from, to) => ({ steps: [patch(`*** Begin Patch\n*** Update File: value.txt\n@@\n-${from}\n+${to}\n*** End Patch\n`)] });
const OPTIONS = ["approval_policy=\"never\"", "sandbox_mode=\"workspace-write\""];

/** Runs the terminal program on a terminal of its own: says `words`, waits for `answer`, and leaves. */
async function atTheTerminal({ home, work, script }, words, answer) {
  const options = ["model_provider=\"offline\"", `model=${JSON.stringify(script)}`, ...OPTIONS].map((option) => `-c '${option}'`);
  const command = `stty rows 40 cols 120 && exec "$AGENTD" ${options.join(" ")}`;
  const child = spawn("script", ["-qfec", command, "/dev/null"], {
    cwd: work, env: { PATH: process.env.PATH, HOME: path.dirname(home), AGENT_HOME: home, AGENTD: process.env.AGENTD, TERM: "xterm-256color", SHELL: "/bin/sh" },
  });
  let screen = "";
  let changed = () => {};
  child.stdout.on("data", (data) => { screen += data; changed(); });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const shows = async (text) => {
    while (!screen.includes(text)) {
      const more = new Promise((resolve) => { changed = resolve; });
      const timer = new Promise((_, reject) => setTimeout(() => reject(new Error(`the terminal never shows ${text}: ${screen.slice(-2000)}`)), 60_000).unref());
      await Promise.race([more, timer]);
    }
  };
  await shows("Describe a task, or / for commands");
  // Pasted: keys that come all at once count as a paste, in which Enter is a new line.
  const send = async (text) => {
    child.stdin.write(`\x1b[200~${text}\x1b[201~`);
    await shows(text);
    child.stdin.write("\r");
  };
  await send(words);
  await shows(answer);
  await send("/exit");
  const code = await ended;
  if (code !== 0) throw new Error(`the terminal program ended with ${code}: ${screen.slice(-2000)}`);
}

export async function checkFirstDay(browser) {
  const [atFirst, later] = [[update("broken", "mended"), { steps: [say("The value is mended.")] }], [update("mended", "polished"), { steps: [say("It shines.")] }]];
  const name = "first-day";
  // The model of the thread is a script, from which each server answers anew.
  const server = await serve({ name, responses: atFirst, files: { "value.txt": "broken\n" }, options: OPTIONS });
  const script = path.join(path.dirname(server.home), "script.json");
  await atTheTerminal({ ...server, script }, "repair value.txt", "The value is mended.");
  writeFileSync(script, JSON.stringify({ responses: later }));
  const value = () => readFileSync(path.join(server.work, "value.txt"), "utf8").trim();
  report(name, "the terminal's turn changed the file", value() === "mended" ? [] : [value()]);

  const page = await browser.page();
  await page.connect(server);
  const is = async (what, expression) => {
    const holds = await page.evaluate(expression);
    report(name, what, holds === true ? [] : [`${expression} is ${JSON.stringify(holds)}`]);
  };
  await page.click("#threads li button, #threads li a");
  await page.wait("document.querySelector('.turn[data-status=completed]') && !send.disabled");
  await is("the browser shows what was said at the terminal", "document.body.innerText.includes('repair value.txt') && document.body.innerText.includes('The value is mended.')");
  await is("the change is there", "document.querySelector('.turn').innerText.includes('value.txt')");
  await checkAccessible(page, "a thread of the terminal");
  await page.send("polish it");
  await page.wait("document.querySelectorAll('.turn[data-status=completed]').length === 2");
  report(name, "the browser's turn changed the file", value() === "polished" ? [] : [value()]);
  await page.screenshot("first-day");
  report(name, "no error of a script", page.errors);
  await page.close();
}
