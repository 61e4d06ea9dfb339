/** The application's values for the callbacks of sub-agents: each has that of the turn that gave it its work last. */

import { type Params, isObject } from "./connection.js";
import type { Turn } from "./protocol.js";
import type { ThreadState, ThreadStates } from "./state.js";

/** Calls that give an agent work. */
const ASSIGNING = ["spawnAgent", "sendInput", "resumeAgent"];
/** Sub-agents below a thread that are known. At the bound the one that got work the longest ago is forgotten. */
const MOST_KNOWN = 4_096;

export class SubAgents {
  readonly #states: ThreadStates;
  /** The uppermost thread of each sub-agent, whose state holds what is known of it. */
  readonly #roots = new Map<string, WeakRef<ThreadState>>();

  constructor(states: ThreadStates) {
    this.#states = states;
  }

  /** Learns who started whom, and who works for whom. */
  notified(method: string, params: Params): void {
    if (method === "thread/started") this.#started(params["thread"]);
    else if (method === "item/started" || method === "item/completed") this.#assigned(params["item"], params["turnId"]);
  }

  /** Learns it of the turns of a thread that was opened. */
  opened(turns: readonly Turn[]): void {
    for (const turn of turns) {
      if (Array.isArray(turn?.items)) for (const item of turn.items) this.#assigned(item, turn.id);
    }
  }

  /** The value for a turn of a thread. */
  userOf(threadId: string, turnId: unknown): unknown {
    const own = this.#states.peek(threadId)?.contextOf(turnId);
    return own === undefined ? this.#rootBelow(threadId)?.agents.get(threadId)?.user : own;
  }

  #started(thread: unknown): void {
    const source = member(member(member(thread, "source"), "subAgent"), "thread_spawn");
    const [parent, child] = [member(source, "parent_thread_id"), member(thread, "id")];
    if (typeof parent !== "string" || typeof child !== "string") return;
    // A thread runs one turn.
    const [running] = this.#states.peek(parent)?.running ?? [];
    this.#assign(parent, child, running, member(source, "agent_nickname"));
  }

  #assigned(item: unknown, turnId: unknown): void {
    if (member(item, "type") !== "collabToolCall" || !ASSIGNING.includes(String(member(item, "tool")))) return;
    const [sender, receivers] = [member(item, "senderThreadId"), member(item, "receiverThreadIds")];
    const root = typeof sender === "string" ? this.#rootOf(sender) : undefined;
    if (root === undefined || !Array.isArray(receivers)) return;
    for (const name of receivers) {
      // While the call runs, the agent may be named by its nickname.
      const named = [...root.agents].filter(([id, { nickname }]) => id === name || nickname === name).at(-1)?.[0];
      const child = named ?? (member(item, "status") === "completed" ? name : undefined);
      if (typeof child === "string") this.#assign(sender as string, child, turnId, undefined);
    }
  }

  #assign(parent: string, child: string, turnId: unknown, nickname: unknown): void {
    const root = this.#rootOf(parent);
    if (root === undefined) return;
    const user = this.userOf(parent, turnId);
    const known = root.agents.get(child);
    root.agents.delete(child);
    root.agents.set(child, { nickname: nickname ?? known?.nickname, user });
    for (const [id, ref] of this.#roots) if (ref.deref() === undefined) this.#roots.delete(id);
    this.#roots.set(child, new WeakRef(root));
    const [oldest] = root.agents.keys();
    if (root.agents.size <= MOST_KNOWN || oldest === undefined) return;
    root.agents.delete(oldest);
    this.#roots.delete(oldest);
  }

  #rootOf(threadId: string): ThreadState | undefined {
    return this.#rootBelow(threadId) ?? this.#states.peek(threadId);
  }

  #rootBelow(threadId: string): ThreadState | undefined {
    return this.#roots.get(threadId)?.deref();
  }
}

function member(value: unknown, name: string): unknown {
  return isObject(value) ? value[name] : undefined;
}
