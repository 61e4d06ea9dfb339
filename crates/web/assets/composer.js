// Writing: a message starts a turn, goes into the running one, or waits in a queue until that has ended.

import { $, button, el, notice, run, store, stored } from "./dom.js";

const DRAFT_MS = 300;

export class Composer {
  #connection;
  #settings;
  #view = null;
  #sending = false;
  #timer;

  constructor(connection, settings) {
    this.#connection = connection;
    this.#settings = settings;
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    $("message").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (event.altKey && this.#view?.running) this.#enqueue();
      else this.#submit();
    });
    $("message").addEventListener("input", () => {
      this.#grow();
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#keepDraft(), DRAFT_MS);
    });
    $("enqueue").addEventListener("click", () => this.#enqueue());
    $("interrupt").addEventListener("click", () => this.#interrupt());
    addEventListener("pagehide", () => this.#keepDraft());
  }

  /** Writes to another thread; the draft and the queue of each one are kept in this tab. */
  open(view) {
    if (this.#view) this.#keepDraft();
    const isOther = view?.id !== this.#view?.id;
    this.#view = view;
    if (isOther) $("message").value = (view && stored("sessionStorage", `agentd.draft.${view.id}`)) ?? "";
    this.#grow();
    this.#showQueue();
    this.update();
  }

  /** What can be done at the moment. */
  update() {
    const isUsable = Boolean(this.#view) && this.#connection.isReady;
    const isRunning = Boolean(this.#view?.running);
    if (!isRunning && [$("interrupt"), $("enqueue")].includes(document.activeElement)) $("message").focus();
    $("message").disabled = !this.#view;
    $("send").disabled = !isUsable || this.#sending;
    $("send").textContent = isRunning ? "Steer" : "Send";
    $("send").title = isRunning ? "Into the running turn (Enter)" : "Enter";
    for (const id of ["interrupt", "enqueue"]) {
      $(id).hidden = !isRunning;
      $(id).disabled = !isUsable;
    }
  }

  /** A turn has ended: the next message of the queue follows, or all come back after an interruption. */
  turnEnded(status) {
    const queue = this.#queue();
    if (!queue.length) return;
    if (status === "completed") {
      const [next, ...rest] = queue;
      this.#setQueue(rest);
      this.#send(next, () => this.#setQueue([next, ...this.#queue()]));
      return;
    }
    this.#setQueue([]);
    $("message").value = [...queue, $("message").value].filter(Boolean).join("\n\n");
    this.#grow();
    notice("The turn did not complete: what waited for its end is in the composer again.");
  }

  #submit() {
    const text = $("message").value.trim();
    if (!text || $("send").disabled) return;
    const draft = $("message").value;
    this.#clear();
    this.#send(text, () => {
      if (!$("message").value) $("message").value = draft;
      this.#grow();
    });
  }

  /** Sends a message; `restore` takes it back when the server did not accept it. */
  #send(text, restore) {
    const view = this.#view;
    notice("");
    this.#sending = true;
    this.update();
    const input = [{ type: "text", text }];
    const sent = view.running
      ? this.#connection.call("turn/steer", { threadId: view.id, expectedTurnId: view.running, input })
      : this.#connection.call("turn/start", { threadId: view.id, input, ...this.#settings.takeChanges(view) });
    sent.then(({ turn }) => {
      if (turn && view === this.#view) view.showTurn(turn);
    }, (error) => {
      if (view === this.#view) restore();
      notice(`The message was not sent: ${error.message}`);
    }).finally(() => {
      this.#sending = false;
      this.#keepDraft();
      this.update();
    });
  }

  #clear() {
    $("message").value = "";
    this.#grow();
    this.#keepDraft();
  }

  /** As high as its text, up to a bound. */
  #grow() {
    const field = $("message");
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, 220)}px`;
  }

  #keepDraft() {
    clearTimeout(this.#timer);
    if (this.#view) store("sessionStorage", `agentd.draft.${this.#view.id}`, $("message").value);
  }

  #interrupt() {
    const { id: threadId, running: turnId } = this.#view;
    run("The turn was not interrupted", this.#connection.call("turn/interrupt", { threadId, turnId }));
  }

  // ── The queue ───────────────────────────────────────────────────────────────────────────────

  #queue() {
    if (!this.#view) return [];
    return JSON.parse(stored("sessionStorage", `agentd.queue.${this.#view.id}`) ?? "[]");
  }

  #setQueue(queue) {
    store("sessionStorage", `agentd.queue.${this.#view.id}`, queue.length ? JSON.stringify(queue) : "");
    this.#showQueue();
  }

  #enqueue() {
    const text = $("message").value.trim();
    if (!text) return;
    this.#setQueue([...this.#queue(), text]);
    this.#clear();
    $("message").focus();
  }

  #showQueue() {
    const queue = this.#queue();
    const without = (at) => queue.filter((_, other) => other !== at);
    const rows = queue.map((text, at) => {
      const edit = () => {
        this.#setQueue(without(at));
        $("message").value = [$("message").value, text].filter(Boolean).join("\n\n");
        this.#grow();
        $("message").focus();
      };
      const remove = () => {
        this.#setQueue(without(at));
        $("message").focus();
      };
      const short = text.slice(0, 60);
      return el("li", {}, el("span", { className: "grow" }, text),
        button("Edit", edit, { "aria-label": `Edit: ${short}` }), button("Remove", remove, { "aria-label": `Remove: ${short}` }));
    });
    $("queue").replaceChildren(...rows);
    $("queue-place").hidden = !rows.length;
  }
}
