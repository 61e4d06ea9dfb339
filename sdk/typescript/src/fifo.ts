/** A list whose first entry is taken in constant time, however long it is: `Array.shift` moves the others. */

/** Taken entries that are kept at most before the others move up. */
const SLACK = 1024;

export class Fifo<T> {
  #entries: (T | undefined)[] = [];
  #first = 0;

  get length(): number {
    return this.#entries.length - this.#first;
  }

  /** The entry that was added last. */
  get last(): T | undefined {
    return this.length > 0 ? this.#entries.at(-1) : undefined;
  }

  set last(entry: T) {
    this.#entries[this.#entries.length - 1] = entry;
  }

  push(entry: T): void {
    this.#entries.push(entry);
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const entry = this.#entries[this.#first];
    this.#entries[this.#first++] = undefined;
    if (this.#first === this.#entries.length) this.clear();
    else if (this.#first >= SLACK && this.#first * 2 >= this.#entries.length) {
      this.#entries = this.#entries.slice(this.#first);
      this.#first = 0;
    }
    return entry;
  }

  clear(): void {
    this.#entries = [];
    this.#first = 0;
  }
}
