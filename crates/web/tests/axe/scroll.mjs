// A thread of 5,000 items: it opens, scrolls at the rate of the screen, and ends where it should.

import { call, report, say, serve } from "./harness.mjs";

const ITEMS = 5000;
const TURNS = 10;
const FRAME_MS = 1000 / 60;

/** Scrolls by a screen with each frame; returns the time of each frame. Runs in the page. */
const SCROLL = `(async () => {
  const stream = document.getElementById("stream");
  const frames = [];
  let last = await new Promise(requestAnimationFrame);
  for (let at = 0; at < 240; at += 1) {
    stream.scrollTop += (at < 120 ? -1 : 1) * stream.clientHeight * 0.8;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return frames;
})()`;

export async function checkScroll(browser) {
  const text = (at) => `Item ${at}: **bold**, \`code\` and a [link](https://example.com/${at}).\n\n${at % 7 ? "" : "```rust\nfn main() { println!(\"hello\"); }\n```\n"}`;
  const perTurn = ITEMS / TURNS;
  const messages = (turn) => Array.from({ length: perTurn }, (_, at) => say(text(turn * perTurn + at), { phase: at + 1 < perTurn ? "commentary" : "final_answer", chunk_chars: 100_000 }));
  const server = await serve({ name: "scroll", responses: Array.from({ length: TURNS }, (_, turn) => ({ steps: messages(turn) })), options: ["approval_policy=\"never\"", "model_context_window=100000000"] });
  const page = await browser.page();
  await page.connect(server);
  await page.start();
  for (let turn = 1; turn <= TURNS; turn += 1) {
    await page.send("Say it.");
    await page.wait(`document.querySelectorAll(".turn[data-status=completed]").length === ${turn} && !send.disabled`);
  }
  await page.reload();
  await page.wait(`document.querySelectorAll(".item").length >= ${ITEMS}`);
  await page.drawn();
  const is = async (name, expression) => {
    const holds = await page.evaluate(expression);
    report("scroll", name, holds === true ? [] : [`${expression} is ${JSON.stringify(holds)}`]);
  };
  await is("a long thread opens at its end", "stream.scrollHeight - stream.scrollTop - stream.clientHeight < 2");
  // Time of the processor, which other programs of the machine do not change, and what the screen shows.
  await page.command("Performance.enable", { timeDomain: "threadTicks" });
  const spent = async () => (await page.command("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value * 1000;
  const before = await spent();
  const frames = await page.evaluate(SCROLL);
  const work = (await spent() - before) / frames.length;
  const sorted = [...frames].sort((a, b) => a - b);
  const median = sorted[frames.length / 2];
  console.log(`      ${ITEMS} items: a frame takes ${work.toFixed(1)} ms of the processor; half of the frames came within ${median.toFixed(1)} ms, the slowest within ${sorted.at(-1).toFixed(1)} ms`);
  report("scroll", `${ITEMS} items scroll at the rate of the screen`, work < FRAME_MS / 2 && median < FRAME_MS * 1.2 ? [] : [`${work} ms of work, ${median} ms from frame to frame`]);
  await page.evaluate("document.querySelectorAll('.item')[2500].scrollIntoView()");
  await page.drawn();
  await is("an item in the middle is where it is looked for", "Math.abs(document.querySelectorAll('.item')[2500].getBoundingClientRect().top - stream.getBoundingClientRect().top) < 60");
  report("scroll", "no error of a script", page.errors);
  await page.close();
}
