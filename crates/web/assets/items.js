// What the items of a turn look like: a note, or a function of its own for each type that needs more.

import { el, icon, keepFocus } from "./dom.js";
import { agentRows } from "./agents.js";
import { MOST_LINES, countsOf, diffTable, linesOf } from "./diff.js";
import { AGENT_TOOLS, NOTES } from "./facts.js";
import { languageOf } from "./highlight.js";
import { MarkdownView } from "./markdown.js";
import { duration, exact, output, tail, visible, within } from "./text.js";

/** The most characters of an output that are shown; the rest stays with the server. */
const MOST_OUTPUT = 100_000;
/** The most lines of all files of a change that are drawn at once; further files are drawn when they are opened. */
const MOST_CHANGED_LINES = 2000;
/** A growing text is drawn with each frame, a long one less often: once in a second per million characters. */
const CHARACTERS_A_MS = 1000;

/**
 * The element of one item. `context`: `folder`, the thread's; `openAgent(id)`, which shows an agent's thread;
 * `image(path)`, which reads an image of the server's machine.
 */
export class ItemView {
  element = el("li");
  item = null;
  #context;
  #grow = null;
  #frame = 0;
  #timer;

  constructor(context) {
    this.#context = context;
  }

  /** Shows the item as it is now; `item/completed` has the last word. */
  show(item, done) {
    clearTimeout(this.#timer);
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#timer = undefined;
    this.item = item;
    const look = LOOKS[item.type] ?? noted;
    const { nodes, grow } = look(item, this.#context);
    this.#grow = grow ?? null;
    this.#replace(nodes.filter(Boolean));
    this.element.className = `item ${item.type}`;
    this.element.dataset.item = item.id;
    if (item.type === "agentMessage" && item.phase === "commentary") this.element.classList.add("commentary");
    this.element.dataset.status = item.status ?? "";
    // Screen readers wait for the whole of what is still growing.
    this.element.ariaBusy = String(!done);
  }

  /** What was opened or closed by hand stays so, and the focus where it was. */
  #replace(nodes) {
    const before = [...this.element.querySelectorAll("details")];
    keepFocus(this.element, () => this.element.replaceChildren(...nodes));
    for (const [at, details] of [...this.element.querySelectorAll("details")].entries()) {
      details.dataset.opened = String(details.open);
      const was = before[at];
      if (was && String(was.open) !== was.dataset.opened) details.open = was.open;
    }
  }

  /** Adds to what the item says; it is drawn with one of the next frames, however many pieces come until then. */
  append(delta) {
    if (!this.#grow) return;
    this.#grow.text += delta;
    this.#timer ??= setTimeout(() => {
      this.#frame = requestAnimationFrame(() => {
        this.#timer = undefined;
        this.#grow?.draw();
      });
    }, Math.floor(this.#grow.text.length / CHARACTERS_A_MS));
  }

  /** A command that waited for its approval runs. */
  runs() {
    if (this.item?.awaitsApproval) this.show({ ...this.item, awaitsApproval: false }, false);
  }

  /** A new section of a text begins. */
  separate() {
    if (this.#grow?.text) this.append("\n\n");
  }

  /** What a command has written so far. */
  get text() {
    return this.#grow?.text ?? "";
  }
}

/** For each type its nodes and, while it can grow, the text with what draws it. */
const LOOKS = {
  userMessage: (item) => ({ nodes: [el("span", { className: "unseen" }, "You: "), ...item.content.map(inputPart)] }),
  hookPrompt: (item) => ({ nodes: [noteOf(item, item.fragments.map((fragment) => fragment.text).join("\n"))] }),
  agentMessage: (item) => brokenOff(item, markdown(item.text)),
  plan: (item) => brokenOff(item, markdown(item.text, el("h3", {}, "Proposed plan"))),
  reasoning: (item) => {
    const { nodes, grow } = markdown(item.summary.join("\n\n"));
    return { nodes: [el("details", { open: !item.summary.length }, el("summary", {}, "Reasoning"), ...nodes)], grow };
  },
  commandExecution,
  fileChange: (item, { folder }) => ({ nodes: changeCards(item.changes, folder, item) }),
  mcpToolCall: (item) => ({ nodes: [toolCall(`${item.server} · ${item.tool}`, item, mcpResult(item))] }),
  dynamicToolCall: (item) => ({
    nodes: [toolCall(item.tool, item, (item.contentItems ?? []).map((part) => part.text ?? part.imageUrl ?? ""))],
  }),
  collabToolCall: (item, { openAgent }) => ({ nodes: [collabCall(item, openAgent)] }),
  imageView: (item, context) => ({ nodes: [noteOf(item, within(context.folder, item.path)), context.image(item.path)] }),
  imageGeneration: (item, context) => ({
    nodes: [noteOf(item), item.savedPath ? context.image(item.savedPath) : null],
  }),
  exitedReviewMode: (item) => markdown(item.review, el("h3", {}, "Review")),
};

function noted(item) {
  return { nodes: [noteOf(item)] };
}

/** A note about an item: the title of its type, and a text, which is one of its members if there is no other. */
function noteOf(item, text = item[NOTES[item.type]?.member] ?? "") {
  const unknown = `An item of an unknown type (${visible(item.type)})`;
  return note(NOTES[item.type]?.title ?? unknown, text);
}

function note(title, text) {
  return el("p", { className: "note" }, el("strong", {}, title), text && `: ${text}`);
}

/** What the model was writing when its answer broke off. Where the turn goes on, the model was asked again. */
function brokenOff(item, { nodes, grow }) {
  return { nodes: item.reason ? [...nodes, note("Broken off", item.reason)] : nodes, grow };
}

function inputPart(part) {
  if (part.type === "text") return el("span", {}, part.text);
  if (part.type === "image" && part.url.startsWith("data:image/")) return el("img", { src: part.url, alt: "Your image", loading: "lazy" });
  return el("span", { className: "hint" }, `[${part.type}: ${part.name ?? part.path ?? part.url}]`);
}

function markdown(text, ...before) {
  const view = new MarkdownView();
  view.show(text);
  const grow = { text, draw: () => view.show(grow.text) };
  return { nodes: [...before, view.element], grow };
}

function commandExecution(item, { folder }) {
  const shown = el("pre", { tabIndex: 0, role: "group", "aria-label": "Output" });
  const left = el("p", { className: "hint left-out", hidden: true });
  const grow = { text: item.aggregatedOutput ?? "", draw: () => drawOutput(shown, left, grow.text) };
  grow.draw();
  const command = el("div", { className: "head" },
    el("code", {}, el("span", { className: "prompt", "aria-hidden": "true" }, "$ "), ...exact(item.command)), badge(item));
  const place = item.cwd && item.cwd !== folder ? el("p", { className: "hint place" }, `in ${within(folder, item.cwd)}`) : null;
  return { nodes: [command, place, left, shown], grow };
}

/** Shows the end of an output, and stays there if it was there. */
export function drawOutput(shown, left, raw) {
  const isAtEnd = shown.scrollHeight - shown.scrollTop - shown.clientHeight < 24;
  const end = tail(raw, MOST_OUTPUT);
  shown.textContent = output(end.text).replace(/\n$/, "");
  shown.hidden = !shown.textContent;
  left.hidden = !end.left;
  left.textContent = `${end.left.toLocaleString("en")} earlier characters are not shown.`;
  if (isAtEnd) shown.scrollTop = shown.scrollHeight;
}

const CHANGES = { add: "added", delete: "deleted", update: "changed" };

/** Changes of files, as an item shows them and the panel of the whole turn. */
export function changeCards(changes, folder, item) {
  let room = MOST_CHANGED_LINES;
  return changes.map((change) => {
    const lines = linesOf(change.kind.type ?? change.kind, change.diff);
    const isDrawn = room > 0;
    room -= Math.min(lines.length, MOST_LINES);
    return changeCard(change, lines, isDrawn, folder, item);
  });
}

function changeCard({ path, kind }, lines, isDrawn, folder, item) {
  const type = kind.type ?? kind;
  const { added, removed } = countsOf(lines);
  const moved = kind.move_path ? ` → ${within(folder, kind.move_path)}` : "";
  const name = within(folder, path) + moved;
  return el("div", { role: "group", className: "change", "aria-label": `${name}, ${CHANGES[type] ?? type}` },
    el("div", { className: "head" },
      el("code", {}, name),
      el("span", { className: "counts" },
        el("span", { className: "added" }, `+${added}`), " ", el("span", { className: "removed" }, `−${removed}`)),
      item ? badge(item, CHANGES[type] ?? type) : el("span", { className: "badge" }, CHANGES[type] ?? type)),
    isDrawn ? changedLines(lines, name, path) : whenOpened("Show its lines", () => changedLines(lines, name, path)));
}

function changedLines(lines, name, path) {
  return lines.length ? diffTable(lines, `Changes of ${name}`, languageOf(path)) : el("p", { className: "hint place" }, "No lines.");
}

/** What is made when it is opened for the first time. */
function whenOpened(words, make) {
  const details = el("details", {}, el("summary", { className: "place" }, words));
  details.addEventListener("toggle", () => details.append(make()), { once: true });
  return details;
}

function toolCall(name, item, results) {
  const parameters = JSON.stringify(item.arguments ?? {}, null, 2);
  const result = results.filter(Boolean).join("\n");
  const end = tail(result, MOST_OUTPUT).text;
  return el("details", { className: "call" },
    el("summary", { className: "head" }, el("code", {}, visible(name)), badge(item)),
    el("pre", { tabIndex: 0, role: "group", "aria-label": "Arguments" }, ...exact(parameters)),
    end && el("pre", { tabIndex: 0, role: "group", "aria-label": "Result" }, end));
}

function mcpResult({ result, error }) {
  if (error) return [error.message];
  return (result?.content ?? []).map((part) => part.text ?? `[${part.type}]`);
}

function collabCall(item, openAgent) {
  const title = AGENT_TOOLS[item.tool] ?? visible(item.tool);
  return el("div", { role: "group", className: "call", "aria-label": title },
    el("div", { className: "head" }, el("span", { className: "grow" }, title), badge(item)),
    item.prompt && el("p", { className: "prompt-text" }, item.prompt),
    agentRows(Object.entries(item.agentsStates), openAgent));
}

const STATUS = { inProgress: "running", completed: "done", failed: "failed", declined: "declined" };
const STATUS_ICONS = { inProgress: "spin", completed: "check", failed: "cross", declined: "cross" };

export function badge({ status, awaitsApproval, exitCode, durationMs }, ...parts) {
  if (awaitsApproval) return el("span", { className: "badge" }, ["waiting for approval", ...parts].join(" · "));
  parts.push(STATUS[status] ?? visible(String(status)));
  if (exitCode) parts.push(`exit code ${exitCode}`);
  if (durationMs >= 1000) parts.push(duration(durationMs));
  return el("span", { className: "badge" }, STATUS_ICONS[status] && icon(STATUS_ICONS[status]), parts.join(" · "));
}
