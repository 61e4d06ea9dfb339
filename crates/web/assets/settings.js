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
  #open;
  /** The models of each provider that can be asked, the configured one first. */
  #groups = [];
  #view = null;
  /** What the open thread works with, by the server's word. */
  #now = null;
  /** What was changed since the last turn of each thread, until the server has taken it. */
  #changes = new Map();

  /** `open(id)` opens a thread. */
  constructor(connection, open) {
    this.#connection = connection;
    this.#open = open;
    this.setTheme(stored("localStorage", "agentd.theme") ?? "");
    $("theme").addEventListener("change", () => this.setTheme($("theme").value));
    for (const id of ["settings-open", "status-line"]) $(id).addEventListener("click", () => this.show());
    $("model").addEventListener("change", () => this.#fillEfforts($("model").value));
    $("settings-form").addEventListener("submit", () => this.#apply());
  }

  /** Reads the models of the configured provider, of which there may be none. The other providers are asked meanwhile. */
  async load() {
    const groups = [];
    this.#groups = groups;
    const [page, providers] = await Promise.all([
      run("The list of models", this.#connection.call("model/list", { limit: 100 })),
      run("The list of model providers", this.#connection.call("modelProvider/list")),
    ]);
    const own = providers?.data.find(({ isDefault }) => isDefault);
    groups.push({ provider: own?.id ?? "default", name: own?.displayName ?? "", models: visibleOf(page?.data ?? []) });
    const others = (providers?.data ?? []).filter(({ isDefault, problem, baseUrl }) => !isDefault && !problem && baseUrl);
    for (const other of others) this.#ask(groups, other);
  }

  /** Asks a provider in the background. Its models, or why there are none, are in the list when it is opened next. */
  async #ask(groups, { id, displayName, isLocal }) {
    let group;
    try {
      const { data } = await this.#connection.call("model/list", { modelProvider: id, limit: 500 });
      group = { provider: id, name: displayName, models: visibleOf(data) };
    } catch (error) {
      // Such a server need not be there.
      if (isLocal) return;
      group = { provider: id, name: displayName, models: [], problem: error.message };
    }
    groups.push(group);
    if (groups === this.#groups && $("settings").open && this.#now) this.#fillModels($("model").value);
  }

  /** A thread was opened, with what the server says it works with. */
  open(view, response) {
    this.#view = view;
    this.#now = null;
    if (view && response) {
      const { model, modelProvider, reasoningEffort, approvalPolicy, sandbox } = response;
      this.#now = { model, modelProvider, effort: reasoningEffort ?? "", approvalPolicy, sandbox: sandbox.type };
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
      this.#fillModels(now.model);
      $("model-always").checked = false;
      this.#fillEfforts(now.model, now.effort);
      fill($("approval-policy"), APPROVALS, now.approvalPolicy);
      fill($("sandbox"), SANDBOXES, now.sandbox);
    }
    openDialog($("settings"));
    if (field && now) $(field).focus();
  }

  /** The models by provider. Those of the thread's own have their names as values, the others' have their provider, too. */
  #fillModels(chosen) {
    const { modelProvider } = this.#now;
    const options = ({ provider, models }) => models.map(({ model, displayName }) =>
      [provider === modelProvider ? model : JSON.stringify([provider, model]), displayName || model]);
    fillGroups($("model"), this.#groups.map((group) => ({ ...group, options: options(group) })), chosen);
  }

  #modelOf(value) {
    const [provider, model] = value.startsWith("[") ? JSON.parse(value) : [this.#now.modelProvider, value];
    return this.#groups.find((group) => group.provider === provider)?.models.find((one) => one.model === model);
  }

  #fillEfforts(model, chosen) {
    const known = this.#modelOf(model);
    const efforts = (known?.supportedReasoningEfforts ?? []).map(({ reasoningEffort: effort }) => [effort, effort]);
    const effort = chosen ?? known?.defaultReasoningEffort ?? "";
    // A thread that has an effort keeps one: none can be asked for only where there was none.
    const none = effort === "" ? [["", "The model's default"]] : [];
    fill($("effort"), [...none, ...efforts], effort);
  }

  #apply() {
    const now = this.#now;
    if (!now) return;
    const value = $("model").value;
    const [provider, model] = value.startsWith("[") ? JSON.parse(value) : [now.modelProvider, value];
    if ($("model-always").checked) this.#keep(provider, model);
    if (provider !== now.modelProvider) {
      this.#goOn(provider, model);
      return;
    }
    const wanted = {
      model, effort: $("effort").value, approvalPolicy: $("approval-policy").value, sandbox: $("sandbox").value,
    };
    // What is an object here, such as granular approvals, has no choice of its own and stays.
    const changed = Object.entries(wanted).filter(([name, value]) => value !== "" && value !== String(now[name]));
    this.#changes.set(this.#view.id, Object.fromEntries(changed));
    this.showLine();
  }

  /** Stores the model for new threads. */
  #keep(provider, model) {
    const edits = Object.entries({ model_provider: provider, model }).map(([keyPath, value]) => ({ keyPath, value, mergeStrategy: "replace" }));
    run("The model was not stored", this.#connection.call("config/batchWrite", { edits, reloadUserConfig: true }));
  }

  /** A thread keeps its provider, so the conversation goes on in a copy. */
  async #goOn(modelProvider, model) {
    const params = { threadId: this.#view.id, modelProvider, model, excludeTurns: true };
    const copy = await run("The thread was not continued with the other provider", this.#connection.call("thread/fork", params));
    if (copy) await this.#open(copy.thread.id);
  }
}

/** Fills a list of several groups, each with a name and perhaps a problem. */
function fillGroups(select, groups, chosen) {
  const isKnown = groups.some(({ options }) => options.some(([value]) => value === chosen));
  const option = ([value, words]) => el("option", { value }, visible(words));
  const several = groups.length > 1;
  const nodes = groups.flatMap(({ name, options, problem }) => {
    const all = problem ? [el("option", { disabled: true }, visible(problem))] : options.map(option);
    return several ? [el("optgroup", { label: visible(name) }, ...all)] : all;
  });
  select.replaceChildren(...(isKnown ? [] : [option([chosen, chosen])]), ...nodes);
  select.value = chosen;
}

function visibleOf(models) {
  return models.filter(({ hidden }) => !hidden);
}

/** Fills a list; the value in force is among the options even when it is none of the usual ones. */
function fill(select, options, chosen) {
  const isKnown = options.some(([value]) => value === chosen);
  const name = typeof chosen === "string" ? chosen : "As configured";
  const all = isKnown || chosen == null ? options : [[String(chosen), name], ...options];
  select.replaceChildren(...all.map(([value, words]) => el("option", { value }, visible(words))));
  select.value = String(chosen ?? "");
}
