/** The same client for browsers, over their WebSocket. */

import { Agent as AnyAgent, type CommonOptions } from "./agent.js";
import { connect } from "./browser/websocket.js";
import { check } from "./checks.js";
import { Redactor, recorded } from "./recording.js";
import type { Open, Way } from "./transport.js";

export * from "./common.js";

export interface AgentOptions extends CommonOptions {
  /** A server that runs: `ws://` or `wss://`. */
  address: string;
  /** Gets all messages of the session, without secrets, a line for each. */
  record?: ((line: string) => void) | undefined;
}

/** A connection to a server. */
export class Agent extends AnyAgent {
  /** Connects, and completes the handshake. */
  static async start(options: AgentOptions): Promise<Agent> {
    check(options);
    const { address, token } = options;
    if (!/^wss?:\/\//.test(address)) {
      throw new TypeError(`'${String(address)}' is not an address for a browser: ws://HOST:PORT or wss://HOST:PORT`);
    }
    const open: Open = (receiver, signal) => connect(address, token, receiver, signal);
    const { record } = options;
    const way: Way = { open, isLasting: true };
    const agent = new Agent(record ? recorded(way, record, new Redactor(token, {})) : way, options);
    await agent.connect();
    return agent;
  }
}
