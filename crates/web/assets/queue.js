// The messages that wait for the end of a turn. They are kept in this tab, also when it is loaded again.

import { store, storedList } from "./dom.js";

const queueKey = (threadId) => `agentd.queue.${threadId}`;

/** The messages that wait in a thread: `id`, `text` and, where it has some, `images` of each. */
export function queueOf(threadId) {
  return storedList("sessionStorage", queueKey(threadId));
}

/** Returns whether they could be stored: images may be too large for that. */
export function setQueue(threadId, queue) {
  return store("sessionStorage", queueKey(threadId), queue.length ? JSON.stringify(queue) : "");
}

const CLAIMED = "agentd.claimed";
/** As many claims are remembered; tabs that were duplicated reach the same message at nearly the same time. */
const MOST_CLAIMS = 100;

/** Whether this tab, and no other one, is to send a queued message. */
export function claim(id) {
  return inTurn(() => {
    const claimed = storedList("localStorage", CLAIMED);
    if (claimed.includes(id)) return false;
    store("localStorage", CLAIMED, JSON.stringify([...claimed, id].slice(-MOST_CLAIMS)));
    return true;
  });
}

export function disclaim(id) {
  return inTurn(() => store("localStorage", CLAIMED, JSON.stringify(storedList("localStorage", CLAIMED).filter((other) => other !== id))));
}

/** Runs a change of the browser's storage while no other tab runs one. */
function inTurn(change) {
  return navigator.locks ? navigator.locks.request(CLAIMED, change) : Promise.resolve(change());
}
