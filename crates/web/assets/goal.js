// The goal of the open thread: a line above the composer, and a dialog that sets, pauses and clears it.

import { ask, textField } from "./dialog.js";
import { $, button, el, run } from "./dom.js";
import { duration } from "./text.js";

/** Characters of an objective. */
const MOST_CHARACTERS = 4000;
const STATES = { active: "active", paused: "paused", budgetLimited: "its budget is used up", complete: "complete" };

export class Goal {
  #connection;
  #view = null;
  #goal = null;

  constructor(connection) {
    this.#connection = connection;
  }

  /** Shows the goal of another thread. */
  async open(view) {
    this.#view = view;
    this.set(null);
    if (!view) return;
    try {
      const { goal } = await this.#connection.call("thread/goal/get", { threadId: view.id });
      if (view === this.#view) this.set(goal);
    } catch {
      // Goals are off, which `/goal` says, or the connection is lost: then the thread is opened again.
    }
  }

  /** The server says what the goal is now; null without one. */
  set(goal) {
    this.#goal = goal;
    $("goal-line").hidden = !goal;
    if (!goal) return;
    const { objective, status, tokensUsed, tokenBudget, timeUsedSeconds } = goal;
    const used = `${tokensUsed.toLocaleString("en")}${tokenBudget ? ` of ${tokenBudget.toLocaleString("en")}` : ""} tokens`;
    const state = [STATES[status] ?? status, used, timeUsedSeconds ? duration(timeUsedSeconds * 1000) : null].filter(Boolean).join(" · ");
    $("goal-line").replaceChildren(
      el("span", { className: "grow" }, el("strong", {}, "Goal: "), objective, " ", el("span", { className: "hint" }, state)),
      button("Change", () => this.command(""), { "aria-label": "Change the goal" }));
  }

  /** `/goal`, with what follows it. */
  async command(text) {
    if (text === "clear") return this.#clear();
    if (text) return this.#change({ objective: text });
    const objective = textField("What is the goal of this thread?", { tag: "textarea", required: true, maxLength: MOST_CHARACTERS, value: this.#goal?.objective ?? "" });
    const budget = textField("Token budget", { type: "number", min: 1, value: this.#goal?.tokenBudget ?? "" }, "Leave empty for no limit.");
    const buttons = [[this.#goal ? "Change the goal" : "Set the goal", "set"]];
    if (this.#goal?.status === "active") buttons.push(["Pause", "pause", ""]);
    if (this.#goal && this.#goal.status !== "active") buttons.push(["Resume", "resume", ""]);
    if (this.#goal) buttons.push(["Clear", "clear", "danger"]);
    const answer = await ask({ title: "Goal", nodes: [el("p", { className: "hint" }, "The agent starts turns on its own until it reaches the goal."), objective.element, budget.element], buttons });
    if (answer === "set") return this.#change({ objective: objective.read(), tokenBudget: Number(budget.read()) || null });
    if (answer === "pause") return this.#change({ status: "paused" });
    if (answer === "resume") return this.#change({ status: "active" });
    return answer === "clear" ? this.#clear() : undefined;
  }

  #clear() {
    return run("The goal was not cleared", this.#connection.call("thread/goal/clear", { threadId: this.#view.id }));
  }

  async #change(change) {
    const params = { threadId: this.#view.id, ...change };
    const set = async () => this.set((await this.#connection.call("thread/goal/set", params)).goal);
    try {
      await set();
    } catch (error) {
      if (!error.message.includes("features.goals")) {
        await run("The goal was not set", Promise.reject(error));
        return;
      }
      const nodes = [el("p", {}, "Goals are experimental, and switched off: features.goals.")];
      if (!await ask({ title: "Switch goals on?", nodes, buttons: [["Switch on, and set the goal", "on"]] })) return;
      const edit = { keyPath: "features.goals", value: true, mergeStrategy: "replace" };
      await run("The goal was not set", this.#connection.call("config/value/write", edit).then(set));
    }
  }
}
