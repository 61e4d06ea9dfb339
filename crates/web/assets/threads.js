// The list of threads, grouped by folder: search, archive, and which one is open.

import { $, button, el, icon, keepFocus, run, store, storedList } from "./dom.js";
import { Found } from "./found.js";
import { age, visible } from "./text.js";

const THREADS_A_PAGE = 50;
const SEARCH_MS = 250;
/** So many threads of a folder are shown until all are asked for. */
const THREADS_A_FOLDER = 6;
const CLOSED = "agentd.closed-folders";

export class ThreadList {
  #threads = new Map();
  #cursor = null;
  #connection;
  #onOpen;
  #onChange;
  #current = null;
  /** The folders of which all threads are shown. */
  #whole = new Set();
  #request = 0;
  #timer;
  #found;

  /** `onOpen(id, hit)` opens a thread, at the place of a hit; `onChange()` is called when the list has changed. */
  constructor(connection, onOpen, onChange) {
    this.#connection = connection;
    this.#onOpen = onOpen;
    this.#onChange = onChange;
    this.#found = new Found(connection, { params: filters, open: onOpen, name: nameOf, onChange: () => this.#showEmpty() });
    $("search").addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#search(), SEARCH_MS);
    });
    $("archived").addEventListener("change", () => this.#search());
    $("more-threads").addEventListener("click", () => this.#load(this.#cursor));
  }

  /** Reads the first page again. */
  reload() {
    return this.#load(null);
  }

  #search() {
    this.reload();
    run("The search", this.#found.search($("search").value.trim()));
  }

  #load(cursor) {
    return run("The list of threads", this.#page(cursor));
  }

  async #page(cursor) {
    const request = ++this.#request;
    const page = await this.#connection.call("thread/list", {
      ...filters(), cursor, limit: THREADS_A_PAGE, searchTerm: $("search").value.trim() || null,
    });
    if (request !== this.#request) return; // a later search has begun
    if (!cursor) this.#threads.clear();
    this.#cursor = page.nextCursor;
    for (const thread of page.data) this.#threads.set(thread.id, thread);
    // The server lists a thread from its first turn on; the open one is there before.
    if (this.#current && !this.#current.preview) this.put(this.#current);
    this.#show();
  }

  get(id) {
    return this.#threads.get(id);
  }

  /** A thread that the server tells of, or that was just opened. */
  put(thread) {
    const isFiltered = $("search").value.trim() || $("archived").checked;
    const isAgent = typeof thread.source === "object" && "subAgent" in thread.source;
    if (!this.#threads.has(thread.id) && (isFiltered || isAgent || thread.ephemeral)) return;
    this.#threads.set(thread.id, thread);
    this.#show();
  }

  patch(id, change) {
    if (this.#threads.has(id)) this.put({ ...this.#threads.get(id), ...change });
  }

  remove(id) {
    if (this.#threads.delete(id)) this.#show();
  }

  /** Marks the open thread; null without one. */
  select(thread) {
    this.#current = thread;
    this.#show();
  }

  #show() {
    const { activeElement } = document;
    const focused = $("threads").contains(activeElement) ? activeElement.dataset.thread : null;
    const later = (a, b) => b.updatedAt - a.updatedAt || (a.id < b.id ? 1 : -1);
    const groups = Map.groupBy([...this.#threads.values()].sort(later), ({ cwd }) => cwd);
    keepFocus($("threads"), () => $("threads").replaceChildren(...[...groups].map(([folder, threads]) => this.#group(folder, threads))));
    if (focused) $("threads").querySelector(`[data-thread="${CSS.escape(focused)}"]`)?.focus();
    this.#showEmpty();
    $("more-threads").hidden = !this.#cursor;
    this.#onChange();
  }

  #showEmpty() {
    const isSearch = Boolean($("search").value.trim());
    $("no-threads").hidden = this.#threads.size > 0 || (isSearch && !this.#found.isEmpty);
    $("no-threads").textContent = isSearch ? "Nothing found." : $("archived").checked ? "No archived threads." : "No threads yet.";
  }

  /** The threads of a folder, under a heading that opens and closes them. */
  #group(folder, threads) {
    const isSearch = Boolean($("search").value.trim());
    const closed = storedList("localStorage", CLOSED);
    const isOpen = isSearch || !closed.includes(folder);
    const toggle = () => {
      const rest = closed.filter((other) => other !== folder);
      store("localStorage", CLOSED, JSON.stringify(isOpen ? [...rest, folder] : rest));
      this.#show();
    };
    const name = visible(folder.split("/").at(-1) || folder);
    const heading = el("button", { type: "button", className: "folder", title: folder, "aria-expanded": String(isOpen), onclick: toggle },
      icon("chevron"), el("span", { className: "grow" }, name), el("span", { className: "hint" }, String(threads.length)));
    // The open thread stays in view.
    const isShown = ({ id }, at) => isSearch || this.#whole.has(folder) || at < THREADS_A_FOLDER || id === this.#current?.id;
    const shown = isOpen ? threads.filter(isShown) : threads.filter(({ id }) => id === this.#current?.id);
    const left = threads.length - shown.length;
    const more = isOpen && left > 0 && button(`${left} more`, () => {
      this.#whole.add(folder);
      this.#show();
    }, { className: "quiet", "aria-label": `${left} more threads of ${name}` });
    return el("section", { className: "group" }, el("h2", {}, heading), el("ul", {}, ...shown.map((thread) => this.#row(thread))), more);
  }

  #row(thread) {
    const state = wordsOf(thread.status);
    const hint = [state, age(thread.updatedAt)].filter(Boolean).join(" · ");
    const open = el("button", { type: "button", className: "thread", title: thread.cwd,
      "data-thread": thread.id, "data-status": thread.status.type, "data-waiting": String(state.startsWith("needs")),
      "aria-current": thread.id === this.#current?.id ? "true" : undefined,
      onclick: () => this.#onOpen(thread.id) },
    el("span", { className: "name" }, nameOf(thread)), el("span", { className: "hint" }, hint));
    if (!$("archived").checked) return el("li", {}, open);
    open.onclick = null;
    open.disabled = true;
    const restore = () => run("The thread was not restored", this.#restore(thread.id));
    return el("li", { className: "archived" }, open, button("Restore", restore, { "aria-label": `Restore ${nameOf(thread)}` }));
  }

  async #restore(id) {
    await this.#connection.call("thread/unarchive", { threadId: id });
    $("archived").checked = false;
    await this.reload();
    this.#onOpen(id);
  }
}

export function nameOf(thread) {
  const name = thread.name || thread.preview || (thread.agentNickname ? `Agent ${thread.agentNickname}` : "New thread");
  return visible(name.split("\n", 1)[0]);
}

function wordsOf({ type, activeFlags }) {
  if (type === "systemError") return "failed";
  if (type !== "active") return "";
  if (activeFlags.includes("waitingOnApproval")) return "needs approval";
  return activeFlags.includes("waitingOnUserInput") ? "needs an answer" : "working";
}

/** What is listed and searched. */
function filters() {
  return { sortKey: "updated_at", archived: $("archived").checked, sourceKinds: ["editor", "cli", "appServer", "exec", "unknown"] };
}
