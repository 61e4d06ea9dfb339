// Completion in the composer: files after `@`, commands after `/` at the beginning, skills after `$`. The list
// is a listbox whose active option the field names; the focus stays in the field.

import { announce, el } from "./dom.js";
import { visible } from "./text.js";

const MOST_ROWS = 40;
/** The word before the cursor that opens a list: a sign at the beginning of a word, and what follows it. */
const WORD = /(?:^|\s)([@$])([^\s@$]*)$/;
const COMMAND = /^(\/)([a-z-]*)$/;

export class Completion {
  #field;
  #list;
  #sources;
  #onChange;
  #rows = [];
  #active = 0;
  /** Where the word begins that the list is for. */
  #start = 0;
  /** The word for which the list was closed by hand. */
  #dismissed = null;
  #request = 0;

  /**
   * `sources`: for each sign a function from the text after it to rows, or a promise of them. A row has a `label`,
   * a `detail`, `matches` (indices of characters to mark), `insert`, which replaces the word, and `submits`, if Enter
   * on it also submits the text. `onChange(submits)` is called when a row was chosen.
   */
  constructor(field, list, sources, onChange) {
    this.#field = field;
    this.#list = list;
    this.#sources = sources;
    this.#onChange = onChange;
    field.addEventListener("input", () => this.update());
    field.addEventListener("click", () => this.update());
    field.addEventListener("blur", () => this.close());
    // A press would take the focus out of the field, and close the list before the click.
    list.addEventListener("mousedown", (event) => event.preventDefault());
  }

  get isOpen() {
    return !this.#list.hidden;
  }

  /** Opens, fills or closes the list by what stands before the cursor. */
  async update() {
    const { value, selectionStart, selectionEnd } = this.#field;
    const before = value.slice(0, selectionStart);
    const found = selectionStart === selectionEnd && (before.match(COMMAND) ?? before.match(WORD));
    const request = ++this.#request;
    if (!found || !this.#sources[found[1]]) {
      this.#dismissed = null;
      return this.close();
    }
    const [, sign, text] = found;
    const start = selectionStart - text.length - 1;
    if (this.#dismissed === start) return undefined;
    this.#dismissed = null;
    let rows;
    try {
      rows = await this.#sources[sign](text);
    } catch {
      rows = []; // without a connection there is nothing to offer
    }
    if (request !== this.#request) return undefined; // something else was typed meanwhile
    this.#start = start;
    this.#show(rows.slice(0, MOST_ROWS));
    return undefined;
  }

  close() {
    this.#request += 1;
    this.#list.hidden = true;
    this.#rows = [];
    this.#field.removeAttribute("aria-activedescendant");
  }

  /** Takes a key, if it is for the list. Returns whether it was. */
  key(event) {
    if (!this.isOpen || event.isComposing || event.altKey || event.ctrlKey || event.metaKey) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.#select((this.#active + step + this.#rows.length) % this.#rows.length);
    else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) this.#choose(this.#rows[this.#active], event.key === "Enter");
    else if (event.key === "Escape") {
      this.#dismissed = this.#start;
      this.close();
    } else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }

  #show(rows) {
    const wasOpen = this.isOpen;
    this.#rows = rows;
    if (!rows.length) return this.close();
    this.#list.replaceChildren(...rows.map((row, at) => this.#option(row, at)));
    this.#list.hidden = false;
    this.#select(0);
    if (!wasOpen) announce(`${rows.length} suggestions. Up and Down choose, Tab or Enter inserts.`);
    return undefined;
  }

  #option(row, at) {
    const label = visible(row.label);
    // Hidden characters are longer when they are shown, so that the indices no longer fit.
    const marked = label === row.label ? new Set(row.matches ?? []) : new Set();
    const letters = marked.size ? [...label].map((letter, index) => (marked.has(index) ? el("b", {}, letter) : letter)) : [label];
    return el("li", { role: "option", id: `suggestion-${at}`, onclick: () => this.#choose(row, true) },
      el("span", { className: "label" }, ...letters), row.detail && el("span", { className: "hint" }, visible(row.detail)));
  }

  #select(at) {
    this.#active = at;
    for (const [index, option] of [...this.#list.children].entries()) option.ariaSelected = String(index === at);
    this.#list.children[at].scrollIntoView({ block: "nearest" });
    this.#field.setAttribute("aria-activedescendant", `suggestion-${at}`);
  }

  #choose(row, isFinal) {
    const { value, selectionStart } = this.#field;
    const rest = value.slice(selectionStart);
    const inserted = row.insert + (/^\s/.test(rest) ? "" : " ");
    this.#field.value = value.slice(0, this.#start) + inserted + rest;
    const at = this.#start + inserted.length;
    this.#field.setSelectionRange(at, at);
    this.close();
    this.#onChange(Boolean(isFinal && row.submits));
  }
}
