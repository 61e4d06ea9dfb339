/** What a turn may cost. The protocol has no limit of that kind, so the agent watches what the server reports. */

import type { ThreadTokenUsage } from "./protocol.js";

const UNKNOWN = "what the turn costs is not known, so it cannot be kept within `maxCost`: give the model `prices`";

export class Budget {
  /** Why the turn has to end, once it has. */
  why: string | undefined;
  readonly #most: number;
  #isKnown = false;

  /** `most` is an amount in the currency of the server, US dollars. */
  constructor(most: number | string) {
    this.#most = checkedCost(most);
  }

  /** Takes what the turn has used so far; true the first time that it is too much. */
  isExceeded({ cost }: ThreadTokenUsage): boolean {
    // Events that are sent again after a lost connection have none.
    if (this.why !== undefined || !cost) return false;
    this.#isKnown = true;
    const spent = cost.turnWithAgents ?? cost.turn;
    if (spent === null) this.why = UNKNOWN;
    else if (Number(spent) > this.#most) {
      this.why = `the turn has cost ${spent} ${cost.currency}, more than \`maxCost\` ${this.#most}`;
    }
    return this.why !== undefined;
  }

  /** Why the turn, which has ended, is none within the budget. */
  get verdict(): string | undefined {
    return this.why ?? (this.#isKnown ? undefined : UNKNOWN);
  }
}

/** Throws a `TypeError` for what is no amount. */
export function checkedCost(most: unknown): number {
  const amount = typeof most === "string" && most.trim() !== "" ? Number(most) : most;
  if (typeof amount === "number" && Number.isFinite(amount) && amount >= 0) return amount;
  throw new TypeError(`\`maxCost\` is ${String(most)}, not an amount of at least 0`);
}
