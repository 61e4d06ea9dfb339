// Text as it is shown: hidden characters as numbers, output of terminals without its controls.

import { el } from "./dom.js";

/** Characters that show nothing, or that hide, move or reverse others; kept are new lines and tabs. */
const HIDDEN =
  /(?![\n\t ])[\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}\p{DI}\p{Cs}\u2800\u{13441}\u{13442}\u{16fe4}\u{1d159}]/gu;

/** A text in which every hidden character is its number, marked so that it cannot be taken for text. */
export function exact(text) {
  const nodes = [];
  let last = 0;
  for (const { 0: hidden, index } of text.matchAll(HIDDEN)) {
    nodes.push(text.slice(last, index), el("span", { className: "hidden-char" }, numberOf(hidden)));
    last = index + hidden.length;
  }
  nodes.push(text.slice(last));
  return nodes;
}

/** As `exact`, as a string on one line: for names and labels. */
export function visible(text) {
  return text.replace(HIDDEN, numberOf).replace(/[\n\t]/g, numberOf);
}

function numberOf(hidden) {
  return `\\u{${hidden.codePointAt(0).toString(16)}}`;
}

/** A path below the folder, without it. */
export function within(folder, path) {
  return visible(folder && path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : path);
}

/** Sequences that move the cursor, set colours or titles. */
const SEQUENCES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])/g;
const OTHER_CONTROLS = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g;

/** The output of a command as lines: without sequences for terminals, and with lines that were written over. */
export function output(text) {
  const plain = text.replace(SEQUENCES, "").replace(/\r+\n/g, "\n");
  const written = plain.includes("\r") ? plain.split("\n").map(overwritten).join("\n") : plain;
  return written.replace(OTHER_CONTROLS, "");
}

/** What is left of a line after its carriage returns: progress bars show only their last state. */
function overwritten(line) {
  let shown = "";
  for (const part of line.split("\r")) shown = part + shown.slice(part.length);
  return shown;
}

/** The end of a long text, and how many characters were left out before it. */
export function tail(text, most) {
  if (text.length <= most) return { text, left: 0 };
  const cut = text.indexOf("\n", text.length - most) + 1 || text.length - most;
  return { text: text.slice(cut), left: cut };
}

export function duration(ms) {
  if (ms < 1000) return `${ms} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

const AGES = [[60, "minute", 60], [3600, "hour", 3600], [86_400, "day", 86_400]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** How long ago a time in seconds since 1970 was. */
export function age(seconds, now = Date.now() / 1000) {
  const passed = now - seconds;
  const fitting = AGES.filter(([least]) => passed >= least).at(-1);
  if (!fitting) return "just now";
  const [, unit, length] = fitting;
  if (unit === "day" && passed > 30 * 86_400) return new Date(seconds * 1000).toISOString().slice(0, 10);
  return relative.format(-Math.floor(passed / length), unit);
}
