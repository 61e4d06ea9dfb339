/** What a review found. */

import type { ThreadItem } from "./protocol.js";

/** One problem that a review found. */
export interface Finding {
  title: string;
  body?: string;
  /** 0 is the most urgent, 3 the least. */
  priority?: 0 | 1 | 2 | 3;
  /** From 0 to 1. */
  confidence?: number;
  location?: { path: string; startLine?: number; endLine?: number };
}

/** The text and the findings of a review among the items of a turn. */
export function reviewOf(items: readonly ThreadItem[]): { review: string | undefined; findings: Finding[] | undefined } {
  const item = items.findLast((it) => it.type === "exitedReviewMode") as
    | { review?: string; findings?: Finding[] | null }
    | undefined;
  return { review: item?.review, findings: Array.isArray(item?.findings) ? item.findings : undefined };
}
