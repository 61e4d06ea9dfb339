/** Waits that end: with a timeout, or by a signal. */

/** A timeout has passed. Never leaves this package. */
export class Elapsed extends Error {}

export interface Limits {
  /** Milliseconds. */
  timeout?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** The longest delay that timers know. */
const LONGEST = 2 ** 31 - 1;

/** Settles as the work does, or rejects with `Elapsed` or the reason of the signal. */
export async function within<T>(work: Promise<T>, { timeout, signal }: Limits): Promise<T> {
  if (timeout === undefined && signal === undefined) return work;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let aborted: (() => void) | undefined;
  const limit = new Promise<never>((_, reject) => {
    if (timeout !== undefined) timer = setTimeout(() => reject(new Elapsed()), Math.min(timeout, LONGEST));
    aborted = () => reject(signal?.reason);
    if (signal?.aborted) aborted();
    signal?.addEventListener("abort", aborted);
  });
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
    if (aborted) signal?.removeEventListener("abort", aborted);
  }
}

/** Throws a `RangeError` for a timeout that is no number of milliseconds. */
export function checkTimeout(name: string, timeout: number | undefined): void {
  if (timeout !== undefined && !(typeof timeout === "number" && timeout >= 0)) {
    throw new RangeError(`\`${name}\` is ${String(timeout)}, not a number of milliseconds`);
  }
}

/** Does it after what the event loop has to do now: timers, reading, drawing. */
export const soon: (work: () => void) => void = typeof setImmediate === "function" ? setImmediate : byMessage();

/** Browsers delay nested timers; messages to oneself are not delayed. */
function byMessage(): (work: () => void) => void {
  const works: (() => void)[] = [];
  let channel: MessageChannel | undefined;
  return (work) => {
    if (channel === undefined) {
      channel = new MessageChannel();
      channel.port1.onmessage = () => works.shift()?.();
    }
    works.push(work);
    channel.port2.postMessage(null);
  };
}

/** Whether it is what `abort()` gives without a reason of the caller's. */
export function isPlainAbort(reason: unknown): boolean {
  return reason instanceof Error && reason.name === "AbortError";
}
