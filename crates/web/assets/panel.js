// The panel beside the thread: the changes of a turn, running processes, agents, and files.

import { $, el, keepFocus } from "./dom.js";
import { agentRows, agentsOf } from "./agents.js";
import { filesOf, countsOf, linesOf } from "./diff.js";
import { changeCards } from "./items.js";
import { FilesTab } from "./files.js";
import { ProcessesTab } from "./processes.js";

const TABS = ["changes", "processes", "agents", "files"];

export class Panel {
  #view = null;
  #files;
  #processes;
  #openAgent;
  #cover;
  #shown = "changes";
  #frame = 0;
  /** What the shown changes were drawn from. */
  #drawnChanges = null;
  #drawnAgents = null;

  /** `cover()` is called when the panel has come over what is behind it, and when it has gone. */
  constructor(connection, openAgent, cover) {
    this.#openAgent = openAgent;
    this.#cover = cover;
    this.#files = new FilesTab(connection);
    this.#processes = new ProcessesTab(connection);
    for (const name of TABS) $(`tab-${name}`).addEventListener("click", () => this.#select(name));
    $("tabs").addEventListener("keydown", (event) => this.#move(event));
    $("panel-toggle").addEventListener("click", () => ($("panel").hidden ? this.show() : this.hide()));
    $("panel-close").addEventListener("click", () => this.hide());
    $("panel").addEventListener("keydown", (event) => event.key === "Escape" && this.hide());
  }

  show(name = this.#shown) {
    $("panel").hidden = false;
    $("panel-toggle").ariaExpanded = "true";
    this.#cover();
    this.#select(name);
    $(`tab-${this.#shown}`).focus();
  }

  /** Closes it; the focus goes back to what opened it. */
  hide() {
    if ($("panel").hidden) return;
    $("panel").hidden = true;
    $("panel-toggle").ariaExpanded = "false";
    this.#cover();
    $("panel-toggle").focus();
  }

  open(view) {
    this.#view = view;
    this.#drawnChanges = null;
    this.#files.open(view);
    this.#processes.open(view);
    this.update();
  }

  /** Draws what is shown with the next frame, however often the thread changes until then. */
  update() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #select(name) {
    this.#shown = name;
    for (const other of TABS) {
      const isShown = other === name;
      $(`tab-${other}`).ariaSelected = String(isShown);
      $(`tab-${other}`).tabIndex = isShown ? 0 : -1;
      $(`pane-${other}`).hidden = !isShown;
    }
    this.update();
    if (name === "files") this.#files.refresh();
  }

  /** Arrow keys, Home and End move among the tabs. */
  #move(event) {
    const at = TABS.indexOf(this.#shown);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.#select(TABS.at(next % TABS.length));
    $(`tab-${this.#shown}`).focus();
  }

  #draw() {
    const running = this.#processes.count();
    $("tab-processes").textContent = running ? `Processes (${running})` : "Processes";
    const agents = this.#view ? agentsOf(this.#view.items.values()) : [];
    $("tab-agents").textContent = agents.length ? `Agents (${agents.length})` : "Agents";
    $("panel-toggle").dataset.count = running ? String(running) : "";
    if ($("panel").hidden) return;
    if (this.#shown === "changes") this.#drawChanges();
    if (this.#shown === "processes") this.#processes.draw();
    if (this.#shown === "agents") {
      this.#drawAgents(agents);
    }
  }

  /** Drawn only when something has changed: a click must meet the button that it began on. */
  #drawAgents(agents) {
    const key = JSON.stringify(agents);
    if (key === this.#drawnAgents) return;
    this.#drawnAgents = key;
    const rows = agentRows(agents, this.#openAgent) ?? empty("This thread has not started any agents.");
    keepFocus($("pane-agents"), () => $("pane-agents").replaceChildren(rows));
  }

  /** The whole diff of the newest turn that has one: as the server computes it, or from its items. */
  #drawChanges() {
    const { drawn, changes } = this.#view ? changesOf(this.#view) : { drawn: [], changes: () => [] };
    const isSame = drawn.length === this.#drawnChanges?.length && drawn.every((one, at) => one === this.#drawnChanges[at]);
    if (isSame) return;
    this.#drawnChanges = drawn;
    keepFocus($("pane-changes"), () => this.#showChanges(changes()));
  }

  #showChanges(changes) {
    if (!changes.length) {
      $("pane-changes").replaceChildren(empty("The latest turn changed no files."));
      return;
    }
    const counts = changes.map(({ kind, diff }) => countsOf(linesOf(kind.type ?? kind, diff)));
    const total = (name) => counts.reduce((sum, count) => sum + count[name], 0);
    const summary = el("p", { className: "hint" },
      `${changes.length} ${changes.length === 1 ? "file" : "files"}, +${total("added")} −${total("removed")} in the latest turn`);
    $("pane-changes").replaceChildren(summary, ...changeCards(changes, this.#view.folder));
  }
}

/** The changes of the newest turn, and what they were drawn from: only where that differs they do. */
function changesOf(view) {
  const diff = view.diffs.get(view.newest);
  if (diff) return { drawn: [diff], changes: () => filesOf(diff) };
  const ofTurn = [...view.items.values()].filter((shown) => shown.turnId === view.newest);
  const items = ofTurn.map(({ item }) => item).filter((item) => item?.type === "fileChange" && item.status === "completed");
  return { drawn: items, changes: () => items.flatMap((item) => item.changes) };
}

function empty(words) {
  return el("p", { className: "empty" }, words);
}
