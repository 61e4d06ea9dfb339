// The composer: completion of files, commands and skills, images by paste, drop and button, the history, the queue.

import path from "node:path";
import { writeFileSync } from "node:fs";

import { report, root, say, serve } from "./harness.mjs";
import { checkAccessible } from "./states.mjs";

/** A red pixel. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
const SKILL = "---\nname: prices\ndescription: How prices are written in this shop.\n---\nTwo decimals.\n";

/** A transfer with a picture and, if named, a text file. Runs in the page. */
const transfer = (name, other) => `(() => {
  const data = new DataTransfer();
  data.items.add(new File([Uint8Array.from(atob("${PNG}"), (c) => c.charCodeAt(0))], "${name}", { type: "image/png" }));
  ${other ? `data.items.add(new File(["text"], "${other}", { type: "text/plain" }));` : ""}
  return data;
})()`;

export async function checkComposer(browser) {
  const slow = { message: { text: "Slowly. ".repeat(40), chunk_chars: 8, chunk_delay_ms: 60 } };
  const server = await serve({
    name: "composer", responses: [{ steps: [say("One.")] }, { steps: [say("Two.")] }, { steps: [slow] }, { steps: [say("Four.")] }, { steps: [say("Five.")] }],
    files: { "src/price list.txt": "1", "src/prices.rs": "fn main() {}", "README.md": "x", "../home/skills/prices/SKILL.md": SKILL },
    options: ["approval_policy=\"never\""],
  });
  const page = await browser.page();
  await page.connect(server);
  await page.start();
  const is = async (name, expression) => {
    const holds = await page.evaluate(expression);
    report("composer", name, holds === true ? [] : [`${expression} is ${JSON.stringify(holds)}; notice: ${await page.evaluate("document.getElementById('notice-text').textContent")}`]);
  };
  const options = "[...document.querySelectorAll('#suggestions [role=option] .label')].map((e) => e.textContent)";

  await page.evaluate("message.focus()");
  await page.type("See @prices");
  await page.wait(`${options}.includes('src/prices.rs')`);
  await checkAccessible(page, "the files that can be completed");
  await is("the active option is named to screen readers",
    "document.getElementById(message.getAttribute('aria-activedescendant')).ariaSelected === 'true' && document.activeElement === message");
  await page.press("Escape");
  await is("Esc closes the list, and keeps the text", "suggestions.hidden && message.value === 'See @prices'");
  await page.type("x");
  await page.drawn();
  await is("a list that was closed stays so for its word", "suggestions.hidden");
  await page.evaluate("message.value = ''");
  await page.type("See @price list");
  await page.evaluate("message.value = ''; message.dispatchEvent(new Event('input'))");
  await page.type("See @pricelist");
  await page.wait(`${options}[0] === 'src/price list.txt'`);
  await page.press("Tab");
  await is("a path with a space is quoted", "message.value === 'See \"src/price list.txt\" ' && suggestions.hidden && document.activeElement === message");
  await page.type("and @src");
  await page.wait(`${options}.length > 1`);
  const second = await page.evaluate(`${options}[1]`);
  await page.press("ArrowDown");
  await page.press("Enter");
  await page.wait("suggestions.hidden");
  await is("Down and Enter take the second file, and send nothing", `message.value.includes(${JSON.stringify(second)}) && !document.querySelector('.userMessage')`);
  await page.evaluate("message.value = ''");
  await page.type("Use $pri");
  await page.wait(`${options}[0] === '$prices'`);
  await page.click("#suggestions li");
  await is("a click takes a skill", "message.value === 'Use $prices ' && document.activeElement === message");

  // Images, by each way.
  await page.evaluate(`message.dispatchEvent(new ClipboardEvent("paste", { clipboardData: ${transfer("pasted.png")}, bubbles: true, cancelable: true }))`);
  await page.wait("document.querySelectorAll('#images li').length === 1");
  await page.evaluate(`document.getElementById("stream").dispatchEvent(new DragEvent("dragover", { dataTransfer: ${transfer("x.png")}, bubbles: true, cancelable: true }))`);
  await is("the page shows that an image can be dropped", "document.querySelector('main').classList.contains('drop')");
  await page.evaluate(`document.getElementById("stream").dispatchEvent(new DragEvent("drop", { dataTransfer: ${transfer("dropped.png", "notes.txt")}, bubbles: true, cancelable: true }))`);
  await page.wait("document.querySelectorAll('#images li').length === 2");
  await is("what is no image is refused with the reason", "document.getElementById('notice-text').textContent.includes('notes.txt: only images can be added')");
  const file = path.join(root, "chosen.png");
  writeFileSync(file, Buffer.from(PNG, "base64"));
  const { result } = await page.command("Runtime.evaluate", { expression: "document.getElementById('image-file')" });
  await page.command("DOM.setFileInputFiles", { objectId: result.objectId, files: [file] });
  await page.wait("document.querySelectorAll('#images li').length === 3");
  await is("each image has its name", "[...document.querySelectorAll('#images img')].map((e) => e.alt).join() === 'pasted.png,dropped.png,chosen.png'");
  await checkAccessible(page, "a message with images");
  await page.click("#images li:nth-child(2) button");
  await page.wait("document.querySelectorAll('#images li').length === 2");
  await page.press("Enter");
  await page.wait("document.querySelector('.turn[data-status=completed]') && !send.disabled");
  await is("the message has its images, and the composer is empty",
    "document.querySelectorAll('.userMessage img').length === 2 && images.hidden && message.value === ''");
  await is("the skill goes with the message", "document.querySelector('.userMessage').textContent.includes('[skill: prices]')");

  // Commands.
  await page.type("/re");
  await page.wait(`${options}.some((label) => label.startsWith('/rename'))`);
  await checkAccessible(page, "the commands that can be completed");
  await page.evaluate("message.value = ''");
  await page.type("/rename Prices of the shop");
  await page.press("Enter");
  await page.wait("title.textContent === 'Prices of the shop'");
  await is("a command is not sent", "message.value === '' && document.querySelectorAll('.userMessage').length === 1");
  await page.type("/nonsense");
  await page.press("Enter");
  await is("an unknown command is not sent, and stays", "message.value === '/nonsense' && document.getElementById('notice-text').textContent.includes('Unknown command: /nonsense')");
  await page.evaluate("message.value = ''");
  await page.send("/usr/bin is full");
  await page.wait("document.querySelectorAll('.turn[data-status=completed]').length === 2 && !send.disabled");
  await is("a path is sent", "[...document.querySelectorAll('.userMessage')].at(-1).textContent.includes('/usr/bin is full')");

  // The history.
  await page.type("a draft");
  await page.press("ArrowUp");
  await is("Up within the text stays there", "message.value === 'a draft'");
  await page.evaluate("message.setSelectionRange(0, 0)");
  await page.press("ArrowUp");
  await is("Up at the beginning shows the last message", "message.value === '/usr/bin is full'");
  await page.press("ArrowUp");
  await is("Up again shows the one before", "message.value === 'Use $prices'");
  await page.press("ArrowDown");
  await page.press("ArrowDown");
  await is("Down comes back to the draft", "message.value === 'a draft'");
  await page.evaluate("message.value = ''");

  // A message with an image waits for the end of a turn.
  await page.send("Slowly.");
  await page.wait("!interrupt.hidden");
  await page.evaluate(`message.dispatchEvent(new ClipboardEvent("paste", { clipboardData: ${transfer("later.png")}, bubbles: true, cancelable: true }))`);
  await page.wait("document.querySelectorAll('#images li').length === 1");
  await page.type("Then this.");
  await page.press("Alt+Enter");
  await page.wait("document.querySelector('#queue li')?.textContent.includes('Then this. [1 image]')");
  await page.reload();
  await page.wait("document.querySelector('#queue li')?.textContent.includes('Then this. [1 image]')");
  await page.wait("[...document.querySelectorAll('.turn[data-status=completed] .agentMessage')].at(-1)?.textContent.includes('Four')");
  await is("what waited is sent with its image, also after a reload",
    "[...document.querySelectorAll('.userMessage')].at(-1).querySelectorAll('img').length === 1 && document.getElementById('queue-place').hidden");
  report("composer", "no error of a script", page.errors);
  await page.close();
}
