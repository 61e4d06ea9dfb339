// What the parts of a turn look like: one element for each item, and the card of an approval. Every
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

/** The requests that the card can show. */
export const APPROVALS = {
  "item/commandExecution/requestApproval": ({ command, networkApprovalContext: network }) => {
    if (network) return ["Connect to this host?", `${network.protocol}: ${network.host}`];
    return ["Run this command?", command ?? ""];
  },
  "item/fileChange/requestApproval": ({ grantRoot }) =>
    grantRoot
      ? ["Make these changes, and let it write here from now on?", visible(grantRoot)]
      : ["Make these changes?", ""],
};

/** A question of the server's with a button for each answer; `answer` gets the decision. */
export class ApprovalCard {
  #card;
  #buttons = el("div", { className: "buttons" });
  #outcome = "Answered elsewhere, or no longer needed.";

  constructor(method, params, answer) {
    const [question, subject] = APPROVALS[method](params);
    const ariaLabel = `Approval needed: ${question} ${subject}`;
    this.#card = el("section", { className: "approval", tabIndex: -1, ariaLabel });
    this.#card.append(el("h3", {}, question));
    if (params.reason) this.#card.append(el("p", {}, params.reason));
    if (subject) this.#card.append(el("code", {}, subject));
    if (params.cwd) this.#card.append(el("p", { className: "hint" }, `in ${params.cwd}`));
    this.#card.append(this.#buttons);
    this.element = el("li", {}, this.#card);
    for (const decision of params.availableDecisions ?? PATCH_DECISIONS) {
      const words = wordsFor(decision);
      // A decision of a newer version that this page knows nothing of is not offered.
      if (!words) continue;
      const choose = () => {
        this.#outcome = `Your answer: ${words}`;
        for (const button of this.#buttons.children) button.disabled = true;
        this.focus(); // a disabled button would lose it to nowhere
        answer(decision);
      };
      const className = decision === "accept" ? "primary" : "";
      this.#buttons.append(el("button", { type: "button", className, onclick: choose }, words));
    }
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

/** Requests about file changes do not list what may be answered. */
const PATCH_DECISIONS = ["accept", "acceptForSession", "decline", "cancel"];

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
