// A button with a menu: arrow keys, Home and End move in it, Esc and Tab close it.

import { el } from "./dom.js";

export class Menu {
  #button;
  #menu;

  /** `entries()`: `id`, `words`, `why` (the reason why it cannot be used now, if any) and `run()` of each; null separates. */
  constructor(button, menu, entries) {
    this.#button = button;
    this.#menu = menu;
    button.addEventListener("click", () => (menu.hidden ? this.#open(entries()) : this.close()));
    button.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown" || !menu.hidden) return;
      event.preventDefault();
      this.#open(entries());
    });
    menu.addEventListener("keydown", (event) => this.#key(event));
    addEventListener("pointerdown", (event) => {
      if (!menu.hidden && !menu.contains(event.target) && !button.contains(event.target)) this.close(false);
    });
    menu.addEventListener("focusout", (event) => {
      if (event.relatedTarget && !menu.contains(event.relatedTarget) && event.relatedTarget !== button) this.close(false);
    });
  }

  /** Closes it; the focus goes back to the button. */
  close(focus = true) {
    if (this.#menu.hidden) return;
    this.#menu.hidden = true;
    this.#button.ariaExpanded = "false";
    if (focus) this.#button.focus();
  }

  #open(entries) {
    this.#menu.replaceChildren(...entries.map((entry) => (entry ? this.#item(entry) : el("div", { role: "separator" }))));
    this.#menu.hidden = false;
    this.#button.ariaExpanded = "true";
    this.#items[0]?.focus();
  }

  get #items() {
    return [...this.#menu.querySelectorAll("[role=menuitem]")];
  }

  #item({ id, words, why, run, className = "" }) {
    const item = el("button", { type: "button", id, role: "menuitem", tabIndex: -1, className, title: why ?? "", "aria-disabled": why ? "true" : undefined }, words);
    item.onclick = () => {
      if (why) return;
      this.close();
      run();
    };
    return item;
  }

  #key(event) {
    const items = this.#items;
    const at = items.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (next !== undefined) items.at(next % items.length).focus();
    else if (event.key === "Escape" || event.key === "Tab") this.close();
    else return;
    if (event.key !== "Tab") event.preventDefault();
    event.stopPropagation();
  }
}
