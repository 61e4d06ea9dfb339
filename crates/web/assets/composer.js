// Writing: a message starts a turn, goes into the running one, or waits in a queue until that has ended.

import { $, button, el, notice, run, store, stored, storedList } from "./dom.js";

const DRAFT_MS = 300;

export class Composer {
  #connection;
  #settings;
  #view = null;
  #sending = false;
  /** Messages whose answers were lost with the connection. */
  #unanswered = [];
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
    if (isOther) $("message").value = (view && stored("sessionStorage", draftKey(view.id))) ?? "";
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
  async turnEnded(status) {
    const view = this.#view;
    const queue = queueOf(view.id);
    if (!queue.length) return;
    if (status === "completed") {
      const [next, ...rest] = queue;
      this.#setQueue(view.id, rest);
      // A tab that was duplicated has the same queue; one of them sends each message.
      if (!(await claim(next.id))) return;
      this.#send(view, next.text, () => {
        disclaim(next.id);
        this.#setQueue(view.id, [next, ...queueOf(view.id)]);
      });
      return;
    }
    this.#setQueue(view.id, []);
    this.#giveBack(view.id, queue.map(({ text }) => text).join("\n\n"));
    notice("The turn did not complete: what waited for its end is in the composer again.");
  }

  /** After a thread was opened, also after a loss: what became of messages without an answer, and what still waits. */
  async settle() {
    const view = this.#view;
    for (const one of this.#unanswered.filter(({ threadId }) => threadId === view.id)) {
      const page = await this.#connection.call("thread/turns/list", { threadId: view.id, itemsView: "full", limit: 5 });
      this.#unanswered.splice(this.#unanswered.indexOf(one), 1);
      const sent = page.data.flatMap(({ items }) => items).filter(({ type, id }) => type === "userMessage" && !one.known.has(id));
      if (sent.some(({ content }) => content[0]?.text === one.text)) continue;
      one.restore();
      notice("The connection was lost while a message was sent, and the thread does not have it: it is here again.");
    }
    if (view === this.#view && !view.running) await this.turnEnded(view.lastStatus);
  }

  #submit() {
    const text = $("message").value.trim();
    if (!text || $("send").disabled) return;
    const view = this.#view;
    this.#clear();
    this.#send(view, text, () => this.#giveBack(view.id, text));
  }

  /** Puts a text before what has been written meanwhile. */
  #giveBack(threadId, text) {
    const isOpen = this.#view?.id === threadId;
    const written = isOpen ? $("message").value : stored("sessionStorage", draftKey(threadId));
    const all = [text, written].filter(Boolean).join("\n\n");
    store("sessionStorage", draftKey(threadId), all);
    if (!isOpen) return;
    $("message").value = all;
    this.#grow();
  }

  /** Sends a message; `restore` takes it back when the server did not accept it. */
  #send(view, text, restore) {
    notice("");
    this.#sending = true;
    this.update();
    const known = new Set(view.items.keys());
    this.#call(view, [{ type: "text", text }]).then(({ turn }) => {
      if (turn && view === this.#view) view.showTurn(turn);
    }, (error) => {
      if (error.isUnanswered) {
        this.#unanswered.push({ threadId: view.id, text, known, restore });
        return;
      }
      restore();
      notice(`The message was not sent: ${error.message}`);
    }).finally(() => {
      this.#sending = false;
      this.update();
    });
  }

  async #call(view, input) {
    const { id: threadId, running } = view;
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
    if (this.#view) store("sessionStorage", draftKey(this.#view.id), $("message").value);
  }

  #interrupt() {
    const { id: threadId, running: turnId } = this.#view;
    run("The turn was not interrupted", this.#connection.call("turn/interrupt", { threadId, turnId }));
  }

  // ── The queue ───────────────────────────────────────────────────────────────────────────────

  #setQueue(threadId, queue) {
    store("sessionStorage", queueKey(threadId), queue.length ? JSON.stringify(queue) : "");
    this.#showQueue();
  }

  #enqueue() {
    const text = $("message").value.trim();
    if (!text) return;
    const { id } = this.#view;
    this.#setQueue(id, [...queueOf(id), { id: crypto.randomUUID(), text }]);
    this.#clear();
    $("message").focus();
  }

  #showQueue() {
    const queue = this.#view ? queueOf(this.#view.id) : [];
    $("queue").replaceChildren(...queue.map((one) => this.#queued(one)));
    $("queue-place").hidden = !queue.length;
  }

  #queued({ id, text }) {
    const threadId = this.#view.id;
    const remove = () => {
      this.#setQueue(threadId, queueOf(threadId).filter((other) => other.id !== id));
      $("message").focus();
    };
    const edit = () => {
      remove();
      $("message").value = [$("message").value, text].filter(Boolean).join("\n\n");
      this.#grow();
      this.#keepDraft();
    };
    const short = text.slice(0, 60);
    return el("li", {}, el("span", { className: "grow" }, text),
      button("Edit", edit, { "aria-label": `Edit: ${short}` }), button("Remove", remove, { "aria-label": `Remove: ${short}` }));
  }
}

const draftKey = (threadId) => `agentd.draft.${threadId}`;
const queueKey = (threadId) => `agentd.queue.${threadId}`;

/** The messages that wait for the end of a turn: `id` and `text` each. */
function queueOf(threadId) {
  return storedList("sessionStorage", queueKey(threadId));
}

const CLAIMED = "agentd.claimed";
/** As many claims are remembered; tabs that were duplicated reach the same message at nearly the same time. */
const MOST_CLAIMS = 100;

/** Whether this tab, and no other one, is to send a queued message. */
function claim(id) {
  return inTurn(() => {
    const claimed = storedList("localStorage", CLAIMED);
    if (claimed.includes(id)) return false;
    store("localStorage", CLAIMED, JSON.stringify([...claimed, id].slice(-MOST_CLAIMS)));
    return true;
  });
}

function disclaim(id) {
  return inTurn(() => store("localStorage", CLAIMED, JSON.stringify(storedList("localStorage", CLAIMED).filter((other) => other !== id))));
}

/** Runs a change of the browser's storage while no other tab runs one. */
function inTurn(change) {
  return navigator.locks ? navigator.locks.request(CLAIMED, change) : Promise.resolve(change());
}
