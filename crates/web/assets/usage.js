// What the open thread has used: tokens, cost, and the limits of the account.

import { ask } from "./dialog.js";
import { el } from "./dom.js";
import { duration, visible } from "./text.js";

export class Usage {
  #connection;
  #view = () => null;
  /** The newest limits that the server has sent. */
  #limits = null;

  /** `view()`: the open thread. */
  constructor(connection, view) {
    this.#connection = connection;
    this.#view = view;
  }

  /** `account/rateLimits/updated`. */
  setLimits(limits) {
    this.#limits = limits;
  }

  async show() {
    let problem = null;
    try {
      this.#limits = (await this.#connection.call("account/rateLimits/read")).rateLimits;
    } catch (error) {
      problem = error.message; // such as without an account: those of the last answer are shown
    }
    const usage = this.#view()?.usage;
    const nodes = [
      el("h3", {}, "This thread"), usage ? table(rowsOf(usage)) : el("p", { className: "hint" }, "Known after the model's next answer."),
      el("h3", {}, "Limits of the account"), ...limitsOf(this.#limits, problem),
    ];
    await ask({ title: "Cost and limits", nodes, close: "Close" });
  }
}

/** The cost of a thread as it is shown in a line; null where no price is known, and where it costs nothing. */
export function costOf(usage) {
  const { cost } = usage ?? {};
  return Number(cost?.thread) > 0 ? money(cost.thread, cost.currency) : null;
}

function money(amount, currency) {
  return currency === "USD" ? `$${amount}` : `${amount} ${visible(currency)}`;
}

function rowsOf({ total, last, modelContextWindow: window, tokensWithAgents, cost }) {
  const number = (value) => value.toLocaleString("en");
  const rows = [
    ["Tokens", number(total.totalTokens)],
    ["Input", `${number(total.inputTokens)}, of which ${number(total.cachedInputTokens)} cached`],
    ["Output", `${number(total.outputTokens)}, of which ${number(total.reasoningOutputTokens)} reasoning`],
    ["Context", window ? `${number(last.totalTokens)} of ${number(window)} tokens` : `${number(last.totalTokens)} tokens`],
  ];
  if (tokensWithAgents != null && tokensWithAgents !== total.totalTokens) rows.push(["With agents", `${number(tokensWithAgents)} tokens`]);
  const costs = [["Cost of the thread", cost?.thread], ["Cost of the latest turn", cost?.turn], ["With its agents", cost?.turnWithAgents]];
  const known = costs.filter(([, amount]) => amount != null).map(([name, amount]) => [name, money(amount, cost.currency)]);
  return [...rows, ...(known.length ? known : [["Cost", "Unknown: the model has no price in the configuration or the catalog."]])];
}

function table(rows) {
  return el("table", { className: "facts" }, el("tbody", {}, ...rows.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)))));
}

function limitsOf(limits, problem) {
  const windows = [limits?.primary, limits?.secondary].filter(Boolean).map(limit);
  const credits = limits?.credits;
  const balance = credits?.hasCredits && el("p", {}, credits.unlimited ? "Credits: unlimited" : `Credits: ${visible(credits.balance ?? "some")}`);
  const reached = limits?.rateLimitReachedType && el("p", { className: "field-error" }, "A limit is reached.");
  const shown = [...windows, balance, reached].filter(Boolean);
  if (problem) shown.push(el("p", { className: "hint" }, `They could not be read: ${problem}`));
  return shown.length ? shown : [el("p", { className: "hint" }, "The provider reports none.")];
}

function limit({ usedPercent, windowDurationMins: minutes, resetsAt }) {
  const name = minutes ? `Per ${period(minutes)}` : "Limit";
  const until = resetsAt ? `, resets ${new Date(resetsAt * 1000).toLocaleString("en")}` : "";
  const words = `${name}: ${usedPercent} % used${until}`;
  return el("div", { className: "limit" }, el("p", {}, words), el("meter", { min: 0, max: 100, high: 80, value: usedPercent, ariaLabel: words }));
}

function period(minutes) {
  if (minutes % 1440 === 0) return minutes === 1440 ? "day" : `${minutes / 1440} days`;
  if (minutes % 60 === 0) return minutes === 60 ? "hour" : `${minutes / 60} hours`;
  return duration(minutes * 60_000);
}
