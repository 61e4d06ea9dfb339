// The way to a model: an account, a key, a server at another address, a model on this machine, or the offline one.
// It opens by itself when there is none, and from the settings.

import { textField } from "./dialog.js";
import { $, button, el, openDialog, run } from "./dom.js";
import { visible } from "./text.js";

const PLANS = { unknown: "" };

export class Setup {
  #connection;
  #onReady;
  #dialog = $("setup");
  /** The account and the configuration, as they were read last. */
  #facts = null;
  /** A login at the service that has not ended. */
  #login = null;
  /** The thread of the address has priority over the first opening. */
  #wasShown = false;

  /** `onReady(isNew)`: a model can be asked; `isNew`: by a choice that was just made. */
  constructor(connection, onReady) {
    this.#connection = connection;
    this.#onReady = onReady;
    for (const id of ["provider-open", "account-open"]) $(id).addEventListener("click", () => this.show());
    this.#dialog.addEventListener("close", () => this.#cancelLogin());
  }

  /** After each handshake: without a way to a model, it opens once. */
  async check() {
    const facts = await run("The login state is unknown", this.#read());
    if (!facts) return;
    $("no-provider").hidden = !facts.isMissing;
    if (facts.isMissing && !this.#wasShown && !document.querySelector("dialog[open]")) this.show();
  }

  async show() {
    this.#wasShown = true;
    if (!await run("The settings of the provider", this.#read())) return;
    this.#choose();
    if ($("settings").open) $("settings").close();
    openDialog(this.#dialog);
    this.#focus();
  }

  /** `account/login/completed`. */
  completed({ loginId, success, error }) {
    if (!this.#login || loginId !== this.#login) return;
    this.#login = null;
    if (success) this.#loggedIn();
    else this.#choose(error ?? "The login failed.");
  }

  /** `account/updated`: someone logged in or out, perhaps elsewhere. */
  async updated() {
    await run("The login state is unknown", this.#read());
    $("no-provider").hidden = !this.#facts?.isMissing;
  }

  async #read() {
    const [{ account, requiresDefaultAuth }, { config }, { available }] = await Promise.all([
      this.#connection.call("account/read"), this.#connection.call("config/read", { includeDefaults: true }),
      this.#connection.call("modelProvider/list"),
    ]);
    const provider = config.model_provider ?? "default";
    const usesAccount = provider === "default" || Boolean(config.model_providers?.[provider]?.requires_default_auth);
    this.#facts = {
      account, provider, usesAccount, available, model: config.model, isMissing: usesAccount && requiresDefaultAuth && !account,
      hasService: Boolean(config.hosted_base_url), forced: config.forced_login_method,
    };
    return this.#facts;
  }

  /** Shows one step: a title, its nodes, and a way back. */
  #step(title, nodes, { back = () => this.#choose(), problem } = {}) {
    const close = button("Close", () => this.#dialog.close());
    const wrong = problem && el("p", { className: "field-error", role: "alert" }, problem);
    this.#dialog.replaceChildren(el("h2", { id: "setup-title", tabIndex: -1 }, title), ...[wrong, ...nodes].filter(Boolean),
      el("div", { className: "buttons" }, back && button("Back", back), close));
    if (this.#dialog.open) this.#focus();
  }

  #focus() {
    (this.#dialog.querySelector("input, select, .way") ?? $("setup-title")).focus();
  }

  #choose(problem) {
    this.#cancelLogin();
    const { account, provider, model, hasService, forced, isMissing, available } = this.#facts;
    const now = isMissing
      ? el("p", {}, `There is no account and no API key for the provider “${visible(provider)}”. Which provider runs the model?`)
      : el("p", {}, `New threads use the provider “${visible(provider)}”${model ? ` with ${visible(model)}` : ""}.`);
    const way = (words, hint, show) => el("li", {}, el("button", { type: "button", className: "way", onclick: show },
      el("strong", {}, words), el("span", { className: "hint" }, hint)));
    const accounts = hasService && forced !== "api" ? [
      way("Log in with an account", "On a page that opens in this browser.", () => this.#begin({ type: "hosted" })),
      way("Log in with a code", "On any device, even if the server runs on another machine.", () => this.#begin({ type: "hostedDeviceCode" })),
    ] : [];
    const keys = forced === "hosted" ? [] : [way("Enter an API key", "For the hosted service. The server stores it and never shows it to clients.", () => this.#key())];
    // A key of the server's environment is used only when someone chooses it here.
    const found = available.map((one) => way(`Use ${one.displayName} with the key in ${one.envKey}`,
      "The configuration gets only the name of the variable.", () => this.#useAvailable(one)));
    const ways = [...found, ...accounts, ...keys,
      way("Use another address", "A model server or a gateway: a company's, vLLM, llama.cpp … It is asked how it is spoken to.", () => this.#address()),
      way("Use a model on the server's machine", "Ollama or LM Studio. Needs no key.", () => this.#local()),
      way("Use the offline model", "A script answers, to try the program: no key, no network.", () => this.#use({ model_provider: "offline", model: null })),
    ];
    const who = account && el("div", { className: "account" }, el("p", { className: "grow" }, described(account)), button("Log out", () => this.#logOut()));
    this.#step("Choose a model provider", [now, who, el("ul", { className: "ways" }, ...ways)], { back: null, problem });
  }

  async #logOut() {
    try {
      await this.#connection.call("account/logout");
      await this.#read();
      this.#choose();
    } catch (error) {
      this.#choose(error.message);
    }
    $("no-provider").hidden = !this.#facts.isMissing;
  }

  // ── Accounts and keys ───────────────────────────────────────────────────────────────────────

  async #begin(params) {
    let begun;
    try {
      begun = await this.#connection.call("account/login/start", params);
    } catch (error) {
      this.#choose(error.message);
      return;
    }
    this.#login = begun.loginId;
    const address = begun.authUrl ?? begun.verificationUrl;
    const link = el("a", { href: address, target: "_blank", rel: "noopener noreferrer", className: "way" }, `Open the page at ${new URL(address).host}`);
    const code = begun.userCode && el("p", {}, "and enter the code ", el("code", { className: "code-to-enter" }, begun.userCode));
    this.#step("Log in", [el("p", {}, link), code, el("p", { className: "hint", role: "status" }, "Waiting for the login …")]);
  }

  #cancelLogin() {
    if (!this.#login) return;
    const loginId = this.#login;
    this.#login = null;
    // It may have ended just now, or the connection with it.
    this.#connection.call("account/login/cancel", { loginId }).catch(() => {});
  }

  #key() {
    const key = textField("API key", { type: "password", spellcheck: false, required: true });
    const send = this.#form([key.element], "Save the key", async () => {
      await this.#connection.call("account/login/start", { type: "apiKey", apiKey: key.read() });
      await this.#loggedIn();
    });
    this.#step("Enter an API key", [send]);
  }

  async #loggedIn() {
    const facts = await run("The login state is unknown", this.#read());
    if (facts && !facts.usesAccount) await this.#use({ model_provider: "default", model: null });
    else await this.#done();
  }

  // ── Other providers ─────────────────────────────────────────────────────────────────────────

  #address() {
    const name = textField("Name", { required: true, pattern: ".*[A-Za-z0-9].*", placeholder: "Company gateway" });
    const address = textField("Address", { type: "url", required: true, placeholder: "https://models.example.com/v1", spellcheck: false });
    const key = textField("Key, if it needs one", { type: "password", spellcheck: false },
      "The configuration file holds it in plain text. To keep it elsewhere, set env_key of the provider there.");
    const form = this.#form([name.element, address.element, key.element], "List its models", async () => {
      const id = name.read().toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
      if (["default", "offline", "ollama", "lmstudio"].includes(id)) throw new Error(`“${id}” is a built-in provider. Choose another name.`);
      const provider = { name: name.read(), base_url: address.read(), ...(key.read() && { experimental_bearer_token: key.read() }) };
      const values = (more) => ({ [`model_providers.${id}`]: { ...provider, ...more }, model_provider: id });
      await this.#find(values, address.read(), key.read());
    });
    this.#step("Use another address", [form]);
  }

  /** Asks a server for its models and its protocol. One without a list can be used with a model that is named. */
  async #find(values, address, apiKey) {
    let found;
    try {
      found = await this.#connection.call("modelProvider/find", { address, ...(apiKey && { apiKey }) });
    } catch (error) {
      const named = button("Enter a model's name", () => run("The provider", this.#look({ ...values({ wire_api: "auto" }), model: null }, true)));
      this.#step("Use another address", [named], { back: () => this.#address(), problem: error.message });
      return;
    }
    const { baseUrl, wireApi, models, defaultModel } = found;
    const select = el("select", {}, ...models.map((model) => el("option", { value: model }, visible(model))));
    select.value = defaultModel;
    const form = this.#form([el("label", {}, "Model", select)], "Use this model",
      () => this.#use({ ...values({ base_url: baseUrl, wire_api: wireApi }), model: select.value }));
    this.#step("Choose the model", [form], { back: () => this.#address() });
  }

  /** Writes a provider with the name of its variable, and takes a cheap model of its own list. */
  async #useAvailable({ id, displayName, baseUrl, wireApi, envKey }) {
    const key = `model_providers.${id}`;
    this.#step(displayName, [el("p", { role: "status" }, `Asking ${displayName} for its models …`)]);
    try {
      await this.#write({ [key]: { name: displayName, base_url: baseUrl, env_key: envKey, wire_api: wireApi } });
      try {
        const { data } = await this.#connection.call("model/list", { modelProvider: id });
        const models = data.filter(({ hidden }) => !hidden);
        const model = (models.find(({ isDefault }) => isDefault) ?? models[0])?.model;
        if (!model) throw new Error(`${displayName} lists no models.`);
        await this.#use({ model_provider: id, model });
      } catch (error) {
        await this.#write({ [key]: null });
        throw error;
      }
    } catch (error) {
      this.#choose(error.message);
    }
  }

  #local() {
    const way = (id, name) => el("li", {}, el("button", { type: "button", className: "way", onclick: () => this.#lookLocally(id, name) }, el("strong", {}, name)));
    this.#step("A model on the server's machine", [el("ul", { className: "ways" }, way("ollama", "Ollama"), way("lmstudio", "LM Studio"))]);
  }

  async #lookLocally(id, name) {
    try {
      await this.#look({ model_provider: id, model: null }, false);
    } catch (error) {
      this.#step(name, [], { back: () => this.#local(), problem: error.message });
    }
  }

  /**
   * Writes the provider, and asks the server for its models; the server lists those of the provider in force. Where
   * there are none, `takesName` lets one be named, or the configuration is put back.
   */
  async #look(values, takesName) {
    const { provider, model } = this.#facts;
    await this.#write(values);
    const { data } = await this.#connection.call("model/list", { limit: 100 });
    const models = data.filter(({ hidden }) => !hidden);
    const back = () => this.#write({ model_provider: provider, model: model ?? null }).then(() => this.#choose(), (error) => this.#choose(error.message));
    if (!models.length && !takesName) {
      await this.#write({ model_provider: provider, model: model ?? null });
      throw new Error("No model was found there. Start the program, or download a model with it, and try again.");
    }
    const select = el("select", {}, ...models.map((one) => el("option", { value: one.model }, visible(one.displayName || one.model))));
    const named = textField("Model", { required: true, spellcheck: false }, "The server lists no models. Enter the model's name on the server.");
    const form = this.#form([models.length ? el("label", {}, "Model", select) : named.element], "Use this model",
      () => this.#use({ model: models.length ? select.value : named.read() }));
    this.#step("Choose the model", [form], { back });
  }

  #write(values) {
    const edits = Object.entries(values).map(([keyPath, value]) => ({ keyPath, value, mergeStrategy: "replace" }));
    return this.#connection.call("config/batchWrite", { edits, reloadUserConfig: true });
  }

  async #use(values) {
    try {
      await this.#write(values);
      await this.#read();
      await this.#done();
    } catch (error) {
      this.#choose(error.message);
    }
  }

  async #done() {
    const { provider, model, isMissing } = this.#facts;
    $("no-provider").hidden = !isMissing;
    this.#onReady();
    const words = `New threads use the provider “${visible(provider)}”${model ? ` with ${visible(model)}` : ""}. Open threads keep theirs.`;
    const start = button("New thread", () => {
      this.#dialog.close();
      $("new-thread").click();
    }, { className: "primary way-start" });
    this.#step("Ready", [el("p", { role: "status" }, words), el("div", { className: "buttons" }, start)], { back: null });
    if (this.#dialog.open) start.focus();
  }

  /** A form of a step; what `send` fails with is shown in it. */
  #form(nodes, words, send) {
    const problem = el("p", { className: "field-error", role: "alert" });
    const submit = el("button", { className: "primary" }, words);
    const onsubmit = async (event) => {
      event.preventDefault();
      submit.disabled = true;
      problem.textContent = "";
      try {
        await send();
      } catch (error) {
        problem.textContent = error.message;
        submit.disabled = false;
        submit.focus();
      }
    };
    return el("form", { onsubmit, autocomplete: "off" }, ...nodes, problem, el("div", { className: "buttons" }, submit));
  }
}

function described(account) {
  if (account.type === "apiKey") return "An API key is stored.";
  if (account.type !== "hosted") return `Logged in: ${visible(account.type)}`;
  const plan = PLANS[account.planType] ?? account.planType;
  return `Logged in as ${visible(account.email)}${plan ? ` (${visible(plan)})` : ""}`;
}
