// Colours of code: what is a comment, a string, a keyword; that no character is lost; and that all can be read.

import { patch, report, say, serve } from "./harness.mjs";
import { checkAccessible } from "./states.mjs";

/** Language, text, and the parts that have a colour. */
const SAMPLES = [
  ["rs", "fn main() { let s = \"a // b\"; } // end", ["keyword fn", "keyword let", "string \"a // b\"", "comment // end"]],
  ["rs", "fn longest<'a>(it: &'a Str) -> u8 { 0x1f }", ["keyword fn", "type Str", "number 0x1f"]],
  ["py", "def f():\n  \"\"\"two\n  lines\"\"\"\n  return None # it's", ["keyword def", "string \"\"\"two\n  lines\"\"\"", "keyword return", "keyword None", "comment # it's"]],
  ["ts", "const x = `a ${b}`; /* c\nd */ export { x };", ["keyword const", "string `a ${b}`", "comment /* c\nd */", "keyword export"]],
  ["sql", "SELECT 'it''s' FROM t -- all", ["keyword SELECT", "string 'it'", "string 's'", "keyword FROM", "comment -- all"]],
  ["toml", "a = \"b#c\" # d", ["string \"b#c\"", "comment # d"]],
  ["nonsense", "fn main() {}", []],
];

export async function checkCode(browser) {
  const added = "*** Begin Patch\n*** Add File: new.py\n+def price():\n+    \"\"\"Of a pear,\n+    in cents.\"\"\"\n+    return 250  # cents\n*** Update File: shop.rs\n@@\n-const PEAR: u32 = 25; // cents\n+const PEAR: u32 = 250; // cents\n*** End Patch\n";
  const answer = ["js", "sh", "json", "sql", "css", "html", "go", "yaml"].map((name) => `\`\`\`${name}\nif (a) return "b"; // 12 <c> # SELECT\n\`\`\`\n`).join("\n");
  const server = await serve({ name: "code", files: { "shop.rs": "/* Prices\n   of fruit */\nconst PEAR: u32 = 25; // cents\nfn main() { println!(\"{PEAR}\"); }\n" },
    responses: [{ steps: [patch(added)] }, { steps: [say(answer)] }], options: ["approval_policy=\"never\"", "sandbox_mode=\"workspace-write\""] });
  const page = await browser.page();
  await page.connect(server);
  for (const [name, text, wanted] of SAMPLES) {
    const found = await page.evaluate(`import("/highlight.js").then(({ highlighted, languageNamed }) => {
      const place = document.createElement("pre");
      place.append(...highlighted(${JSON.stringify(text)}, languageNamed(${JSON.stringify(name)})));
      return { text: place.textContent, parts: [...place.querySelectorAll("[class^=hl-]")].map((e) => e.className.slice(3) + " " + e.textContent) };
    })`);
    const problems = [];
    if (found.text !== text) problems.push(`the text became ${JSON.stringify(found.text)}`);
    if (JSON.stringify(found.parts) !== JSON.stringify(wanted)) problems.push(JSON.stringify(found.parts));
    report("code", `${name}: ${text.split("\n")[0]}`, problems);
  }
  await page.start();
  await page.send("Change it.");
  await page.wait("document.querySelector('.turn[data-status=completed] figure') && !send.disabled");
  const is = async (name, expression) => {
    const holds = await page.evaluate(expression);
    report("code", name, holds === true ? [] : [`${expression} is ${JSON.stringify(holds)}`]);
  };
  await is("changes have colours, also over several lines",
    "[...document.querySelectorAll('.added .hl-string')].map((e) => e.textContent).join('|') === '\"\"\"Of a pear,|    in cents.\"\"\"' && Boolean(document.querySelector('.removed .hl-comment'))");
  await checkAccessible(page, "code with colours");
  await page.click("#panel-toggle");
  await page.click("#tab-files");
  await page.wait("document.querySelectorAll('#pane-files .entry').length === 2");
  await page.click("#pane-files li:nth-child(2) .entry");
  await page.wait("document.querySelector('#pane-files .hl-comment')");
  await is("a file has colours", "document.querySelectorAll('#pane-files .hl-comment').length === 3");
  await checkAccessible(page, "a file with colours");
  report("code", "no error of a script", page.errors);
  await page.close();
}
