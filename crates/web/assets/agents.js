// The agents of a thread: their states, and the way to the thread of each.

import { button, el } from "./dom.js";
import { visible } from "./text.js";

const STATES = {
  pendingInit: "starting", running: "working", interrupted: "interrupted", completed: "done", errored: "failed",
  shutdown: "closed", notFound: "not found",
};

/** A list of agents: `[id, state]` each. */
export function agentRows(states, openAgent) {
  if (!states.length) return null;
  return el("ul", { className: "agents" }, ...states.map(([id, state]) => agentRow(id, state, openAgent)));
}

function agentRow(id, { status, message, name }, openAgent) {
  const title = name || `Agent …${id.slice(-6)}`;
  return el("li", { "data-status": status },
    el("span", { className: "dot", "aria-hidden": "true" }),
    el("span", { className: "grow" },
      el("strong", {}, visible(title)), " ", el("span", { className: "hint" }, STATES[status] ?? visible(String(status))),
      message && el("span", { className: "agent-message" }, message)),
    button("View", () => openAgent(id), { "aria-label": `View ${visible(title)}` }));
}

/** The newest state of every agent that the items of a thread name, in the order in which they came up. */
export function agentsOf(items) {
  const agents = new Map();
  for (const { item } of items) {
    if (item?.type !== "collabToolCall") continue;
    for (const [id, state] of Object.entries(item.agentsStates)) agents.set(id, state);
  }
  return [...agents];
}
