// Unified diffs as tables of lines: the numbers before and after, a mark, and the text.

import { el } from "./dom.js";
import { LineHighlighter } from "./highlight.js";
import { exact } from "./text.js";

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)/;
/** More lines are shown only when they are asked for, and so many at a time. */
export const MOST_LINES = 600;
const LINES_A_TIME = 5000;

/** The files of a unified diff of a whole turn. */
export function filesOf(diff) {
  const files = [];
  for (const line of diff.split("\n")) {
    if (line.startsWith("diff --git ") || (line.startsWith("--- ") && !files.at(-1)?.isOpen)) {
      files.push({ path: "", kind: "update", lines: [], isOpen: line.startsWith("diff ") });
    }
    const file = files.at(-1);
    if (!file) continue;
    if (file.lines.length === 0 && !HUNK.test(line)) readHead(file, line);
    else file.lines.push(line);
    if (HUNK.test(line)) file.isOpen = false;
  }
  return files.map(({ path, kind, lines }) => ({ path, kind, diff: lines.join("\n") }));
}

function readHead(file, line) {
  const named = (prefix) => line.slice(prefix.length).replace(/^"|"$/g, "").replace(/\t.*$/, "").replace(/^[ab]\//, "");
  if (line.startsWith("--- ")) {
    if (line === "--- /dev/null") file.kind = "add";
    else file.path ||= named("--- ");
  } else if (line.startsWith("+++ ")) {
    if (line === "+++ /dev/null") file.kind = "delete";
    else file.path = named("+++ ");
  } else if (line.startsWith("diff --git ")) {
    file.path = line.match(/ b\/(.*)$/)?.[1] ?? "";
  } else if (line.startsWith("new file")) file.kind = "add";
  else if (line.startsWith("deleted file")) file.kind = "delete";
  else if (line.startsWith("rename to ")) file.path = line.slice("rename to ".length);
}

/** The lines of a change. The diff of an added or a deleted file may be its contents. */
export function linesOf(kind, diff) {
  const text = diff.split("\n");
  if (text.at(-1) === "") text.pop();
  const isUnified = kind === "update" || text.some((line) => HUNK.test(line));
  if (!isUnified) {
    const isAdded = kind === "add";
    return text.map((line, at) => ({
      mark: isAdded ? "+" : "-", before: isAdded ? null : at + 1, after: isAdded ? at + 1 : null, text: line,
    }));
  }
  let [before, after] = [1, 1];
  return text.flatMap((line) => {
    const hunk = line.match(HUNK);
    if (hunk) {
      [before, after] = [Number(hunk[1]), Number(hunk[2])];
      return { mark: "@", before: null, after: null, text: hunk[3].trim() };
    }
    const rest = line.slice(1);
    if (line[0] === "+") return { mark: "+", before: null, after: after++, text: rest };
    if (line[0] === "-") return { mark: "-", before: before++, after: null, text: rest };
    if (line[0] === "\\") return { mark: "\\", before: null, after: null, text: line.slice(2) };
    if (line.startsWith("--- ") || line.startsWith("+++ ")) return [];
    return { mark: " ", before: before++, after: after++, text: rest };
  });
}

export function countsOf(lines) {
  const count = (mark) => lines.filter((line) => line.mark === mark).length;
  return { added: count("+"), removed: count("-") };
}

const KINDS = { "+": "added", "-": "removed", "@": "place", "\\": "place" };

/** The lines as a table that scrolls sideways. `language`: that of the file, if it has colours. */
export function diffTable(lines, label, language) {
  // What is removed and what is there go on in their own lines.
  const [before, after] = [new LineHighlighter(language), new LineHighlighter(language)];
  const row = (line) => lineRow(line, line.mark === "-" ? before : after);
  const body = el("tbody", {}, ...lines.slice(0, MOST_LINES).map(row));
  const table = el("table", {}, body);
  const region = el("div", { className: "diff", tabIndex: 0, role: "group", "aria-label": label }, table);
  if (lines.length <= MOST_LINES) return region;
  const more = el("button", { type: "button", className: "more" });
  const count = () => {
    const left = lines.length - body.rows.length;
    more.textContent = left <= LINES_A_TIME ? `Show all ${lines.length} lines` : `Show ${LINES_A_TIME} more of ${lines.length} lines`;
    more.hidden = !left;
  };
  more.onclick = () => {
    const shown = body.rows.length;
    body.append(...lines.slice(shown, shown + LINES_A_TIME).map(row));
    count();
    if (more.hidden) region.focus();
  };
  count();
  return el("div", {}, region, more);
}

function lineRow({ mark, before, after, text }, colours) {
  const isCode = mark !== "@" && mark !== "\\";
  const shown = isCode ? colours.line(text) : [mark === "@" && "⋯ ", ...exact(text)];
  return el("tr", { className: KINDS[mark] ?? "" },
    el("td", { className: "number" }, String(before ?? "")),
    el("td", { className: "number" }, String(after ?? "")),
    el("td", { className: "mark" }, mark === "@" ? "" : mark),
    el("td", { className: "line" }, ...shown));
}
