// Colours of code: comments, strings, numbers, keywords and names of types. A small scanner for the common
// languages; code in others stays as it is. Every text stays text, with its hidden characters as numbers.

import { el } from "./dom.js";
import { exact } from "./text.js";

/** Longer texts and lines stay plain. */
const MOST_CHARACTERS = 100_000;
const LONGEST_LINE = 2_000;

const words = (text) => new Set(text.split(" "));
const C_LIKE = { line: "//", block: ["/*", "*/"], quotes: "\"'" };
const SHARED = "break case continue default do else for if return switch while true false null";
const JS = `${SHARED} as async await catch class const debugger delete enum export extends finally from function get implements import in instanceof interface let new of private protected public readonly set static super this throw try type typeof undefined var void yield`;

const LANGUAGES = {
  js: { ...C_LIKE, quotes: "\"'`", keywords: words(JS) },
  rust: { ...C_LIKE, quotes: "\"", keywords: words("as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while") },
  python: { line: "#", quotes: "\"'", triple: true, keywords: words("and as assert async await break class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return True try while with yield") },
  go: { ...C_LIKE, quotes: "\"'`", keywords: words(`${SHARED} chan const defer fallthrough func go goto import interface map nil package range select struct type var`) },
  c: { ...C_LIKE, keywords: words(`${SHARED} auto bool catch char class const constexpr delete double enum extern final float friend goto include define ifdef ifndef endif inline int long namespace new nullptr operator override private protected public short signed sizeof static struct template this throw try typedef typename union unsigned using virtual void volatile`) },
  java: { ...C_LIKE, keywords: words(`${SHARED} abstract assert boolean byte catch char class const double enum extends final finally float fun implements import instanceof int interface long new object override package private protected public record sealed short static super synchronized this throw throws transient try val var void volatile when`) },
  shell: { line: "#", quotes: "\"'", keywords: words("if then else elif fi for in do done while until case esac function return export local readonly set unset shift exit source alias cd echo test true false") },
  sql: { line: "--", block: ["/*", "*/"], quotes: "'\"", isCaseless: true, keywords: words("add all alter and as asc between by case check column constraint create cross database default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null on or order outer primary references returning right select set table then union unique update using values view when where with") },
  json: { quotes: "\"", keywords: words("true false null") },
  toml: { line: "#", quotes: "\"'", triple: true, keywords: words("true false") },
  yaml: { line: "#", quotes: "\"'", keywords: words("true false null yes no on off") },
  css: { block: ["/*", "*/"], quotes: "\"'", keywords: words("important media supports import keyframes layer container root hover focus not is where") },
  html: { block: ["<!--", "-->"], quotes: "\"'", keywords: words("") },
};

const NAMES = {
  js: "js javascript mjs cjs jsx ts typescript tsx mts cts", rust: "rust rs", python: "python py pyi", go: "go golang",
  c: "c h cc cpp cxx hpp hh c++ cs csharp swift m", java: "java kt kotlin scala groovy dart php",
  shell: "sh bash zsh shell console fish dockerfile makefile", sql: "sql", json: "json jsonl jsonc", toml: "toml ini cfg conf", yaml: "yaml yml",
  css: "css scss less", html: "html xml svg vue",
};
const BY_NAME = new Map(Object.entries(NAMES).flatMap(([language, names]) => names.split(" ").map((name) => [name, LANGUAGES[language]])));

/** The language by its name in Markdown; undefined where it has no colours. */
export function languageNamed(name) {
  return BY_NAME.get(name.toLowerCase());
}

/** The language of a file, by its name. */
export function languageOf(path) {
  const name = path.split("/").at(-1).toLowerCase();
  return BY_NAME.get(name.includes(".") ? name.split(".").at(-1) : name);
}

/** The nodes of a text in a language. */
export function highlighted(text, language) {
  if (!language || text.length > MOST_CHARACTERS) return exact(text);
  return scan(text, language, null).nodes;
}

/** As `highlighted`, for the lines of a text one after another; comments and strings go on from line to line. */
export class LineHighlighter {
  #language;
  #open = null;

  constructor(language) {
    this.#language = language;
  }

  line(text) {
    if (!this.#language || text.length > LONGEST_LINE) return exact(text);
    const { nodes, open } = scan(text, this.#language, this.#open);
    this.#open = open;
    return nodes;
  }
}

/** Goes through a text. `open`: what ends the comment or string that it begins in. Returns also what it ends in. */
function scan(text, language, open) {
  const nodes = [];
  let plain = 0;
  const add = (from, to, kind) => {
    if (plain < from) nodes.push(...exact(text.slice(plain, from)));
    nodes.push(el("span", { className: `hl-${kind}` }, ...exact(text.slice(from, to))));
    plain = to;
  };
  let at = 0;
  if (open) {
    at = endOf(text, 0, open.end, open.kind);
    add(0, at, open.kind);
    if (!text.slice(0, at).endsWith(open.end)) return { nodes, open };
    open = null;
  }
  while (at < text.length) {
    const [kind, to, goesOn] = tokenAt(text, at, language);
    if (kind) add(at, to, kind);
    if (goesOn) open = { kind, end: goesOn };
    at = to;
  }
  if (plain < text.length) nodes.push(...exact(text.slice(plain)));
  return { nodes, open };
}

const WORD = /[\p{L}_$][\p{L}\p{N}_$]*/uy;
const NUMBER = /(?:0[xob][\da-f_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:e[+-]?\d+)?)\w*/iy;
const SPACE = /[^\p{L}\p{N}_$"'`/#<*-]+/uy;

/** The token at a place: its kind, where it ends, and what ends it in a later line. */
function tokenAt(text, at, language) {
  const { line, block, quotes, triple, keywords, isCaseless } = language;
  if (block && text.startsWith(block[0], at)) {
    const end = endOf(text, at + block[0].length, block[1], "comment");
    return ["comment", end, text.slice(at + block[0].length, end).endsWith(block[1]) ? null : block[1]];
  }
  if (line && text.startsWith(line, at) && (line !== "#" || at === 0 || /\s/.test(text[at - 1]))) {
    const end = text.indexOf("\n", at);
    return ["comment", end < 0 ? text.length : end, null];
  }
  if (quotes.includes(text[at])) {
    const mark = triple && text.startsWith(text[at].repeat(3), at) ? text[at].repeat(3) : text[at];
    const end = endOf(text, at + mark.length, mark, "string");
    const isWhole = text.slice(at + mark.length, end).endsWith(mark);
    const isLong = mark.length > 1 || mark === "`";
    if (isWhole || isLong) return ["string", end, isWhole ? null : mark];
    // A quote that its line does not end is an apostrophe, or a lifetime.
    return [null, at + 1, null];
  }
  NUMBER.lastIndex = at;
  if (/\d/.test(text[at]) && NUMBER.test(text)) return ["number", NUMBER.lastIndex, null];
  WORD.lastIndex = at;
  if (WORD.test(text)) {
    const word = text.slice(at, WORD.lastIndex);
    if (keywords.has(isCaseless ? word.toLowerCase() : word)) return ["keyword", WORD.lastIndex, null];
    return [/^\p{Lu}\p{L}*\p{Ll}/u.test(word) ? "type" : null, WORD.lastIndex, null];
  }
  SPACE.lastIndex = at;
  return [null, SPACE.test(text) ? SPACE.lastIndex : at + 1, null];
}

/** Where a comment or a string ends; strings of one mark end with their line. */
function endOf(text, from, end, kind) {
  for (let at = from; at < text.length; at += 1) {
    if (kind === "string" && text[at] === "\\") at += 1;
    else if (text.startsWith(end, at)) return at + end.length;
    else if (kind === "string" && end.length === 1 && end !== "`" && text[at] === "\n") return at;
  }
  return text.length;
}
