// The page: puts its parts together, and opens threads.

import { Actions } from "./actions.js";
import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { $, button, el, notice, openDialog, run } from "./dom.js";
import { itemImage } from "./files.js";
import { Folders } from "./folders.js";
import { Goal } from "./goal.js";
import { Menu } from "./menu.js";
import { Notifier } from "./notify.js";
import { Panel } from "./panel.js";
import { isShown } from "./requests.js";
import { Settings } from "./settings.js";
import { Setup } from "./setup.js";
import { visible } from "./text.js";
import { ThreadView } from "./thread.js";
import { ThreadList, nameOf } from "./threads.js";
import { Usage } from "./usage.js";
import { keepToken, nameThread, takeToken, threadOfAddress } from "./token.js";

/** The open thread; null without one. */
let view = null;
/** The threads from which the open one, an agent's, was opened. */
let trail = [];
/** Requests of threads that are not open, by their ids: agents ask, too. */
const others = new Map();

const connection = new Connection({ onState, onReady, onNotification, onRequest });
const threads = new ThreadList(connection, (id, hit) => (hit ? openHit(id, hit) : openThread(id)), showTitle);
const settings = new Settings(connection, (id) => openThread(id));
const actions = new Actions();
const composer = new Composer(connection, settings, actions);
const panel = new Panel(connection, openAgent, cover);
const folders = new Folders(connection);
const goal = new Goal(connection);
const notifier = new Notifier();
const usage = new Usage(connection, () => view);
const setup = new Setup(connection, () => settings.load());
actions.host = {
  connection, composer, panel, settings, setup, goal, usage,
  nameOf: (thread) => nameOf(threads.get(thread.id) ?? thread),
  get view() {
    return view;
  },
  open: (id) => openThread(id),
  startThread,
};
new Menu($("actions"), $("actions-menu"), () => actions.entries());

// ── The connection ────────────────────────────────────────────────────────────────────────────

function onState(phase, words) {
  $("status").textContent = words;
  $("status").dataset.phase = phase;
  $("retry").hidden = phase !== "waiting";
  $("enter-token").hidden = phase !== "unauthorized";
  if (phase === "unauthorized") askForToken(words);
  composer?.update();
}

/** After each handshake: the first one, and that after a loss. */
function onReady() {
  // Those that are still open are sent again.
  others.clear();
  showOthers();
  threads.reload();
  settings.load();
  setup.check();
  // Missed events are sent again, and open requests are repeated.
  const id = view?.id ?? threadOfAddress();
  if (id) openThread(id);
}

function askForToken(words) {
  $("token-words").textContent = words;
  $("token").value = "";
  openDialog($("token-dialog"));
}

$("token-form").addEventListener("submit", () => {
  const token = $("token").value.trim();
  $("token").value = "";
  keepToken(token);
  connection.connect(token);
});
$("enter-token").addEventListener("click", () => askForToken("This page needs the server's token."));
$("retry").addEventListener("click", () => connection.retry());

// The address that the server printed, pasted into a tab with this page, loads nothing again.
addEventListener("hashchange", () => {
  if (new URLSearchParams(location.hash.slice(1)).has("token")) {
    $("token-dialog").close();
    connection.connect(takeToken());
  } else {
    const id = threadOfAddress();
    if (id && id !== view?.id && connection.isReady) openThread(id);
  }
});

// ── What the server says ──────────────────────────────────────────────────────────────────────

/** Every notification passes through here, in order. */
function onNotification(method, params, eventCursor) {
  const isOfView = view && params.threadId === view.id;
  if (eventCursor && isOfView) view.cursor = eventCursor;
  ANY_THREAD[method]?.(params);
  if (isOfView) view?.handle(method, params); // unless it was closed just now
  else if (method === "serverRequest/resolved") forgetOther(params.requestId);
}

/** What concerns the list, whichever thread is open. */
const ANY_THREAD = {
  "thread/started": ({ thread }) => threads.put(thread),
  "thread/name/updated": ({ threadId, threadName: name }) => {
    threads.patch(threadId, { name });
    if (threadId === view?.id) view.thread.name = name;
  },
  "thread/status/changed": ({ threadId, status }) => threads.patch(threadId, { status }),
  "thread/archived": ({ threadId }) => left(threadId, "The thread was archived."),
  "thread/deleted": ({ threadId }) => left(threadId, "The thread was deleted."),
  "thread/unarchived": () => threads.reload(),
  "turn/started": ({ threadId }) => threads.patch(threadId, { updatedAt: Math.floor(Date.now() / 1000) }),
  "item/started": named,
  "item/completed": named,
  "thread/rolledBack": ({ threadId }) => {
    if (threadId !== view?.id) return;
    view.cursor = undefined; // the turns are read again
    openThread(threadId);
  },
  "thread/queue/changed": (params) => params.threadId === view?.id && composer.queue.changed(params),
  "thread/goal/updated": ({ threadId, goal: now }) => threadId === view?.id && goal.set(now),
  "thread/goal/cleared": ({ threadId }) => threadId === view?.id && goal.set(null),
  "skills/changed": () => composer.sources.skillsChanged(),
  "account/rateLimits/updated": ({ rateLimits }) => usage.setLimits(rateLimits),
  "account/login/completed": (params) => setup.completed(params),
  "account/updated": () => setup.updated(),
  "warning": ({ message }) => notice(visible(message)),
  "configWarning": ({ summary }) => notice(visible(summary)),
};

/** The first message names a thread that has no name. */
function named({ threadId, item }) {
  const thread = item.type === "userMessage" ? threads.get(threadId) : null;
  const text = item.content?.find(({ type }) => type === "text")?.text;
  if (thread && !thread.preview && text) threads.patch(threadId, { preview: text });
}

function left(id, words) {
  threads.remove(id);
  if (id !== view?.id) return;
  closeThread();
  notice(words);
}

function onRequest(id, method, params) {
  if (!isShown(method)) return false;
  if (params.threadId === view?.id) return view.ask(id, method, params);
  others.set(id, params.threadId);
  showOthers();
  notifier.tell("answer needed", "An agent asks.", () => openAgent(params.threadId));
  return true;
}

function forgetOther(id) {
  if (others.delete(id)) showOthers();
}

/** Requests of other threads: one line for each thread, which leads there. */
function showOthers() {
  const ids = new Set(others.values());
  const rows = [...ids].map((id) =>
    el("li", {}, el("span", { className: "grow" }, `Another thread, an agent of this one or …${id.slice(-6)}, is waiting for an answer.`),
      button("Answer", () => openAgent(id), { className: "primary" })));
  $("other-requests").replaceChildren(...rows);
}

// ── Opening threads ───────────────────────────────────────────────────────────────────────────

/** Subscriptions change one after another, in the order in which they were asked for. */
let subscribing = Promise.resolve();
function subscribe(what, change) {
  subscribing = subscribing.then(() => run(what, change()));
  return subscribing;
}

/** Opens a thread, or, after a loss of the connection, the one that is open already. */
function openThread(id, from = []) {
  closeMenu();
  return subscribe("The thread could not be opened", async () => {
    const again = view?.id === id;
    const params = { threadId: id, eventCursor: again ? view.cursor : undefined };
    let response;
    try {
      response = await connection.call("thread/resume", params);
    } catch (error) {
      // Without a connection it is opened when there is one again. Another thread that cannot be opened
      // leaves the open one as it is.
      if (error.code !== undefined && again) closeThread();
      throw error;
    }
    const { thread, eventCursor, eventReplay } = response;
    if (again && eventReplay?.type === "replayed") {
      // What is shown is right; what was missed follows. Open questions are asked again.
      view.keepRequests(eventReplay.openRequestIds);
      threads.put({ ...thread, turns: [] });
      changed();
    } else {
      // The turns hold one that is running, with its items so far; the events that follow continue from
      // exactly there. After a snapshot the page is simply filled anew.
      const before = again ? null : view;
      if (!again) trail = from;
      show(response, thread, eventCursor, !again);
      if (before) leave(before);
    }
    if (!view.hasHistory) {
      await view.loadOlder();
      following = true;
      scrollToEnd();
    }
    await composer.settle();
  });
}

/** Opens a thread at the place that a search has found. */
async function openHit(id, { turnId, words }) {
  if (view?.id !== id) await openThread(id);
  else closeMenu();
  if (view?.id !== id) return;
  following = false;
  await run("The place was not found", view.reveal(turnId, words));
}

function openAgent(id) {
  const from = view && view.id !== id ? [...trail, view.id] : trail;
  openThread(id, from);
}

function show(response, thread, cursor, focus) {
  view = new ThreadView(thread, cursor, {
    connection, openAgent, onChange: changed, onTurnEnd: turnEnded, onAsk: asked,
    image: (path) => itemImage(connection, path),
  });
  view.showTurnDiff = () => panel.update();
  view.onUsage = () => settings.showLine();
  for (const [request, of] of others) if (of === view.id) others.delete(request);
  showOthers();
  threads.put({ ...thread, turns: [] });
  threads.select(thread);
  nameThread(view.id);
  settings.open(view, response);
  goal.open(view);
  showHead();
  composer.open(view);
  panel.open(view);
  if (panelCovers.matches) panel.hide();
  following = true;
  changed();
  if (focus && !document.querySelector("dialog[open]")) $("message").focus();
}

function asked(words) {
  notifier.tell("answer needed", words, () => view?.focusRequest());
  watchRequests();
}

function turnEnded(status) {
  notifier.tell(status === "completed" ? "done" : status, "The turn has ended.", () => $("message").focus());
}

/** Ends the subscription to a thread that is no longer open. What it asks is still to be answered. */
function leave({ id, requests }) {
  for (const request of requests.keys()) others.set(request, id);
  showOthers();
  // Without a connection there is no subscription either.
  connection.call("thread/unsubscribe", { threadId: id }).catch(() => {});
}

function closeThread() {
  const hadFocus = $("thread-head").contains(document.activeElement) || $("composer").contains(document.activeElement);
  view = null;
  trail = [];
  threads.select(null);
  nameThread(null);
  settings.open(null);
  goal.open(null);
  composer.open(null);
  panel.open(null);
  $("turns").replaceChildren();
  showHead();
  if (hadFocus) $("welcome-start").focus(); // what had it is hidden
}

function showHead() {
  for (const id of ["thread-head", "stream", "composer"]) $(id).hidden = !view;
  $("welcome").hidden = Boolean(view);
  $("to-end").hidden = true;
  if (!view) {
    panel.hide();
    notifier.setTitle("agentd");
    return;
  }
  showTitle();
  const branch = view.thread.worktree?.branch;
  $("folder").textContent = visible(branch ? `${branch} · ${view.folder}` : view.folder);
  $("back").hidden = !trail.length;
  $("older").hidden = true;
}

function showTitle() {
  if (!view) return;
  const name = nameOf(threads.get(view.id) ?? view.thread);
  $("title").textContent = name;
  notifier.setTitle(`${name} · agentd`);
}

/** Something of the open thread has changed. */
function changed() {
  composer.update();
  panel.update();
  watchRequests();
}

$("back").addEventListener("click", () => {
  const to = trail.at(-1);
  openThread(to, trail.slice(0, -1));
});
$("older").addEventListener("click", () => run("Older turns", view.loadOlder()));

// ── What is done with threads ─────────────────────────────────────────────────────────────────

function startThread() {
  $("cwd").value = view?.folder ?? "";
  folders.open();
  openDialog($("start-dialog"));
  $("cwd").select();
}
for (const id of ["new-thread", "welcome-start"]) $(id).addEventListener("click", startThread);

$("start-form").addEventListener("submit", () => {
  notice("");
  closeMenu();
  const cwd = $("cwd").value.trim().replace(/(?<=.)\/+$/, "") || null;
  subscribe("The thread could not be started", async () => {
    const response = await connection.call("thread/start", { cwd });
    const before = view;
    trail = [];
    show(response, response.thread, response.eventCursor, true);
    view.hasHistory = true;
    if (before) leave(before);
  });
});

$("rename-form").addEventListener("submit", () => {
  const renamed = connection.call("thread/name/set", { threadId: view.id, name: $("name").value.trim() });
  run("The thread was not renamed", renamed);
});

// ── The page itself ───────────────────────────────────────────────────────────────────────────

for (const close of document.querySelectorAll("[data-close]")) {
  close.addEventListener("click", () => $(close.dataset.close).close());
}
$("notice-close").addEventListener("click", () => {
  notice("");
  $(view ? "message" : "new-thread").focus();
});
$("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment names the thread
  $(view ? "message" : "welcome-start").focus();
});

/** On narrow screens the list of threads comes over the page. */
$("menu").addEventListener("click", () => {
  const isOpen = document.body.classList.toggle("menu-open");
  $("menu").ariaExpanded = String(isOpen);
  cover();
  if (isOpen) $("new-thread").focus();
});
function closeMenu() {
  if (!document.body.classList.contains("menu-open")) return;
  document.body.classList.remove("menu-open");
  $("menu").ariaExpanded = "false";
  cover();
  $("menu").focus();
}

/** What the list or the panel lies over cannot be reached with Tab either. The widths are those of style.css. */
const [menuCovers, panelCovers] = [matchMedia("(max-width: 680px)"), matchMedia("(max-width: 900px)")];
function cover() {
  const isMenu = menuCovers.matches && document.body.classList.contains("menu-open");
  const isPanel = panelCovers.matches && !$("panel").hidden;
  document.querySelector("main").inert = isMenu || isPanel;
  document.querySelector("header").inert = isPanel;
  $("skip").inert = isMenu || isPanel;
  $("sidebar").inert = isPanel;
}
for (const query of [menuCovers, panelCovers]) query.addEventListener("change", cover);
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) closeMenu();
});

/** Whether the end is in view: then it stays there while the text grows. */
let following = true;
let lastTop = 0;
$("stream").addEventListener("scroll", () => {
  const { scrollTop, scrollHeight, clientHeight } = $("stream");
  // What has grown since the page itself scrolled is no reason to stay behind.
  following = scrollHeight - scrollTop - clientHeight < 40 || (following && scrollTop >= lastTop);
  lastTop = scrollTop;
  $("to-end").hidden = following;
});
$("to-end").addEventListener("click", () => {
  following = true;
  scrollToEnd();
  $("message").focus();
});
function scrollToEnd() {
  const stream = $("stream");
  stream.scrollTop = stream.scrollHeight;
  // Of a long request the beginning is in view: it says what is asked.
  const [card] = [...(view?.requests.values() ?? [])].map(({ element }) => element);
  if (card && card.getBoundingClientRect().top < stream.getBoundingClientRect().top) card.scrollIntoView({ block: "start" });
  lastTop = stream.scrollTop;
}

/** While an open request is out of view, a line above the composer leads to it. */
const requestsSeen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) target.dataset.seen = String(isIntersecting);
  showWaiting();
}, { root: $("stream") });
let watched = [];
function watchRequests() {
  const cards = view ? [...view.requests.values()].map(({ element }) => element) : [];
  for (const card of watched) if (!cards.includes(card)) requestsSeen.unobserve(card);
  for (const card of cards) if (!watched.includes(card)) requestsSeen.observe(card);
  watched = cards;
  showWaiting();
}
function showWaiting() {
  const isWaiting = watched.length > 0 && watched.every(({ dataset }) => dataset.seen === "false");
  $("request-waits").hidden = !isWaiting;
}
$("request-show").addEventListener("click", () => view?.focusRequest());

const resized = new ResizeObserver(() => following && scrollToEnd());
resized.observe($("turns"));
resized.observe($("stream"));

connection.connect(takeToken());
