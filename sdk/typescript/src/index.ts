/**
 * Embed a coding agent: the TypeScript client of `agentd`, for Node.
 *
 *     import { Agent } from "@agentd-embed/sdk";
 *
 *     await using agent = await Agent.start();
 *     console.log((await agent.run("What does this project do?")).text);
 */

import { appendFileSync, readFileSync, writeFileSync } from "node:fs";

import { Agent as AnyAgent, type CommonOptions } from "./agent.js";
import { check } from "./checks.js";
import { findProgram, spawn } from "./node/process.js";
import { settings } from "./node/toml.js";
import { connect } from "./node/websocket.js";
import { Redactor, recorded, replayed } from "./recording.js";
import type { Way } from "./transport.js";

export * from "./common.js";

export interface AgentOptions extends CommonOptions {
  /** A server that runs: `unix:///PATH`, `ws://` or `wss://`. Without one, the agent starts a server of its own. */
  address?: string | undefined;
  /** The program to start, in place of `AGENTD_PATH`, the one of the package for this platform, or the one in `PATH`. */
  program?: string | undefined;
  /** The environment of that server, in place of this process's. */
  env?: Record<string, string | undefined> | undefined;
  /** Its configuration, by dotted key. */
  config?: Record<string, unknown> | undefined;
  /** A file that gets all messages of the session, without secrets; one that is there is replaced. */
  record?: string | undefined;
  /** A file that was recorded so, in place of a server. What is sent has to be what was sent then. */
  replay?: string | undefined;
}

/** A server and the connection to it. Without an address it starts a server, which ends with it. */
export class Agent extends AnyAgent {
  /** Connects, and completes the handshake. */
  static async start(options: AgentOptions = {}): Promise<Agent> {
    check(options);
    const agent = new Agent(recordedWay(options), options);
    await agent.connect();
    return agent;
  }
}

function recordedWay(options: AgentOptions): Way {
  const { record, replay, token, env = process.env } = options;
  if (record !== undefined && replay !== undefined) throw new TypeError("`record` and `replay` exclude each other");
  const redactor = new Redactor(token, env);
  if (replay !== undefined) return replayed(readFileSync(replay, "utf8"), replay, redactor);
  const way = wayTo(options);
  if (record === undefined) return way;
  writeFileSync(record, "");
  return recorded(way, (line) => appendFileSync(record, line), redactor);
}

function wayTo({ address, token, program, cwd, env, config = {} }: AgentOptions): Way {
  if (address === undefined) {
    const command = { program: findProgram(program), args: ["app-server", ...settings(config)], cwd, env };
    return { open: (receiver) => spawn(command, receiver), isLasting: false };
  }
  if (!/^(unix:\/\/\/|wss?:\/\/)/.test(address)) {
    throw new TypeError(`'${address}' is not an address: unix:///PATH, ws://HOST:PORT or wss://HOST:PORT`);
  }
  return { open: (receiver, signal) => connect(address, token, receiver, signal), isLasting: true };
}
