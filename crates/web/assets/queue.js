// The queue of the open thread: messages that wait on the server for a turn of their own. It outlives the page, and
// every client of the thread sees and changes it.

import { $, announce, button, el, icon, notice, run } from "./dom.js";
import { visible } from "./text.js";

const PAUSES = {
  interrupted: "the turn was interrupted", failed: "the turn failed",
  notStarted: "its message could not start", archived: "the thread was archived",
};
/** Parts of a message that the composer can write. */
const EDITABLE = ["text", "image", "skill"];

export class Queue {
  #connection;
  #onEdit;
  #view = null;
  #messages = [];
  #pause = null;
  /** The number of the latest list; those before it are out of date. */
  #request = 0;
  /** The message before which the edited one goes back. */
  #place = null;

  /** `onEdit(text, images)` puts a message into the composer. */
  constructor(connection, onEdit) {
    this.#connection = connection;
    this.#onEdit = onEdit;
    $("queue-start").addEventListener("click", () => run("The queue was not started", this.#start()));
  }

  /** Shows the queue of another thread; `load` reads it. */
  open(view) {
    this.#view = view;
    this.#place = null;
    this.#set([], null);
  }

  async load() {
    const [view, request] = [this.#view, ++this.#request];
    const { data, pause } = await this.#connection.call("thread/queue/list", { threadId: view.id });
    if (view === this.#view && request === this.#request) this.#set(data, pause);
  }

  /** The server says that the queue has changed; an empty one needs no list. */
  changed({ length, pause }) {
    if (length) run("The queue", this.load());
    else {
      this.#request += 1;
      this.#set([], pause);
    }
  }

  /** Whether a message with this id of the page waits. */
  has(clientId) {
    return this.#messages.some(({ clientUserMessageId }) => clientUserMessageId === clientId);
  }

  /** The message in the composer is a new one. */
  forgetPlace() {
    this.#place = null;
  }

  /** Adds a message, in the place of the one that was edited. */
  async add(threadId, input, clientUserMessageId) {
    const before = this.#place;
    this.#place = null;
    const { queuedSubmission: added } = await this.#connection.call("thread/queue/add", { threadId, input, clientUserMessageId });
    if (threadId !== this.#view?.id) return;
    if (!this.#messages.some(({ id }) => id === added.id)) this.#set([...this.#messages, added], this.#pause);
    if (this.#messages.some(({ id }) => id === before)) run("The message is at the end of the queue", this.#move(added, before));
  }

  /** Shows how the messages go on. */
  update() {
    const isPaused = Boolean(this.#pause) && this.#messages.length > 0;
    const why = PAUSES[this.#pause?.reason] ?? this.#pause?.reason;
    const more = this.#pause?.message ? `: ${this.#pause.message}` : "";
    const words = isPaused ? `The queue waits: ${why}${more}.` : "Sent when the turn has ended";
    if ($("queue-title").textContent !== words) $("queue-title").textContent = words;
    $("queue-start").hidden = !isPaused;
    $("queue-start").disabled = Boolean(this.#view?.running) || !this.#connection.isReady;
  }

  #set(messages, pause) {
    const wasPaused = Boolean(this.#pause);
    this.#messages = messages;
    this.#pause = pause;
    this.#show();
    if (pause && !wasPaused && messages.length) announce(`${$("queue-title").textContent} The button Start starts it.`);
  }

  #show() {
    // A control keeps the focus while its message moves.
    const focused = document.activeElement?.dataset.control;
    const hadFocus = $("queue-place").contains(document.activeElement);
    $("queue").replaceChildren(...this.#messages.map((message, at) => this.#row(message, at)));
    $("queue-place").hidden = !this.#messages.length;
    this.update();
    if (!hadFocus) return;
    const same = focused && $("queue").querySelector(`[data-control="${CSS.escape(focused)}"]`);
    const next = same?.disabled ? same.parentElement.querySelector("button:enabled") : same;
    if (focused) (next ?? $("message")).focus();
    else if ($("queue-start").hidden) $("message").focus();
  }

  #row(message, at) {
    const words = wordsOf(message.input);
    const short = visible(words.slice(0, 60));
    const control = (name, content, onclick, more = {}) => {
      const failed = `The message was not ${{ edit: "edited", remove: "removed" }[name] ?? "moved"}`;
      return button(content, () => run(failed, onclick()), { "data-control": `${message.id} ${name}`, ...more });
    };
    const [above, below] = [this.#messages[at - 1], this.#messages[at + 2]];
    const isLast = at === this.#messages.length - 1;
    const canEdit = message.input.every(({ type }) => EDITABLE.includes(type));
    return el("li", {}, el("span", { className: "grow" }, words),
      control("up", icon("up"), () => this.#move(message, above.id), { "aria-label": `Move up: ${short}`, title: "Move up", disabled: !at }),
      control("down", icon("down"), () => this.#move(message, below?.id), { "aria-label": `Move down: ${short}`, title: "Move down", disabled: isLast }),
      control("edit", "Edit", () => this.#edit(message), { "aria-label": `Edit: ${short}`, disabled: !canEdit,
        title: canEdit ? "" : "It has parts that only the client that wrote it can edit." }),
      control("remove", "Remove", () => this.#remove(message), { "aria-label": `Remove: ${short}` }));
  }

  /** Puts a message before another one, or at the end. */
  async #move(message, before) {
    const others = this.#messages.filter(({ id }) => id !== message.id);
    const at = others.findIndex(({ id }) => id === before);
    const messages = at < 0 ? [...others, message] : others.toSpliced(at, 0, message);
    const threadId = this.#view.id;
    this.#set(messages, this.#pause);
    try {
      await this.#connection.call("thread/queue/reorder", { threadId, queuedSubmissionIds: messages.map(({ id }) => id) });
    } catch (error) {
      if (threadId === this.#view?.id) await this.load();
      throw error;
    }
  }

  async #edit(message) {
    const after = this.#messages[this.#messages.indexOf(message) + 1]?.id ?? null;
    if (!await this.#remove(message)) return;
    this.#place = after;
    const images = message.input.filter(({ type }) => type === "image").map(({ url }, at) => ({ name: `image ${at + 1}`, url }));
    this.#onEdit(textIn(message.input), images);
  }

  /** Returns whether the message was still there. */
  async #remove({ id }) {
    const threadId = this.#view.id;
    const { deleted } = await this.#connection.call("thread/queue/delete", { threadId, queuedSubmissionId: id });
    if (threadId !== this.#view?.id) return false;
    this.#set(this.#messages.filter((other) => other.id !== id), this.#pause);
    $("message").focus();
    if (!deleted) notice("That message has already been sent.");
    return deleted;
  }

  async #start() {
    const view = this.#view;
    const { turn } = await this.#connection.call("thread/queue/start", { threadId: view.id });
    if (view !== this.#view) return;
    view.showTurn(turn);
    $("message").focus();
  }
}

const textIn = (input) => input.filter(({ type }) => type === "text").map(({ text }) => text).join("\n\n");

function wordsOf(input) {
  const images = input.filter(({ type }) => ["image", "localImage"].includes(type)).length;
  const count = images && `[${images} ${images === 1 ? "image" : "images"}]`;
  return [textIn(input), count].filter(Boolean).join(" ");
}
