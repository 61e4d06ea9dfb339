// Earlier messages in the composer: Up at the beginning of the text goes back, Down forward again.

import { store, storedList } from "./dom.js";

const KEY = "agentd.history";
const MOST = 100;

export class History {
  /** Those that Up and Down go through, oldest first; the last is what was written before. Null until they do. */
  #texts = null;
  #at = 0;

  /** A message was sent from this tab. */
  add(text) {
    const others = storedList("sessionStorage", KEY).filter((other) => other !== text);
    store("sessionStorage", KEY, JSON.stringify([...others, text].slice(-MOST)));
    this.reset();
  }

  /** The text was changed by hand. */
  reset() {
    this.#texts = null;
  }

  /** Takes a key, if it goes through the history. Returns the text to show, or null. `ofThread`: the messages of the thread. */
  key(event, field, ofThread) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step || event.shiftKey || event.altKey || event.ctrlKey || event.metaKey || event.isComposing) return null;
    const { selectionStart, selectionEnd, value } = field;
    const isAtStart = selectionEnd === 0;
    const isAtEnd = selectionStart === value.length;
    if (!this.#texts) {
      if (step > 0 || !isAtStart) return null;
      const known = ofThread();
      const others = storedList("sessionStorage", KEY).filter((text) => typeof text === "string" && !known.includes(text));
      this.#texts = [...others, ...known, value];
      this.#at = this.#texts.length - 1;
    } else if (!isAtStart && (step < 0 || !isAtEnd)) return null;
    const next = this.#at + step;
    if (next < 0 || next >= this.#texts.length) return null;
    this.#at = next;
    event.preventDefault();
    return this.#texts[next];
  }
}
