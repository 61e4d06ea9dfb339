// What the search finds in threads: those in which the words were said, each with the place.

import { $, el, run } from "./dom.js";
import { age, visible } from "./text.js";

const HITS_A_PAGE = 20;

export class Found {
  #connection;
  #host;
  #hits = [];
  #cursor = null;
  #term = "";
  #request = 0;
  #isIndexing = false;

  /** `host`: `params()`, the filters of the list; `open(id, hit)`; `name(thread)`; `onChange()`. */
  constructor(connection, host) {
    this.#connection = connection;
    this.#host = host;
    $("more-found").addEventListener("click", () => run("The search", this.#page(this.#cursor)));
  }

  get isEmpty() {
    return !this.#hits.length;
  }

  /** Searches for a text; without one, nothing is shown. */
  search(term) {
    this.#term = term;
    if (term) return this.#page(null);
    this.#request += 1;
    this.#hits = [];
    this.#show();
    return Promise.resolve();
  }

  async #page(cursor) {
    const request = ++this.#request;
    const params = { ...this.#host.params(), searchTerm: this.#term, cursor, limit: HITS_A_PAGE };
    const page = await this.#connection.call("thread/search", params);
    if (request !== this.#request) return; // a later search has begun
    this.#hits = cursor ? [...this.#hits, ...page.data] : page.data;
    this.#cursor = page.nextCursor;
    this.#isIndexing = page.indexing;
    this.#show();
  }

  #show() {
    const words = wordsOf(this.#term);
    $("found").replaceChildren(...this.#hits.map((hit) => this.#row(hit, words)));
    $("found-place").hidden = this.isEmpty && !(this.#term && this.#isIndexing);
    $("more-found").hidden = this.isEmpty || !this.#cursor;
    $("found-hint").hidden = !this.#isIndexing;
    this.#host.onChange();
  }

  #row({ thread, turnId, snippet }, words) {
    const row = el("button", { type: "button", className: "thread", title: thread.cwd, onclick: () => this.#host.open(thread.id, { turnId, words }) },
      el("span", { className: "name" }, this.#host.name(thread)),
      el("span", { className: "hint said" }, ...marked(snippet.replace(/\s+/g, " "), words)),
      el("span", { className: "hint" }, age(thread.updatedAt)));
    // An archived thread is restored first.
    row.disabled = $("archived").checked;
    return el("li", {}, row);
  }
}

/** The words of a search. */
const wordsOf = (term) => term.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

/** A text in which the words stand out. */
function marked(text, words) {
  if (!words.length) return [visible(text)];
  const parts = text.split(new RegExp(`(${words.join("|")})`, "giu"));
  return parts.map((part, at) => (at % 2 ? el("mark", {}, visible(part)) : visible(part)));
}
