// The open thread: its turns with their items, plans and requests, as the server tells of them.

import { $, announce, el, icon, notice, store, storedList } from "./dom.js";
import { ItemView } from "./items.js";
import { RequestCard, isShown } from "./requests.js";
import { duration, visible } from "./text.js";

/** How much of a thread's history is loaded at a time. */
const TURNS_A_PAGE = 20;

/** The same, on the way to a turn that was searched for. */
const TURNS_A_SEARCH = 100;

/** Items of one list of a turn. */
const ITEMS_A_LIST = 40;

const ENDS = { inProgress: "", completed: "", interrupted: "Interrupted.", failed: "Failed." };

export class ThreadView {
  /** What the thread is as a whole, as the server last said. */
  thread;
  /** The place of the last event that is shown. */
  cursor;
  /** The turn in progress, if any. */
  running = null;
  /** The newest turn that is known. */
  newest = null;
  /** Whether the turns before those of the start were read, as far as they are shown at once. */
  hasHistory = false;
  /** The tokens and the cost, as the server last said. */
  usage = null;
  items = new Map();
  /** The newest diff of each turn. */
  diffs = new Map();
  requests = new Map();
  #turns = new Map();
  /** The plans of turns, also of those that are not shown yet. */
  #plans;
  #older = null;
  #context;
  #services;

  /** `services`: `connection`, `onChange()`, `onTurnEnd(status)`, `onAsk(words)`, `openAgent(id)`, `image(path)`. */
  constructor(thread, cursor, services) {
    this.thread = thread;
    this.cursor = cursor;
    this.#services = services;
    this.#context = { folder: thread.cwd, openAgent: services.openAgent, image: services.image };
    this.#plans = storedPlans(thread.id);
    $("turns").replaceChildren();
    for (const turn of thread.turns) this.#showTurn(turn);
  }

  get id() {
    return this.thread.id;
  }

  get folder() {
    return this.thread.cwd;
  }

  /** Share of the model's context that is used, in percent; null where it is not known. */
  get contextUsed() {
    const { last, modelContextWindow: window } = this.usage ?? {};
    return window ? Math.min(100, Math.round((last.totalTokens / window) * 100)) : null;
  }

  /** The texts of the user's messages, oldest first. */
  messages() {
    // Those of older turns are read later, and come first in the page.
    const shown = [...$("turns").querySelectorAll(".userMessage")].map((element) => element.dataset.item);
    const texts = shown.map((id) => this.items.get(id)?.item.content.find(({ type }) => type === "text")?.text);
    return texts.filter(Boolean);
  }

  /** How the newest turn stands. */
  get lastStatus() {
    return this.#turns.get(this.newest)?.element.dataset.status;
  }

  /** Takes a notification about this thread; one of no interest is ignored. */
  handle(method, params) {
    NOTIFICATIONS[method]?.(this, params);
  }

  /** The history before what is shown, newest first; turns in progress come by events. */
  async loadOlder(limit = TURNS_A_PAGE) {
    const page = await this.#services.connection.call("thread/turns/list", {
      threadId: this.id, itemsView: "full", limit, cursor: this.#older,
    });
    for (const turn of page.data) {
      if (turn.status !== "inProgress" && !this.#turns.has(turn.id)) this.#showTurn(turn, true);
    }
    this.#older = page.nextCursor;
    this.hasHistory = true;
    $("older").hidden = !this.#older;
    this.#services.onChange();
  }

  /** Brings the item of a turn that has the words into view, with all that comes after it. */
  async reveal(turnId, words) {
    while (!this.#turns.has(turnId) && this.#older) await this.loadOlder(TURNS_A_SEARCH);
    const turn = this.#turns.get(turnId);
    if (!turn) return notice("The turn is no longer in this thread.");
    const items = [...this.items.values()].filter((item) => item.turnId === turnId).map(({ element }) => element);
    const count = ({ textContent }) => words.filter((word) => textContent.toLowerCase().includes(word)).length;
    const place = items.reduce((best, item) => (count(item) > count(best) ? item : best), items[0] ?? turn.element);
    place.tabIndex = -1;
    place.classList.add("hit");
    place.addEventListener("blur", () => place.classList.remove("hit"), { once: true });
    place.focus({ preventScroll: true });
    place.scrollIntoView({ block: "center" });
  }

  /** A turn that was just started by this page, or that events tell of. */
  showTurn(turn) {
    this.#showTurn(turn);
    this.#services.onChange();
  }

  #showTurn(turn, before = false) {
    const shown = this.#turnView(turn.id, before);
    const wasRunning = this.running === turn.id;
    for (const item of turn.items) this.#showItem(turn.id, item, turn.status !== "inProgress");
    const took = turn.durationMs >= 1000 && turn.status === "completed" ? `Worked for ${duration(turn.durationMs)}.` : "";
    const words = [ENDS[turn.status], turn.error?.message, took].filter(Boolean).join(" ");
    shown.end.textContent = words;
    shown.element.dataset.status = turn.status;
    if (turn.status === "inProgress") this.running = turn.id;
    else if (wasRunning) {
      this.running = null;
      announce(turn.status === "completed" ? "The turn is complete." : words);
      this.#services.onTurnEnd(turn.status);
    }
  }

  #turnView(id, before = false) {
    if (!this.#turns.has(id)) {
      const [plan, end] = [el("div", { className: "plan-place" }), el("p", { className: "end" })];
      const element = el("section", { className: "turn" }, plan, end);
      this.#turns.set(id, { element, items: null, plan, end });
      if (before) $("turns").prepend(element);
      else {
        $("turns").append(element);
        this.newest = id;
      }
      this.newest ??= id;
      if (this.#plans.has(id)) this.#drawPlan(id);
    }
    return this.#turns.get(id);
  }

  #showItem(turnId, item, done) {
    if (!this.items.has(item.id)) {
      const shown = new ItemView(this.#context);
      this.items.set(item.id, shown);
      shown.turnId = turnId;
      this.#append(turnId, shown.element);
    }
    this.items.get(item.id).show(item, done);
    if (item.type === "exitedReviewMode") this.#hideFindings(turnId);
  }

  /** The findings of a review are in words in the item that ends it; the answer that they were read from is JSON. */
  #hideFindings(turnId) {
    for (const { element, item, turnId: of } of this.items.values()) {
      if (of === turnId && item.type === "agentMessage" && isFindings(item.text)) element.hidden = true;
    }
  }

  /** Appends to the last list of a turn, or to a new one: lists out of view are not laid out. */
  #append(turnId, element) {
    const turn = this.#turnView(turnId);
    if (!turn.items || turn.items.children.length >= ITEMS_A_LIST) {
      turn.items = el("ol", { className: "items" });
      turn.plan.before(turn.items);
    }
    turn.items.append(element);
  }

  showItem(turnId, item, done) {
    this.#showItem(turnId, item, done);
    if (done && item.type === "agentMessage") announce(`The agent says: ${item.text.slice(0, 400)}`);
    this.#services.onChange();
  }

  noteChange() {
    this.#services.onChange();
  }

  /** Shows the plan of a turn; of one that is not shown yet, once it is. */
  showPlan(turnId, steps, explanation) {
    this.#plans.set(turnId, { steps, explanation });
    keepPlans(this.id, this.#plans);
    if (this.#turns.has(turnId)) this.#drawPlan(turnId);
  }

  #drawPlan(turnId) {
    const { steps, explanation } = this.#plans.get(turnId);
    const states = { completed: ["check", "done"], inProgress: ["spin", "in progress"], pending: ["circle", "to do"] };
    const rows = steps.map(({ step, status }) => {
      const [name, words] = states[status] ?? states.pending;
      return el("li", { "data-status": status }, icon(name), el("span", {}, step, el("span", { className: "unseen" }, ` (${words})`)));
    });
    const done = steps.filter(({ status }) => status === "completed").length;
    const card = el("div", { role: "group", className: "plan-steps", "aria-label": "Plan" },
      el("h3", {}, "Plan ", el("span", { className: "hint" }, `${done} of ${steps.length} done`)),
      explanation && el("p", { className: "hint" }, explanation), el("ol", {}, ...rows));
    this.#turnView(turnId).plan.replaceChildren(...(steps.length ? [card] : []));
  }

  // ── Requests ────────────────────────────────────────────────────────────────────────────────

  /** Shows a request of the server. Returns false when it is not for this page. */
  ask(id, method, params) {
    if (!isShown(method)) return false;
    const known = this.requests.get(id);
    if (known) {
      // It was asked again after a loss of the connection: what has been filled in stays.
      known.reopen();
      return true;
    }
    const item = this.items.get(params.itemId);
    const card = new RequestCard(method, params, item?.item, (result) => {
      const isSent = this.#services.connection.answer(id, result);
      if (!isSent) notice("Not connected. The server asks again after reconnecting.");
      return isSent;
    });
    this.requests.set(id, card);
    const last = params.turnId ?? this.newest;
    if (item) item.element.after(card.element);
    else if (last) this.#append(last, card.element);
    else $("turns").append(card.element);
    announce(`Answer needed: ${card.label}`);
    this.#services.onAsk(card.label);
    // Whoever has begun to type is left alone, and so is an open dialog.
    if (!document.activeElement?.value && !document.querySelector("dialog[open]")) card.focus();
    this.#services.onChange();
    return true;
  }

  /** Brings the oldest open request into view. */
  focusRequest() {
    const [card] = this.requests.values();
    card?.element.scrollIntoView({ block: "nearest" });
    card?.focus();
  }

  settle(id) {
    const card = this.requests.get(id);
    this.requests.delete(id);
    const hadFocus = card?.hasFocus();
    card?.settle();
    if (hadFocus) $("message").focus();
    this.#services.onChange();
  }

  /** After a loss: the requests that are still open; they are asked again. All others were settled meanwhile. */
  keepRequests(openIds) {
    for (const id of this.requests.keys()) if (!openIds.includes(id)) this.settle(id);
  }
}

/** Plans are in no item: the server sends that of the latest turn again, and the tab keeps the others. */
const MOST_PLANS = 50;
const plansKey = (threadId) => `agentd.plans.${threadId}`;

function storedPlans(threadId) {
  const entries = storedList("sessionStorage", plansKey(threadId));
  return new Map(entries.filter(([id, plan]) => typeof id === "string" && Array.isArray(plan?.steps)));
}

function keepPlans(threadId, plans) {
  store("sessionStorage", plansKey(threadId), JSON.stringify([...plans].slice(-MOST_PLANS)));
}

function isFindings(text) {
  try {
    const value = JSON.parse(text);
    return Array.isArray(value?.findings) || typeof value?.overall_explanation === "string";
  } catch {
    return false;
  }
}

const NOTIFICATIONS = {
  "turn/started": (view, { turn }) => {
    view.showTurn(turn);
    announce("The agent is working.");
  },
  "turn/completed": (view, { turn }) => view.showTurn(turn),
  "item/started": (view, { turnId, item }) => view.showItem(turnId, item, false),
  "item/completed": (view, { turnId, item }) => view.showItem(turnId, item, true),
  "item/agentMessage/delta": append,
  "item/plan/delta": append,
  "item/reasoning/summaryTextDelta": append,
  "item/commandExecution/outputDelta": append,
  "item/commandExecution/running": (view, { itemId }) => {
    view.items.get(itemId)?.runs();
    view.noteChange();
  },
  "item/reasoning/summaryPartAdded": (view, { itemId }) => view.items.get(itemId)?.separate(),
  "item/fileChange/patchUpdated": (view, { turnId, itemId, changes }) =>
    view.showItem(turnId, { type: "fileChange", id: itemId, changes, status: "inProgress" }, false),
  "turn/plan/updated": (view, { turnId, plan, explanation }) => view.showPlan(turnId, plan, explanation),
  "turn/diff/updated": (view, { turnId, diff }) => {
    view.diffs.set(turnId, diff);
    view.showTurnDiff?.();
  },
  "thread/tokenUsage/updated": (view, { tokenUsage }) => {
    view.usage = tokenUsage;
    view.onUsage?.();
  },
  "serverRequest/resolved": (view, { requestId }) => view.settle(requestId),
  "error": (_, { error, willRetry, retry }) => {
    const attempt = retry ? ` (attempt ${retry.attempt} of ${retry.maxAttempts})` : "";
    notice(visible(error.message) + (willRetry ? ` Trying again${attempt}.` : ""));
  },
};

function append(view, { itemId, delta }) {
  view.items.get(itemId)?.append(delta);
}
