// Settings: those of the open thread, which its next turn takes, and the theme of the page.

import { $, el, openDialog, run, store, stored } from "./dom.js";
import { visible } from "./text.js";
import { costOf } from "./usage.js";

const APPROVALS = [
  ["unlessTrusted", "Ask before commands that are not known to be safe"],
  ["onRequest", "The agent asks when it needs more access"],
  ["onFailure", "Ask when a command fails in the sandbox"],
  ["never", "Never ask"],
];
const SANDBOXES = [
  ["readOnly", "Read only"],
  ["workspaceWrite", "Write in the working folder"],
  ["dangerFullAccess", "Full access, without a sandbox"],
];
const SHORT = {
  unlessTrusted: "asks unless trusted", onRequest: "asks on request", onFailure: "asks on failure", never: "never asks",
  readOnly: "read only", workspaceWrite: "workspace", dangerFullAccess: "full access",
};

export class Settings {
  #connection;
  #models = [];
  #view = null;
  /** What the open thread works with, by the server's word. */
  #now = null;
  /** What was changed since the last turn of each thread, until the server has taken it. */
  #changes = new Map();

  constructor(connection) {
    this.#connection = connection;
    this.setTheme(stored("localStorage", "agentd.theme") ?? "");
    $("theme").addEventListener("change", () => this.setTheme($("theme").value));
    for (const id of ["settings-open", "status-line"]) $(id).addEventListener("click", () => this.show());
    $("model").addEventListener("change", () => this.#fillEfforts($("model").value));
    $("settings-form").addEventListener("submit", () => this.#apply());
  }

  /** Reads the models, of which there may be none to choose from. */
  async load() {
    const page = await run("The list of models", this.#connection.call("model/list", { limit: 100 }));
    this.#models = (page?.data ?? []).filter(({ hidden }) => !hidden);
  }

  /** A thread was opened, with what the server says it works with. */
  open(view, response) {
    this.#view = view;
    this.#now = null;
    if (view && response) {
      const { model, reasoningEffort, approvalPolicy, sandbox } = response;
      this.#now = { model, effort: reasoningEffort ?? "", approvalPolicy, sandbox: sandbox.type };
    }
    this.showLine();
  }

  /** The parameters of the next turn: what was changed. */
  changesOf(threadId) {
    const { sandbox, ...changes } = this.#changes.get(threadId) ?? {};
    return sandbox ? { ...changes, sandboxPolicy: { type: sandbox } } : changes;
  }

  /** A turn has started with these changes; they hold from now on. */
  took(threadId, { sandboxPolicy, ...changes }) {
    const taken = sandboxPolicy ? { ...changes, sandbox: sandboxPolicy.type } : changes;
    const left = Object.entries(this.#changes.get(threadId) ?? {}).filter(([name, value]) => taken[name] !== value);
    this.#changes.set(threadId, Object.fromEntries(left));
    if (this.#view?.id === threadId && this.#now) Object.assign(this.#now, taken);
    this.showLine();
  }

  /** What the next turn of the open thread will work with. */
  #next() {
    return this.#now && { ...this.#now, ...this.#changes.get(this.#view.id) };
  }

  /** The line below the composer. */
  showLine() {
    const now = this.#next();
    $("status-line").hidden = !now;
    if (!now) return;
    const { model, effort, approvalPolicy, sandbox } = now;
    const used = this.#view.contextUsed;
    // The name of a scripted model is the path of its script.
    const parts = [model.startsWith("/") ? model.split("/").at(-1) : model, effort, SHORT[approvalPolicy] ?? "granular approvals", SHORT[sandbox] ?? sandbox, used != null && `${used} % of the context`, costOf(this.#view.usage)];
    $("status-line").textContent = parts.filter(Boolean).map((part) => visible(part)).join(" · ");
    $("status-line").dataset.danger = String(sandbox === "dangerFullAccess");
  }

  setTheme(theme) {
    store("localStorage", "agentd.theme", theme);
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    $("theme").value = theme;
  }

  /** Opens the settings; `field`: the one that gets the focus. */
  show(field) {
    const now = this.#next();
    $("thread-settings").hidden = !now;
    $("no-settings").hidden = Boolean(now);
    if (now) {
      const names = this.#models.map(({ model, displayName }) => [model, displayName || model]);
      fill($("model"), names, now.model);
      this.#fillEfforts(now.model, now.effort);
      fill($("approval-policy"), APPROVALS, now.approvalPolicy);
      fill($("sandbox"), SANDBOXES, now.sandbox);
    }
    openDialog($("settings"));
    if (field && now) $(field).focus();
  }

  #fillEfforts(model, chosen) {
    const known = this.#models.find((one) => one.model === model);
    const efforts = (known?.supportedReasoningEfforts ?? []).map(({ reasoningEffort: effort }) => [effort, effort]);
    const effort = chosen ?? known?.defaultReasoningEffort ?? "";
    // A thread that has an effort keeps one: none can be asked for only where there was none.
    const none = effort === "" ? [["", "The model's default"]] : [];
    fill($("effort"), [...none, ...efforts], effort);
  }

  #apply() {
    const now = this.#now;
    if (!now) return;
    const wanted = {
      model: $("model").value, effort: $("effort").value, approvalPolicy: $("approval-policy").value, sandbox: $("sandbox").value,
    };
    // What is an object here, such as granular approvals, has no choice of its own and stays.
    const changed = Object.entries(wanted).filter(([name, value]) => value !== "" && value !== String(now[name]));
    this.#changes.set(this.#view.id, Object.fromEntries(changed));
    this.showLine();
  }
}

/** Fills a list; the value in force is among the options even when it is none of the usual ones. */
function fill(select, options, chosen) {
  const isKnown = options.some(([value]) => value === chosen);
  const name = typeof chosen === "string" ? chosen : "As configured";
  const all = isKnown || chosen == null ? options : [[String(chosen), name], ...options];
  select.replaceChildren(...all.map(([value, words]) => el("option", { value }, visible(words))));
  select.value = String(chosen ?? "");
}
