/** What carries messages to a server and back; each platform has its own. */

/** One message may hold a whole turn. */
export const LONGEST_MESSAGE = 64 << 20;

/** Takes what arrives. */
export interface Receiver {
  message(text: string): void;
  /** The way to the server has ended; nothing follows. */
  ended(why: string): void;
}

/** Carries messages both ways. */
export interface Transport {
  /**
   * Queues a message. A way that has ended drops it: the receiver learns of the end. Throws an `AgentdError` for a
   * message that a recording does not have.
   */
  send(text: string): void;
  /** Ends the way to the server, and the server if it was started here. */
  close(): Promise<void>;
  /** The same at once: a server that was started here is killed. */
  abort(): void;
  /** Reads no more, so that the server waits, or reads again. A platform that cannot stop goes on reading. */
  hold(isHeld: boolean): void;
}

/** Opens a way to the server. Rejects with an `AgentdError`, also when the signal is aborted meanwhile. */
export type Open = (receiver: Receiver, signal: AbortSignal) => Promise<Transport>;

/** What a platform knows about reaching a server. */
export interface Way {
  open: Open;
  /** Whether a server that was left still runs, so that it can be reached again. */
  isLasting: boolean;
}
