/** The iteration of all events of a thread. */

import { AgentdError } from "./errors.js";
import type { ThreadEvent } from "./events.js";
import { type EventQueue, GAP } from "./queue.js";
import type { ThreadState } from "./state.js";
import { within } from "./waiting.js";

/** What an iteration needs of its agent. */
export interface FollowHost {
  attach(threadId: string): Promise<void>;
  unsubscribe(threadId: string, queue: EventQueue): void;
  fill(threadId: string, queue: EventQueue): Promise<void>;
}

export async function* follow(
  host: FollowHost,
  state: ThreadState,
  queue: EventQueue,
  signal: AbortSignal | undefined,
): AsyncGenerator<ThreadEvent, void, undefined> {
  try {
    signal?.throwIfAborted();
    if (!queue.hasGap) await within(host.attach(state.id), { signal });
    for (;;) {
      signal?.throwIfAborted();
      if (queue.isTiring) await within(queue.rest(), { signal });
      const entry = queue.shift();
      if (entry === undefined) await within(queue.wait(), { signal });
      else if (entry === GAP) await within(host.fill(state.id, queue), { signal });
      else if (entry instanceof AgentdError) throw entry;
      else {
        state.handedOut(entry.cursor, queue.order);
        yield entry;
      }
    }
  } finally {
    host.unsubscribe(state.id, queue);
  }
}
