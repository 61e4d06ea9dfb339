// The running commands of a thread, those in the background included, with what they write.

import { $, button, el, run } from "./dom.js";
import { drawOutput } from "./items.js";
import { exact } from "./text.js";

export class ProcessesTab {
  #connection;
  #view = null;
  #rows = new Map();

  constructor(connection) {
    this.#connection = connection;
    // Output comes without changing what else is shown.
    setInterval(() => $("pane-processes").offsetParent && this.draw(), 500);
  }

  open(view) {
    this.#view = view;
    this.#rows.clear();
    $("pane-processes").replaceChildren();
  }

  #running() {
    const items = this.#view ? [...this.#view.items.values()] : [];
    const runs = (item) => item?.type === "commandExecution" && item.status === "inProgress" && !item.awaitsApproval;
    return items.filter(({ item }) => runs(item));
  }

  count() {
    return this.#running().length;
  }

  draw() {
    const running = this.#running();
    const wanted = new Set(running.map(({ item }) => item.id));
    for (const [id, row] of this.#rows) {
      if (wanted.has(id)) continue;
      row.element.remove();
      this.#rows.delete(id);
    }
    for (const view of running) {
      if (!this.#rows.has(view.item.id)) this.#rows.set(view.item.id, this.#row(view));
      this.#rows.get(view.item.id).draw();
    }
    const pane = $("pane-processes");
    if (!running.length) {
      const hadFocus = pane.contains(document.activeElement);
      if (!pane.querySelector(".empty")) pane.replaceChildren(el("p", { className: "empty" }, "No commands are running."));
      if (hadFocus) pane.focus();
      return;
    }
    if (!pane.querySelector(".terminals")) {
      pane.replaceChildren(
        el("div", { className: "terminals" }), button("End background commands", () => this.#end(), { className: "danger" }));
    }
    const added = [...this.#rows.values()].map(({ element }) => element).filter((element) => !element.parentNode);
    pane.querySelector(".terminals").append(...added);
  }

  #row(view) {
    const { item, turnId } = view;
    const screen = el("pre", { className: "screen", tabIndex: 0, role: "group", "aria-label": `Output of ${item.command}` });
    const left = el("p", { className: "hint left-out" });
    const place = el("p", { className: "hint" });
    const element = el("div", { role: "group", className: "terminal", "aria-label": item.command },
      el("div", { className: "head" }, el("code", {}, ...exact(item.command))), place, left, screen);
    let drawn = null;
    const draw = () => {
      place.textContent = this.#view.running === turnId ? "of the running turn" : "in the background";
      if (drawn === view.text) return;
      drawn = view.text;
      drawOutput(screen, left, drawn);
      screen.hidden = false;
    };
    return { element, draw };
  }

  #end() {
    const ended = this.#connection.call("thread/backgroundTerminals/clean", { threadId: this.#view.id });
    run("The processes were not ended", ended);
  }
}
