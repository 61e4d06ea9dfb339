/** What a turn has brought so far: its items, texts and use of tokens. */

import type { TurnData } from "./errors.js";
import type { TurnEvent } from "./events.js";
import type { ThreadItem, ThreadTokenUsage, TokenCost, TokenUsageBreakdown } from "./protocol.js";

/** Where a text of the agent belongs: to its answer, or to what it says on the way. */
export type TextKind = "answer" | "commentary";
export type Piece = [kind: TextKind, text: string];

interface Written {
  kind: TextKind;
  text: string;
}

export class Transcript {
  usage: ThreadTokenUsage | undefined;
  cost: TokenCost | undefined;
  /** What the thread had used before the turn. */
  #before: TokenUsageBreakdown | undefined;
  readonly #items = new Map<string, ThreadItem>();
  /** The agent's messages by id, as far as they were received. */
  readonly #messages = new Map<string, Written>();

  get items(): ThreadItem[] {
    return [...this.#items.values()];
  }

  /** The last message that is no commentary. */
  get text(): string {
    return [...this.#messages.values()].findLast(({ kind }) => kind === "answer")?.text ?? "";
  }

  /** The commentary, its messages on lines of their own. */
  get commentary(): string {
    const texts = [...this.#messages.values()].filter(({ kind }) => kind === "commentary");
    return texts.map(({ text }) => text).join("\n");
  }

  /** The tokens of the turn, from its first report on. */
  get turnUsage(): TokenUsageBreakdown | undefined {
    return this.usage && difference(this.usage.total, this.#before);
  }

  /** As a member of an error. */
  data(threadId: string, turnId: string): TurnData {
    const { text, commentary, items, usage, turnUsage, cost } = this;
    return { threadId, turnId, text, commentary, items, usage, turnUsage, cost };
  }

  /** Takes an event of the turn, and returns what it adds to the agent's messages. */
  take(event: TurnEvent): Piece[] {
    if (event.method === "item/started") return this.#message(event.params.item);
    if (event.method === "item/agentMessage/delta") {
      const { itemId, delta } = event.params;
      const written = this.#written(itemId, "answer");
      written.text += String(delta);
      return [[written.kind, String(delta)]];
    }
    // A replay holds a message that was completed meanwhile without its deltas.
    if (event.method === "item/completed") return this.#completed(event.params.item);
    if (event.method === "turn/replaced") return event.params.turn.items.flatMap((item) => this.#completed(item));
    if (event.method === "thread/tokenUsage/updated") this.#used(event.params.tokenUsage);
    return [];
  }

  #used(usage: ThreadTokenUsage): void {
    this.#before ??= difference(usage.total, usage.last);
    this.usage = usage;
    // One that is sent again after a lost connection has no cost.
    this.cost = usage.cost ?? this.cost;
  }

  #completed(item: ThreadItem): Piece[] {
    this.#items.set(item.id, item);
    return this.#message(item);
  }

  /** The rest of a message. */
  #message(item: ThreadItem | undefined): Piece[] {
    if (item?.type !== "agentMessage") return [];
    const kind = item.phase === "commentary" ? "commentary" : "answer";
    const written = this.#written(item.id, kind);
    written.kind = kind;
    const text = String(item.text ?? "");
    const rest = text.slice(written.text.length);
    if (text.length > written.text.length) written.text = text;
    return rest === "" ? [] : [[kind, rest]];
  }

  #written(id: string, kind: TextKind): Written {
    const known = this.#messages.get(id);
    if (known) return known;
    const written = { kind, text: "" };
    this.#messages.set(id, written);
    return written;
  }
}

const COUNTS = ["totalTokens", "inputTokens", "cachedInputTokens", "outputTokens", "reasoningOutputTokens"] as const;

function difference(all: TokenUsageBreakdown, some: TokenUsageBreakdown | undefined): TokenUsageBreakdown {
  const made: TokenUsageBreakdown = { ...all };
  for (const name of COUNTS) made[name] = all[name] - (some?.[name] ?? 0);
  if (all.cacheWriteInputTokens !== undefined) {
    made.cacheWriteInputTokens = all.cacheWriteInputTokens - (some?.cacheWriteInputTokens ?? 0);
  }
  return made;
}
