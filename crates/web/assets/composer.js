// Writing: a message starts a turn, goes into the running one, or into the queue of the thread. It has a
// text, in which files, commands and skills are completed, and images.

import { Attachments } from "./attachments.js";
import { Completion } from "./complete.js";
import { $, notice, run, store, stored } from "./dom.js";
import { History } from "./history.js";
import { Queue } from "./queue.js";
import { Sources } from "./sources.js";

const DRAFT_MS = 300;
/** A command, and what follows it; a path is none. */
const COMMAND = /^\/([a-z-]+)(?:\s+([^]*))?$/;

export class Composer {
  sources;
  queue;
  #connection;
  #settings;
  #actions;
  #completion;
  #attachments;
  #history = new History();
  #view = null;
  #sending = false;
  /** Messages whose answers were lost with the connection. */
  #unanswered = [];
  /** The images of messages that were begun in threads that are not open. */
  #images = new Map();
  #timer;

  constructor(connection, settings, actions) {
    this.#connection = connection;
    this.#settings = settings;
    this.#actions = actions;
    this.queue = new Queue(connection, (text, images) => this.#takeBack(text, images));
    this.sources = new Sources(connection, () => actions.commands());
    this.#completion = new Completion($("message"), $("suggestions"), this.sources.bySign, (submits) => {
      this.#written();
      if (submits) this.#submit();
    });
    this.#attachments = new Attachments($("message"), document.querySelector("main"), () => this.update());
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    $("message").addEventListener("keydown", (event) => this.#key(event));
    $("message").addEventListener("input", () => {
      this.#history.reset();
      this.#written();
    });
    $("enqueue").addEventListener("click", () => this.#enqueue());
    $("interrupt").addEventListener("click", () => this.#interrupt());
    addEventListener("pagehide", () => this.#keepDraft());
  }

  /** Writes to another thread; the draft of each one is kept in this tab. */
  open(view) {
    if (this.#view) {
      this.#keepDraft();
      this.#images.set(this.#view.id, this.#attachments.images);
    }
    const isOther = view?.id !== this.#view?.id;
    this.#view = view;
    this.sources.open(view);
    this.#completion.close();
    this.#history.reset();
    if (isOther) {
      $("message").value = (view && stored("sessionStorage", draftKey(view.id))) ?? "";
      this.#attachments.set(this.#images.get(view?.id) ?? []);
    }
    this.queue.open(view);
    this.#grow();
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
    $("send").title = isRunning ? "Add to the running turn (Enter)" : "Enter";
    for (const id of ["interrupt", "enqueue"]) {
      $(id).hidden = !isRunning;
      $(id).disabled = !isUsable;
    }
    this.queue.update();
  }

  /** After a thread was opened, also after a loss: what waits, and what became of messages without an answer. */
  async settle() {
    const view = this.#view;
    await this.queue.load();
    for (const one of this.#unanswered.filter(({ threadId }) => threadId === view.id)) {
      const page = await this.#connection.call("thread/turns/list", { threadId: view.id, itemsView: "full", limit: 5 });
      this.#unanswered.splice(this.#unanswered.indexOf(one), 1);
      if (this.queue.has(one.clientId)) continue;
      const sent = page.data.flatMap(({ items }) => items).filter(({ type, id }) => type === "userMessage" && !one.known.has(id));
      if (sent.some(({ content, clientId }) => (one.clientId ? clientId === one.clientId : textOf(content) === one.text))) continue;
      one.restore();
      notice("The connection was lost before your message arrived: it is back in the composer.");
    }
  }

  /** Puts a text, such as that of a turn that was taken back, before what has been written meanwhile. */
  restore(text) {
    this.#giveBack(this.#view.id, { text, images: [] });
    $("message").focus();
  }

  /** Sends a text that a command stands for. */
  sendText(text) {
    const view = this.#view;
    this.#send(view, { text, images: [] }, () => this.#giveBack(view.id, { text, images: [] }));
  }

  #key(event) {
    if (this.#completion.key(event)) return;
    const earlier = this.#history.key(event, $("message"), () => this.#view.messages());
    if (earlier !== null) {
      $("message").value = earlier;
      $("message").setSelectionRange(0, 0);
      this.#completion.close();
      this.#written();
      return;
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (event.altKey && this.#view?.running) {
      if (!$("enqueue").disabled) this.#enqueue();
    } else this.#submit();
  }

  #written() {
    this.#grow();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#keepDraft(), DRAFT_MS);
  }

  #submit() {
    const message = this.#message();
    if (!message || $("send").disabled) return;
    const command = message.text.match(COMMAND);
    if (command && !$("message").value.startsWith(" ")) {
      const [, name, rest] = command;
      const why = this.#actions.run(name, (rest ?? "").trim());
      if (why) notice(why);
      else this.#clearText();
      return;
    }
    const view = this.#view;
    this.queue.forgetPlace();
    this.#history.add(message.text);
    this.#clear();
    this.#send(view, message, () => this.#giveBack(view.id, message));
  }

  /** What is written, or null. */
  #message() {
    const text = $("message").value.trim();
    const { images } = this.#attachments;
    return text || images.length ? { text, images } : null;
  }

  /** Puts a message before what has been written meanwhile. */
  #giveBack(threadId, { text, images }) {
    const isOpen = this.#view?.id === threadId;
    const written = isOpen ? $("message").value : stored("sessionStorage", draftKey(threadId));
    const all = [text, written].filter(Boolean).join("\n\n");
    store("sessionStorage", draftKey(threadId), all);
    if (!isOpen) {
      this.#images.set(threadId, [...images, ...(this.#images.get(threadId) ?? [])]);
      return;
    }
    $("message").value = all;
    this.#attachments.set([...images, ...this.#attachments.images]);
    this.#grow();
  }

  /** Sends a message; `restore` takes it back when the server did not accept it. */
  #send(view, message, restore) {
    notice("");
    this.#sending = true;
    this.update();
    const known = new Set(view.items.keys());
    this.#call(view, message).then(({ turn }) => {
      if (turn && view === this.#view) view.showTurn(turn);
    }, (error) => {
      if (error.isUnanswered) {
        this.#unanswered.push({ threadId: view.id, text: message.text, known, restore });
        return;
      }
      restore();
      notice(`The message was not sent: ${error.message}`);
    }).finally(() => {
      this.#sending = false;
      this.update();
    });
  }

  /** The parts of a message, as the server takes them. */
  async #input({ text, images }) {
    const pictures = (images ?? []).map(({ url }) => ({ type: "image", url }));
    return [...(text ? [{ type: "text", text }] : []), ...pictures, ...await this.sources.skillsIn(text)];
  }

  async #call(view, message) {
    const { id: threadId, running } = view;
    const input = await this.#input(message);
    if (running) {
      try {
        return await this.#connection.call("turn/steer", { threadId, expectedTurnId: running, input });
      } catch (error) {
        // The turn was complete when the message came: it starts the next one.
        const isLate = error.code !== undefined && !view.running && view.lastStatus === "completed";
        if (!isLate) throw error;
      }
    }
    const changes = this.#settings.changesOf(threadId);
    const answer = await this.#connection.call("turn/start", { threadId, input, ...changes });
    this.#settings.took(threadId, changes);
    return answer;
  }

  #clear() {
    this.#attachments.set([]);
    this.#clearText();
  }

  #clearText() {
    $("message").value = "";
    this.#completion.close();
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
    if (this.#view) store("sessionStorage", draftKey(this.#view.id), $("message").value);
  }

  #interrupt() {
    const { id: threadId, running: turnId } = this.#view;
    run("The turn was not interrupted", this.#connection.call("turn/interrupt", { threadId, turnId }));
  }

  // ── The queue ───────────────────────────────────────────────────────────────────────────────

  async #enqueue() {
    const message = this.#message();
    if (!message) return;
    const view = this.#view;
    this.#history.add(message.text);
    this.#clear();
    $("message").focus();
    const clientId = crypto.randomUUID();
    const restore = () => this.#giveBack(view.id, message);
    try {
      await this.queue.add(view.id, await this.#input(message), clientId);
    } catch (error) {
      if (error.isUnanswered) {
        this.#unanswered.push({ threadId: view.id, text: message.text, clientId, known: new Set(), restore });
        return;
      }
      restore();
      notice(`The message was not queued: ${error.message}`);
    }
  }

  /** Puts a message of the queue into the composer, after what is written there. */
  #takeBack(text, images) {
    $("message").value = [$("message").value, text].filter(Boolean).join("\n\n");
    this.#attachments.set([...this.#attachments.images, ...images]);
    this.#grow();
    this.#keepDraft();
    $("message").focus();
  }
}

/** The text of a message. */
export function textOf(content) {
  return content.find(({ type }) => type === "text")?.text ?? "";
}

const draftKey = (threadId) => `agentd.draft.${threadId}`;
