// The page: connects, lists threads, shows the open one, sends messages, answers approvals.

import { ItemView, REQUESTS, RequestCard, el } from "./items.js";
import { Connection } from "./connection.js";

const $ = (id) => document.getElementById(id);

/** How much of a thread's history is loaded at a time. */
const TURNS_A_PAGE = 20;
const THREADS_A_PAGE = 50;

let connection = null;
/** The threads in the list, by id. */
const threads = new Map();
/** Cursor of the next page of the list; null at its end. */
let threadsCursor;
/** The open thread, created by `newView`; null without one. */
let open = null;
/** The cards of requests that are not answered, by the id of the request. */
const asked = new Map();

// ── What the server says ──────────────────────────────────────────────────────────────────────

/** Every notification passes through here, in order. */
function onNotification(method, params, eventCursor) {
  if (eventCursor && params.threadId === open?.id) open.cursor = eventCursor;
  const handle = NOTIFICATIONS[method];
  if (!handle) return; // of no interest to this page
  // What is still on its way from a thread that was left.
  const stray = params.threadId && params.threadId !== open?.id;
  if (!stray || handle.ofAnyThread) handle(params);
}

const NOTIFICATIONS = {
  "thread/started": anyThread(({ thread }) => listThread(thread)),
  "thread/name/updated": anyThread(({ threadId, threadName: name }) => patchThread(threadId, { name })),
  "thread/status/changed": anyThread(({ threadId, status }) => patchThread(threadId, { status })),
  "turn/started": ({ turn }) => {
    showTurn(open, turn);
    run("The list of threads", loadThreads()); // now it has a preview
  },
  "turn/completed": ({ turn }) => showTurn(open, turn),
  "item/started": ({ turnId, item }) => showItem(open, turnId, item, false),
  "item/completed": ({ turnId, item }) => showItem(open, turnId, item, true),
  "item/agentMessage/delta": append,
  "item/plan/delta": append,
  "item/reasoning/summaryTextDelta": append,
  "item/commandExecution/outputDelta": append,
  "item/reasoning/summaryPartAdded": ({ itemId }) => open.items.get(itemId)?.separate(),
  "serverRequest/resolved": ({ requestId }) => settle(requestId),
  "error": ({ error, willRetry }) => notice(error.message + (willRetry ? " Trying again." : "")),
  "warning": anyThread(({ message }) => notice(message)),
  "configWarning": anyThread(({ summary }) => notice(summary)),
};

function anyThread(handle) {
  return Object.assign(handle, { ofAnyThread: true });
}

function append({ itemId, delta }) {
  open.items.get(itemId)?.append(delta);
}

/** Requests of the server: those that the card can show. */
function onRequest(id, method, params) {
  if (!(method in REQUESTS)) return false;
  // The question of a thread that was left is asked again when somebody opens it.
  if (params.threadId !== open?.id) return true;
  const card = new RequestCard(method, params, (result) => connection.answer(id, result));
  asked.set(id, card);
  const item = open.items.get(params.itemId);
  if (item) item.element.after(card.element);
  else turnView(open, params.turnId).items.append(card.element);
  // Whoever has begun to type is left alone.
  if (!document.activeElement?.value) card.focus();
  return true;
}

function settle(requestId) {
  const card = asked.get(requestId);
  asked.delete(requestId);
  const hadFocus = card?.element.contains(document.activeElement);
  card?.settle();
  if (hadFocus) $("message").focus();
}

// ── The connection ────────────────────────────────────────────────────────────────────────────

function onState(phase, words) {
  $("status").textContent = words;
  $("status").dataset.phase = phase;
  const ended = phase === "closed" || phase === "failed";
  $("connect").hidden = !ended;
  $("disconnect").hidden = ended;
  if (ended) {
    $("workspace").hidden = true;
    $("token").focus();
  }
  showControls();
}

/** After each handshake: the first one, and that after a loss. */
function onReady() {
  // Kept for coming back after a loss, and nowhere else: not in the address, not in storage.
  $("token").value = "";
  $("workspace").hidden = false;
  run("The list of threads", loadThreads());
  // Missed events are sent again, and open requests are repeated.
  if (open) openThread(open.id);
  else $("cwd").focus();
}

$("connect").addEventListener("submit", (event) => {
  event.preventDefault();
  notice("");
  connection?.close();
  forget();
  const handlers = { onState, onReady, onNotification, onRequest };
  connection = new Connection($("url").value.trim(), $("token").value.trim(), handlers);
});

$("disconnect").addEventListener("click", () => {
  connection.close();
  forget();
});

/** Nothing of one server is shown beside another. */
function forget() {
  threads.clear();
  threadsCursor = undefined;
  open = null;
  clearView();
  showThreads();
}

/** Reports the failure of a promise that no code awaits. */
async function run(what, promise) {
  try {
    await promise;
  } catch (error) {
    notice(`${what}: ${error.message}`);
  }
}

function notice(words) {
  $("notice").textContent = words;
}

// ── The list of threads ───────────────────────────────────────────────────────────────────────

/** The first page again, or the next one. */
async function loadThreads(cursor = null) {
  const page = await connection.call("thread/list", {
    cursor,
    limit: THREADS_A_PAGE,
    sortKey: "updated_at",
    // Threads of this page are `editor`, unless the server's configuration differs.
    sourceKinds: ["editor", "cli", "appServer", "exec"],
  });
  // The first page is read again whenever it may have changed; the others stay.
  if (cursor || threadsCursor === undefined) threadsCursor = page.nextCursor;
  for (const thread of page.data) threads.set(thread.id, thread);
  showThreads();
}

function listThread(thread) {
  threads.set(thread.id, thread);
  showThreads();
}

function patchThread(id, change) {
  if (threads.has(id)) listThread({ ...threads.get(id), ...change });
}

function showThreads() {
  const focused = document.activeElement?.dataset.thread;
  const later = (a, b) => b.updatedAt - a.updatedAt || (a.id < b.id ? 1 : -1);
  const newest = [...threads.values()].sort(later);
  const rows = newest.map((thread) => {
    const hint = [wordsOf(thread.status), thread.cwd].filter(Boolean).join(" · ");
    const onclick = () => thread.id !== open?.id && openThread(thread.id);
    const button = el(
      "button",
      { type: "button", onclick },
      el("span", { className: "name" }, nameOf(thread)),
      el("span", { className: "hint" }, hint),
    );
    button.dataset.thread = thread.id;
    button.dataset.status = thread.status.type;
    if (thread.id === open?.id) button.ariaCurrent = "true";
    return el("li", {}, button);
  });
  $("threads").replaceChildren(...rows);
  if (focused) rows[newest.findIndex((thread) => thread.id === focused)]?.firstChild.focus();
  $("more-threads").hidden = !threadsCursor;
  if (open && threads.has(open.id)) $("title").textContent = nameOf(threads.get(open.id));
}

function nameOf(thread) {
  return thread.name || thread.preview || "New thread";
}

function wordsOf({ type, activeFlags }) {
  if (type === "systemError") return "failed";
  if (type !== "active") return "";
  return activeFlags.includes("waitingOnApproval") ? "needs approval" : "working";
}

$("more-threads").addEventListener("click", () => {
  run("The list of threads", loadThreads(threadsCursor));
});

// ── The open thread ───────────────────────────────────────────────────────────────────────────

/** Subscriptions change one after another, in the order in which they were asked for. */
let subscribing = Promise.resolve();
function subscribe(what, change) {
  subscribing = subscribing.then(() => run(what, change()));
}

function clearView() {
  asked.clear();
  $("turns").replaceChildren();
  $("older").hidden = true;
  $("title").textContent = "No thread is open";
}

/** The page, cleared for a thread that was just subscribed to, with the turns that came along. */
function newView(thread, cursor) {
  clearView();
  // `running` is the id of the turn in progress, `older` the cursor of earlier turns, `cursor` the
  // place of the last event that is shown.
  open = { id: thread.id, folder: thread.cwd, running: null, older: null, cursor };
  Object.assign(open, { turns: new Map(), items: new Map() });
  for (const turn of thread.turns) showTurn(open, turn);
  listThread(thread);
  showControls();
  following = true;
  return open;
}

/** Opens a thread, or, after a loss of the connection, the one that is open already. */
function openThread(id) {
  subscribe("The thread could not be opened", async () => {
    const again = open?.id === id;
    await leave(id);
    const params = { threadId: id, eventCursor: again ? open.cursor : undefined };
    const { thread, eventCursor, eventReplay } = await connection.call("thread/resume", params);
    if (eventReplay?.type === "replayed") {
      // What is shown is right; what was missed follows. Open questions are asked again.
      for (const card of asked.values()) card.element.remove();
      asked.clear();
      listThread(thread);
      showControls();
      return;
    }
    // The turns hold one that is running, with its items so far; the events that follow continue
    // from exactly there. After a snapshot the page is simply filled anew.
    const view = newView(thread, eventCursor);
    if (!again) $("message").focus();
    await loadTurns(view);
  });
}

$("start").addEventListener("submit", (event) => {
  event.preventDefault();
  notice("");
  subscribe("The thread could not be started", async () => {
    await leave(null);
    const { thread, eventCursor } = await connection.call("thread/start", {
      cwd: $("cwd").value.trim() || null,
      approvalPolicy: "unlessTrusted",
      sandbox: "workspaceWrite",
    });
    newView(thread, eventCursor);
    $("message").focus();
  });
});

/** Ends the subscription to the open thread, unless that is the one to be opened. */
async function leave(next) {
  if (!open || open.id === next) return;
  const { id } = open;
  open = null;
  clearView();
  showControls();
  // Without a connection there is no subscription either.
  await connection.call("thread/unsubscribe", { threadId: id }).catch(() => {});
}

/** A page of history, newest first. Turns in progress come with `thread/resume` and events. */
async function loadTurns(view) {
  const page = await connection.call("thread/turns/list", {
    threadId: view.id,
    itemsView: "full",
    limit: TURNS_A_PAGE,
    cursor: view.older,
  });
  if (open !== view) return;
  for (const turn of page.data) {
    if (turn.status !== "inProgress" && !view.turns.has(turn.id)) showTurn(view, turn, true);
  }
  view.older = page.nextCursor;
  $("older").hidden = !view.older;
}

$("older").addEventListener("click", () => run("Older turns", loadTurns(open)));

/** Shows a turn at the end, or before all others; or what became of one that is shown. */
function showTurn(view, turn, before = false) {
  const shown = turnView(view, turn.id, before);
  for (const item of turn.items) showItem(view, turn.id, item, turn.status !== "inProgress");
  const ended = { inProgress: "", completed: "", interrupted: "Interrupted.", failed: "Failed." };
  shown.end.textContent = [ended[turn.status], turn.error?.message].filter(Boolean).join(" ");
  shown.element.dataset.status = turn.status;
  if (turn.status === "inProgress") view.running = turn.id;
  else if (view.running === turn.id) view.running = null;
  showControls();
}

function turnView(view, id, before = false) {
  if (!view.turns.has(id)) {
    const items = el("ol");
    const end = el("p", { className: "end" });
    const shown = { element: el("section", { className: "turn" }, items, end), items, end };
    view.turns.set(id, shown);
    if (before) $("turns").prepend(shown.element);
    else $("turns").append(shown.element);
  }
  return view.turns.get(id);
}

function showItem(view, turnId, item, done) {
  if (!view.items.has(item.id)) {
    const shown = new ItemView();
    view.items.set(item.id, shown);
    turnView(view, turnId).items.append(shown.element);
  }
  view.items.get(item.id).show(item, view.folder, done);
}

// ── What the user does ────────────────────────────────────────────────────────────────────────

function showControls() {
  const usable = Boolean(open) && $("status").dataset.phase === "open";
  $("message").disabled = !open;
  $("send").disabled = !usable || Boolean(open.running);
  if (!open?.running && document.activeElement === $("interrupt")) $("message").focus();
  $("interrupt").hidden = !open?.running;
  $("interrupt").disabled = !usable;
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("message").value.trim();
  if (!text || $("send").disabled) return;
  notice("");
  run("The message was not sent", (async () => {
    $("send").disabled = true; // until the turn says more
    const view = open;
    try {
      const input = [{ type: "text", text }];
      const { turn } = await connection.call("turn/start", { threadId: view.id, input });
      if ($("message").value.trim() === text) $("message").value = "";
      if (open === view) showTurn(view, turn);
    } finally {
      showControls();
    }
  })());
});

$("message").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("composer").requestSubmit();
});

$("interrupt").addEventListener("click", () => {
  const { id: threadId, running: turnId } = open;
  run("The turn was not interrupted", connection.call("turn/interrupt", { threadId, turnId }));
});

// ── Scrolling ─────────────────────────────────────────────────────────────────────────────────

/** Whether the end is in view: then it stays there while the text grows. */
let following = true;

$("stream").addEventListener("scroll", () => {
  const { scrollTop, scrollHeight, clientHeight } = $("stream");
  following = scrollHeight - scrollTop - clientHeight < 40;
});

function scrollToEnd() {
  $("stream").scrollTop = $("stream").scrollHeight;
}

new ResizeObserver(() => following && scrollToEnd()).observe($("turns"));
