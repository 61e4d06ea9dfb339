// Requests of the server: approvals, permissions, questions and elicitations, as cards with their answers.

import { button, el } from "./dom.js";
import { questionField, schemaField } from "./fields.js";
import { exact, visible } from "./text.js";

/** Keys and clicks within this time of a card's appearance were meant for something else. */
const SETTLING_MS = 400;
/** An answer that has settled nothing by then was lost, or is none to the server: it can be given again. */
const ACCEPTING_MS = 5000;

const ELSEWHERE = "Answered elsewhere, or no longer needed.";

/** What a request asks: `title`, `subject` (what exactly would happen), `lines`, and `choices` or a `form`. */
const REQUESTS = {
  "item/commandExecution/requestApproval": (params) => {
    const { command, networkApprovalContext: network, availableDecisions, additionalPermissions } = params;
    return {
      title: network ? "Connect to this host?" : "Run this command?",
      subject: network ? `${network.protocol}: ${network.host}` : (command ?? ""),
      lines: permissionLines(additionalPermissions),
      choices: decisions(availableDecisions ?? PLAIN_DECISIONS),
    };
  },
  "item/fileChange/requestApproval": ({ grantRoot }, item) => ({
    title: grantRoot ? "Make these changes, and allow edits here from now on?" : "Make these changes?",
    subject: grantRoot ?? "",
    lines: (item?.changes ?? []).map(({ path, kind }) => `${CHANGES[kind.type] ?? kind.type} ${visible(path)}`),
    choices: decisions(PLAIN_DECISIONS),
  }),
  "item/permissions/requestApproval": ({ permissions }) => ({
    title: "Give commands these permissions?",
    subject: "",
    lines: permissionLines(permissions),
    choices: [
      ["Grant until the turn ends", { permissions, scope: "turn" }],
      ["Grant for this session", { permissions, scope: "session" }],
      ["Decline", { permissions: {} }],
    ],
  }),
  "item/tool/requestUserInput": ({ questions }) => ({ title: "The agent asks you", form: questionForm(questions) }),
  "mcpServer/elicitation/request": (params) => elicitation(params),
};

const CHANGES = { add: "add", delete: "delete", update: "change" };

export function isShown(method) {
  return method in REQUESTS;
}

/** The card of a request; `answer(result)` returns whether the answer was sent. */
export class RequestCard {
  element;
  label;
  #card;
  #outcome = ELSEWHERE;
  #answer;
  #shownAt = performance.now();
  #timer;

  constructor(method, params, item, answer) {
    const { title, subject, lines, choices, form, link } = REQUESTS[method](params, item);
    this.#answer = answer;
    this.label = title;
    const words = [title, subject && visible(subject)].filter(Boolean).join(" ");
    this.#card = el("div", { role: "group", className: "request", tabIndex: -1, "aria-label": words }, el("h3", {}, title));
    const add = (...nodes) => this.#card.append(...nodes.filter(Boolean));
    if (params.serverName) add(el("p", { className: "hint" }, `The MCP server ${visible(params.serverName)} asks:`));
    for (const text of [params.reason, params.message]) add(text && el("p", { className: "words" }, ...exact(text)));
    // The whole of it, however long: an approval must not hide what would run.
    add(subject && el("pre", { className: "subject" }, el("code", {}, ...exact(subject))));
    add(lines?.length && el("ul", { className: "lines" }, ...lines.map((line) => el("li", {}, line))));
    add(params.cwd && el("p", { className: "hint" }, `in ${visible(params.cwd)}`), link);
    add(form ? this.#form(form) : this.#buttons(choices));
    this.element = el("li", { className: "item asking" }, this.#card);
  }

  /** One button for each answer; the first is the plain yes. */
  #buttons(choices) {
    const one = ([words, result], at) =>
      button(words, () => this.#choose(`Your answer: ${words}`, result), { className: at === 0 ? "primary" : "" });
    return el("div", { className: "buttons" }, ...choices.map(one));
  }

  #form({ fields, submit, others, read }) {
    const send = (event) => {
      event.preventDefault();
      const isValid = fields.map((field) => field.check?.() ?? true).every(Boolean);
      if (isValid) this.#choose("You answered.", read(fields));
    };
    const rest = others.map(([words, result]) => button(words, () => this.#choose(`Your answer: ${words}`, result)));
    return el("form", { onsubmit: send, autocomplete: "off" }, ...fields.map(({ element }) => element),
      el("div", { className: "buttons" }, el("button", { className: "primary" }, submit), ...rest));
  }

  #choose(outcome, result) {
    if (performance.now() - this.#shownAt < SETTLING_MS) return;
    if (!this.#answer(result)) return;
    this.#outcome = outcome;
    this.#disable(true);
    this.#timer = setTimeout(() => this.reopen(), ACCEPTING_MS);
    this.focus(); // a disabled button would lose it to nowhere
  }

  #disable(disabled) {
    for (const control of this.#card.querySelectorAll("button, input, select")) control.disabled = disabled;
  }

  /** The server still asks: an answer that was given did not count. */
  reopen() {
    clearTimeout(this.#timer);
    this.#outcome = ELSEWHERE;
    this.#disable(false);
  }

  /** The server no longer accepts an answer, because of ours or another client's. */
  settle() {
    clearTimeout(this.#timer);
    this.element.replaceChildren(el("p", { className: "note answered" }, this.#outcome));
  }

  hasFocus() {
    return this.element.contains(document.activeElement);
  }

  /** The card takes the focus, and not a button of it: whoever types on must answer nothing. */
  focus() {
    this.#card.focus();
  }
}

/** The decisions of requests that do not list them. */
const PLAIN_DECISIONS = ["accept", "acceptForSession", "decline", "cancel"];

/** Decisions as choices. One of a newer version that this page knows nothing of is not offered. */
function decisions(available) {
  const known = available.map((decision) => [wordsFor(decision), { decision }]);
  return known.filter(([words]) => words);
}

function wordsFor(decision) {
  const simple = {
    accept: "Accept",
    acceptForSession: "Accept for this session",
    decline: "Decline",
    cancel: "Decline and end the turn",
  };
  if (typeof decision === "string") return simple[decision];
  const prefix = decision.acceptWithExecpolicyAmendment?.execpolicy_amendment;
  if (prefix) return `Always accept commands that start with “${visible(prefix.join(" "))}”`;
  const rule = decision.applyNetworkPolicyAmendment?.network_policy_amendment;
  if (rule) return `Always ${visible(rule.action)} ${visible(rule.host)}`;
  return undefined;
}

function permissionLines(permissions) {
  const { fileSystem, network } = permissions ?? {};
  const write = (fileSystem?.write ?? []).map((path) => `write in ${visible(path)}`);
  const read = (fileSystem?.read ?? []).map((path) => `read ${visible(path)}`);
  return [...write, ...read, ...(network?.enabled ? ["use the network"] : [])];
}

function questionForm(questions) {
  const fields = questions.map(questionField);
  const read = () => ({
    answers: Object.fromEntries(questions.map(({ id }, at) => [id, { answers: fields[at].read() }])),
  });
  return { fields, read, submit: "Answer", others: [["Skip", { answers: {} }]] };
}

const ELSE = [["Decline", { action: "decline" }], ["Cancel", { action: "cancel" }]];

function elicitation(params) {
  if (params.mode === "url") {
    const accept = ["I have done it", { action: "accept" }];
    return { title: "Open a page?", subject: params.url, link: pageLink(params.url), choices: [accept, ...ELSE] };
  }
  const { properties, required } = params.requestedSchema;
  const names = Object.keys(properties);
  const fields = names.map((name) => schemaField(name, properties[name], (required ?? []).includes(name)));
  const read = () => {
    const values = names.map((name, at) => [name, fields[at].read()]);
    return { action: "accept", content: Object.fromEntries(values.filter(([, value]) => value !== undefined)) };
  };
  const called = params._meta?.["agentd/toolCall"];
  if (called) {
    // The message leaves out the middle of long arguments, but a call that waits for an approval is shown whole.
    const isWhole = params.message.includes(JSON.stringify(called.arguments ?? {}));
    const subject = isWhole ? "" : `${called.tool} ${JSON.stringify(called.arguments, null, 2)}`;
    return { title: "Call this tool?", subject, form: { fields, read, submit: "Accept", others: ELSE } };
  }
  return { title: "An MCP server asks you", form: { fields, read, submit: "Send", others: ELSE } };
}

/** The link of a page that an MCP server asks to open; other schemes are shown, but lead nowhere. */
function pageLink(url) {
  const isWeb = URL.canParse(url) && ["http:", "https:"].includes(new URL(url).protocol);
  if (!isWeb) return el("p", { className: "hint" }, "This is not a web address, so it cannot be opened.");
  const { host, href } = new URL(url);
  return el("p", {}, el("a", { href, target: "_blank", rel: "noopener noreferrer" }, `Open the page at ${host}`));
}
