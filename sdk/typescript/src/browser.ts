/** The same client for browsers, over their WebSocket. */

import { Agent as AnyAgent, type CommonOptions } from "./agent.js";
import { connect } from "./browser/websocket.js";
import type { Open } from "./transport.js";

export * from "./common.js";

export interface AgentOptions extends CommonOptions {
  /** A server that runs: `ws://` or `wss://`. */
  address: string;
}

/** A connection to a server. */
export class Agent extends AnyAgent {
  /** Connects, and completes the handshake. */
  static async start(options: AgentOptions): Promise<Agent> {
    const { address, token } = options;
    if (!/^wss?:\/\//.test(address)) {
      throw new TypeError(`'${String(address)}' is no address for a browser: ws://HOST:PORT or wss://HOST:PORT`);
    }
    const open: Open = (receiver, signal) => connect(address, token, receiver, signal);
    const agent = new Agent({ open, isLasting: true }, options);
    await agent.connect();
    return agent;
  }
}
