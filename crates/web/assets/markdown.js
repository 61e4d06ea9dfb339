// Markdown as elements: what models write, and no more. Text that is no Markdown stays what it is; HTML is text.

import { el } from "./dom.js";
import { highlighted, languageNamed } from "./highlight.js";

/** Deeper nesting of quotes and lists is shown flat. */
const DEEPEST = 8;
/** Longer blocks are shown as they are: they would be made anew with each piece of them that comes. */
const LONGEST_BLOCK = 50_000;

/** Shows a text that grows in an element: blocks that have not changed keep their elements. */
export class MarkdownView {
  element = el("div", { className: "markdown" });
  #sources = [];

  show(text) {
    const sources = split(text);
    let same = 0;
    while (same < sources.length && sources[same] === this.#sources[same]) same += 1;
    while (this.element.childNodes.length > same) this.element.lastChild.remove();
    for (const source of sources.slice(same)) this.element.append(block(source));
    this.#sources = sources;
  }
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])\s*(?:\1\s*){2,}$/;
const QUOTE = /^ {0,3}> ?/;
const MARKER = /^(\s*)([-*+]|\d{1,9}[.)])(\s+|$)/;
const TABLE_RULE = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** The top-level blocks of a text, each as its lines. */
function split(text) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks = [];
  for (let at = 0; at < lines.length; ) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const end = endOf(lines, at);
    blocks.push(lines.slice(at, end).join("\n"));
    at = end;
  }
  return blocks;
}

/** Where the block ends that begins at a line. */
function endOf(lines, at) {
  const fence = lines[at].match(FENCE);
  if (fence) {
    const closes = (line) => line.trim().startsWith(fence[1]) && !line.trim().slice(fence[1].length).replaceAll(fence[1][0], "");
    const end = lines.findIndex((line, index) => index > at && closes(line));
    return end < 0 ? lines.length : end + 1;
  }
  if (HEADING.test(lines[at]) || RULE.test(lines[at])) return at + 1;
  const goesOn = continuation(lines[at]);
  let end = at + 1;
  while (end < lines.length && goesOn(lines, end)) end += 1;
  return end;
}

/** Whether a line belongs to the block that a first line begins. */
function continuation(first) {
  if (QUOTE.test(first)) return (lines, at) => QUOTE.test(lines[at]);
  const marker = first.match(MARKER);
  if (!marker) return (lines, at) => lines[at].trim() && !beginsBlock(lines[at]);
  const isOrdered = /\d/.test(marker[2]);
  const isItem = (line) => {
    const next = line?.match(MARKER);
    return Boolean(next && /\d/.test(next[2]) === isOrdered);
  };
  const isIndented = (line) => /^\s{2,}\S/.test(line ?? "");
  return (lines, at) => {
    const line = lines[at];
    // A blank line belongs to the list when the list goes on behind it.
    if (!line.trim()) return isItem(lines[at + 1]) || isIndented(lines[at + 1]);
    return isItem(line) || isIndented(line) || (lines[at - 1].trim() && !beginsBlock(line));
  };
}

function beginsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || RULE.test(line) || MARKER.test(line);
}

function block(source, depth = 0) {
  const lines = source.split("\n");
  const fence = lines[0].match(FENCE);
  if (fence) return code(lines, fence);
  if (source.length > LONGEST_BLOCK) return el("p", { className: "plain" }, source);
  const heading = lines[0].match(HEADING);
  if (heading) {
    // Of one level, below those of the page: which ones a model uses, and in which order, is not to be relied on.
    return el("h3", { className: `level-${Math.min(3, heading[1].length)}` }, ...inline(heading[2]));
  }
  if (RULE.test(lines[0])) return el("hr");
  if (QUOTE.test(lines[0])) {
    const inner = lines.map((line) => line.replace(QUOTE, "")).join("\n");
    return el("blockquote", {}, ...nested(inner, depth));
  }
  if (MARKER.test(lines[0])) return list(lines, depth);
  if (lines.length > 1 && lines[0].includes("|") && TABLE_RULE.test(lines[1])) return table(lines);
  return el("p", {}, ...paragraph(lines));
}

function nested(text, depth) {
  return depth >= DEEPEST ? [el("p", {}, text)] : split(text).map((source) => block(source, depth + 1));
}

function paragraph(lines) {
  return lines.flatMap((line, at) => {
    const isBroken = at < lines.length - 1 && /(?: {2}|\\)$/.test(line);
    const text = line.trim().replace(/\\$/, isBroken ? "" : "\\");
    return [...inline(text), isBroken ? el("br") : at < lines.length - 1 ? "\n" : ""];
  });
}

function code(lines, fence) {
  const isClosed = lines.length > 1 && lines.at(-1).trim().startsWith(fence[1]);
  const text = lines.slice(1, isClosed ? -1 : undefined).join("\n");
  const copy = el("button", { type: "button", className: "copy" }, "Copy");
  copy.onclick = () => navigator.clipboard.writeText(text).then(
    () => { copy.textContent = "Copied"; },
    () => { copy.textContent = "Not allowed"; },
  );
  const label = fence[2] ? `Code, ${fence[2]}` : "Code";
  return el("figure", { className: "code" },
    el("figcaption", {}, el("span", {}, fence[2]), copy),
    el("pre", { tabIndex: 0, role: "group", "aria-label": label }, el("code", {}, ...highlighted(text, languageNamed(fence[2])))));
}

function list(lines, depth) {
  const first = lines[0].match(MARKER);
  const isOrdered = /\d/.test(first[2]);
  const items = [];
  for (const line of lines) {
    const marker = line.match(MARKER);
    const isSibling = marker && marker[1].length <= first[1].length;
    if (isSibling) items.push({ width: marker[0].length || 2, lines: [line.slice(marker[0].length)] });
    else items.at(-1).lines.push(line.slice(Math.min(items.at(-1).width, line.search(/\S|$/))));
  }
  const shown = items.map((item) => el("li", {}, ...listItem(item.lines, depth)));
  return el(isOrdered ? "ol" : "ul", isOrdered ? { start: parseInt(first[2], 10) } : {}, ...shown);
}

function listItem(lines, depth) {
  const task = lines[0].match(/^\[([ xX])\]\s+/);
  if (task) lines = [`${task[1] === " " ? "☐" : "☑"} ${lines[0].slice(task[0].length)}`, ...lines.slice(1)];
  const blocks = nested(lines.join("\n"), depth);
  // A single paragraph needs no space around it.
  if (blocks[0]?.localName === "p") return [...blocks[0].childNodes, ...blocks.slice(1)];
  return blocks;
}

function table(lines) {
  const cells = (line) => {
    const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
    return inner.split(/(?<!\\)\|/).map((cell) => inline(cell.trim().replaceAll("\\|", "|")));
  };
  const [head, , ...rows] = lines;
  const header = cells(head).map((cell) => el("th", { scope: "col" }, ...cell));
  const body = rows.map((row) => el("tr", {}, ...cells(row).slice(0, header.length).map((cell) => el("td", {}, ...cell))));
  return el("div", { className: "table", tabIndex: 0, role: "group", "aria-label": "Table" },
    el("table", {}, el("thead", {}, el("tr", {}, ...header)), el("tbody", {}, ...body)));
}

/** The alternatives of inline text, in order of precedence. */
const INLINE = new RegExp([
  /\\([!-/:-@[-`{-~])/.source, // 1: an escaped character
  /(`+)(?!`)([^]*?[^`])\2(?!`)/.source, // 2, 3: code
  /!?\[((?:[^[\]\\]|\\.|\[[^[\]]*\])*)\]\(\s*<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+"[^"]*")?\s*\)/.source, // 4, 5: a link
  /<((?:https?:\/\/|mailto:)[^\s<>]+)>/.source, // 6
  /(https?:\/\/[^\s<>()[\]"'`]*[^\s<>()[\]"'`.,:;!?*_])/.source, // 7
  /(\*\*|__)(?=\S)([^]*?\S)\8(?![\p{L}\p{N}_])/.source, // 8, 9: strong
  /(?<![\p{L}\p{N}_*])([*_])(?=[^\s*_])([^]*?[^\s*_])\10(?![\p{L}\p{N}_*])/.source, // 10, 11: emphasis
  /~~(?=\S)([^]*?\S)~~/.source, // 12: struck out
].join("|"), "gu");
/** Longer lines are shown as they are: patterns would take too long on them. */
const LONGEST_LINE = 5_000;

function inline(text, depth = 0) {
  if (text.length > LONGEST_LINE || depth > DEEPEST) return [text];
  const nodes = [];
  let last = 0;
  for (const match of text.matchAll(INLINE)) {
    nodes.push(text.slice(last, match.index), inlineNode(match, depth + 1));
    last = match.index + match[0].length;
  }
  nodes.push(text.slice(last));
  return nodes.filter((node) => node !== "");
}

function inlineNode(match, depth) {
  const [whole, escaped, , codeText, label, target, angled, bare, , strong, , emphasis, struck] = match;
  if (escaped !== undefined) return escaped;
  if (codeText !== undefined) return el("code", {}, codeText.replace(/^ (.*\S.*) $/, "$1"));
  if (label !== undefined) return link(target, inline(label, depth)) ?? whole;
  if (angled !== undefined) return link(angled, [angled]) ?? whole;
  if (bare !== undefined) return link(bare, [bare]) ?? whole;
  if (strong !== undefined) return el("strong", {}, ...inline(strong, depth));
  if (emphasis !== undefined) return el("em", {}, ...inline(emphasis, depth));
  return el("del", {}, ...inline(struck, depth));
}

const SCHEMES = ["http:", "https:", "mailto:"];

/** A link that opens outside of the page; its title is where it leads. Other schemes and paths are no links. */
function link(target, children) {
  if (!URL.canParse(target)) return null;
  const url = new URL(target);
  if (!SCHEMES.includes(url.protocol)) return null;
  return el("a", { href: url.href, title: url.href, target: "_blank", rel: "noopener noreferrer" }, ...children);
}
