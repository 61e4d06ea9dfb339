// What the parts of a turn look like: one element for each item, and the card of a request. Every
// text goes into the page as a text node: what the model or a command wrote is never markup.

/** An element; strings among the children become text nodes. */
export function el(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** The element of one item. */
export class ItemView {
  element = el("li");
  #content = el("div");
  /** What deltas are appended to; null for items that are sent as a whole. */
  #text = null;

  constructor() {
    this.element.append(this.#content);
  }

  /** Shows the item as it is now; `item/completed` has the last word. */
  show(item, folder, done) {
    const [children, text] = (LOOKS[item.type] ?? unknown)(item, folder);
    this.#text = text ?? null;
    this.#content.replaceChildren(...children);
    this.element.className = `item ${item.type}`;
    this.element.dataset.status = item.status ?? "";
    // Screen readers wait for the whole of what is still growing.
    this.element.ariaBusy = String(!done);
  }

  append(delta) {
    this.#text?.appendData(delta);
  }

  /** A new section of a text begins. */
  separate() {
    if (this.#text?.data) this.#text.appendData("\n\n");
  }
}

/** For each type of item its elements, and the text node that grows while it streams. */
const LOOKS = {
  userMessage(item) {
    const shown = item.content.map((part) => part.text ?? part.path ?? part.url ?? part.name);
    return [[el("span", { className: "unseen" }, "You: "), shown.join("\n")]];
  },

  agentMessage(item) {
    const text = new Text(item.text);
    return [[el("p", {}, text)], text];
  },

  plan(item) {
    const text = new Text(item.text);
    return [[el("p", {}, text)], text];
  },

  reasoning(item) {
    const text = new Text(item.summary.join("\n\n"));
    return [[el("details", { open: true }, el("summary", {}, "Thinking"), el("p", {}, text))], text];
  },

  commandExecution(item) {
    const output = new Text(item.aggregatedOutput ?? "");
    const command = el("div", { className: "command" }, el("code", {}, item.command), badge(item));
    return [[command, el("pre", { tabIndex: 0, ariaLabel: "Output" }, output)], output];
  },

  fileChange(item, folder) {
    const shown = item.changes.flatMap(({ path, kind, diff }) => [
      el(
        "div",
        { className: "command" },
        el("code", {}, within(folder, path)),
        badge(item, CHANGES[kind.type] ?? kind.type),
      ),
      el("pre", { tabIndex: 0, ariaLabel: "Changes" }, ...diffLines(kind.type, diff)),
    ]);
    return [shown];
  },
};

function unknown(item) {
  return [[el("p", { className: "hint" }, `(${item.type})`)]];
}

const CHANGES = { add: "new file", delete: "removal", update: "change" };
const STATUS = { inProgress: "in progress", completed: "done" };

function badge({ status, exitCode, durationMs }, ...parts) {
  parts.push(STATUS[status] ?? status);
  if (exitCode != null) parts.push(`exit code ${exitCode}`);
  if (durationMs != null) parts.push(`${durationMs} ms`);
  return el("span", { className: "badge" }, parts.join(" · "));
}

function within(folder, path) {
  return visible(folder && path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : path);
}

/** Characters that show nothing, or turn the direction of a text, as their numbers. */
function visible(text) {
  const number = (hidden) => `<U+${hidden.codePointAt(0).toString(16).toUpperCase()}>`;
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, number);
}

/** A diff with its lines marked: unified, but for an added file, whose diff is its content. */
function diffLines(kind, diff) {
  const whole = { add: "+", delete: "-" }[kind];
  const isUnified = kind === "update" || diff.startsWith("@@");
  return diff.split(/(?<=\n)/).map((line) => {
    const text = isUnified || !whole ? line : whole + line;
    const mark = { "+": "added", "-": "removed", "@": "place" }[text[0]] ?? "";
    return el("span", { className: mark }, text);
  });
}

/** The requests that a card can show: what they ask, about what, and the answers to choose from. */
export const REQUESTS = {
  "item/commandExecution/requestApproval": ({ command, networkApprovalContext: network, availableDecisions }) => ({
    question: network ? "Connect to this host?" : "Run this command?",
    subject: network ? `${network.protocol}: ${network.host}` : (command ?? ""),
    choices: decisions(availableDecisions ?? PLAIN_DECISIONS),
  }),
  "item/fileChange/requestApproval": ({ grantRoot }) => ({
    question: grantRoot ? "Make these changes, and let it write here from now on?" : "Make these changes?",
    subject: grantRoot ? visible(grantRoot) : "",
    choices: decisions(PLAIN_DECISIONS),
  }),
  "item/permissions/requestApproval": ({ permissions }) => ({
    question: "Give commands these permissions?",
    subject: permissionLines(permissions).join("\n"),
    choices: [
      ["Grant until the turn ends", { permissions, scope: "turn" }],
      ["Grant for this session", { permissions, scope: "session" }],
      ["Decline", { permissions: {} }],
    ],
  }),
  "item/tool/requestUserInput": ({ questions }) => ({ question: "The agent asks you", subject: "", questions }),
};

/** A request of the server's with its answers; `answer` gets the result. */
export class RequestCard {
  #card;
  #outcome = "Answered elsewhere, or no longer needed.";
  #answer;

  constructor(method, params, answer) {
    const { question, subject, choices, questions } = REQUESTS[method](params);
    const ariaLabel = questions ? question : `Approval needed: ${question} ${subject}`;
    this.#answer = answer;
    this.#card = el("section", { className: "approval", tabIndex: -1, ariaLabel });
    this.#card.append(el("h3", {}, question));
    if (params.reason) this.#card.append(el("p", {}, params.reason));
    if (subject) this.#card.append(el("code", {}, subject));
    if (params.cwd) this.#card.append(el("p", { className: "hint" }, `in ${params.cwd}`));
    this.#card.append(questions ? this.#form(questions) : this.#buttons(choices));
    this.element = el("li", {}, this.#card);
  }

  /** One button for each answer; the first is the plain yes. */
  #buttons(choices) {
    const button = ([words, result], at) => {
      const onclick = () => this.#choose(`Your answer: ${words}`, result);
      return el("button", { type: "button", className: at === 0 ? "primary" : "", onclick }, words);
    };
    return el("div", { className: "buttons" }, ...choices.map(button));
  }

  /** The questions with their options and texts, a button that sends them, and one that skips all. */
  #form(questions) {
    const fields = questions.map(questionField);
    const onsubmit = (event) => {
      event.preventDefault();
      const answers = Object.fromEntries(fields.map(({ id, read }) => [id, { answers: read() }]));
      this.#choose("You answered.", { answers });
    };
    const skip = () => this.#choose("You skipped the questions.", { answers: {} });
    return el("form", { onsubmit }, ...fields.map(({ element }) => element),
      el("div", { className: "buttons" },
        el("button", { className: "primary" }, "Answer"),
        el("button", { type: "button", onclick: skip }, "Skip")));
  }

  #choose(outcome, result) {
    this.#outcome = outcome;
    for (const control of this.#card.querySelectorAll("button, input")) control.disabled = true;
    this.focus(); // a disabled button would lose it to nowhere
    this.#answer(result);
  }

  /** The server no longer accepts an answer, because of ours or another client's. */
  settle() {
    this.element.replaceChildren(el("p", { className: "hint" }, this.#outcome));
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

function permissionLines({ fileSystem, network }) {
  const write = (fileSystem?.write ?? []).map((path) => `write in ${visible(path)}`);
  const read = (fileSystem?.read ?? []).map((path) => `read ${visible(path)}`);
  return [...write, ...read, ...(network?.enabled ? ["use the network"] : [])];
}

/** A question with its options and, where it takes one, a text; `read` returns what was chosen. */
function questionField({ id, header, question, options, isOther, isSecret }) {
  const radios = (options ?? []).map(({ label }) => el("input", { type: "radio", name: id, value: label }));
  const labels = (options ?? []).map(({ label, description }, at) =>
    el("label", {}, radios[at], ` ${label} `, el("span", { className: "hint" }, description)));
  const takesText = isOther || !options;
  const type = isSecret ? "password" : "text";
  const text = takesText && el("input", { type, autocomplete: "off", ariaLabel: `Your own answer: ${header}` });
  const element = el("fieldset", {}, el("legend", {}, header), el("p", {}, question), ...labels, ...(text ? [text] : []));
  const read = () => {
    const chosen = radios.filter((radio) => radio.checked).map((radio) => radio.value);
    return text && text.value ? [...chosen, text.value] : chosen;
  };
  return { id, element, read };
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
  if (prefix) return `Always accept “${visible(prefix.join(" "))} …”`;
  const rule = decision.applyNetworkPolicyAmendment?.network_policy_amendment;
  if (rule) return `Always ${rule.action} ${rule.host}`;
  return undefined;
}
