/** What can go wrong, by kind. Everything that this package throws by itself is an `AgentdError`. */

import type { AgentErrorInfo, ThreadItem, ThreadTokenUsage, TokenCost, TokenUsageBreakdown, TurnError } from "./protocol.js";

/** The base of all errors of this package. */
export class AgentdError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The program `agentd` is nowhere to be found. */
export class ProgramNotFound extends AgentdError {}

/** The working folder of the server that is to be started is not there. */
export class FolderNotFound extends AgentdError {}

/** The server is gone, or what it wrote is not the protocol. Every call in progress rejects with this. */
export class ConnectionLost extends AgentdError {
  /** Where a turn was followed: as much of it as arrived. */
  readonly turn?: TurnData;
}

/** What the application sends is not what was sent when the session was recorded. */
export class ReplayMismatch extends ConnectionLost {
  constructor(
    where: string,
    /** The recorded message; undefined at the end of the recording. */
    readonly expected: unknown,
    /** The message in its place. */
    readonly actual: unknown,
  ) {
    const [before, now] = [expected, actual].map((it) => (it === undefined ? "nothing" : JSON.stringify(it)));
    super(actual === undefined ? where : `the replay differs at ${where}: ${before} was sent then, and ${now} now`);
  }
}

/** The server is older or newer than this package can work with. */
export class VersionMismatch extends AgentdError {
  constructor(
    readonly server: string,
    readonly wanted: string,
  ) {
    super(
      `the server is version ${server || "unknown"}, this package works with ${wanted}: ` +
        "update the older of the two",
    );
  }
}

/** The server refused a request. */
export class RequestError extends AgentdError {
  constructor(
    readonly method: string,
    readonly code: number,
    message: string,
    readonly data?: unknown,
  ) {
    super(`${method}: ${message}`);
  }
}

/** The request cannot be answered in this state, or what it names does not exist. */
export class InvalidRequest extends RequestError {}

/** The server has no such method, or it is experimental and was not enabled. */
export class MethodNotFound extends RequestError {}

/** The parameters have the wrong shape. */
export class InvalidParams extends RequestError {}

/** The server failed: its log says more. */
export class InternalError extends RequestError {}

/** The server has too much to do: try again later. */
export class Overloaded extends RequestError {}

const KINDS = new Map<number, typeof RequestError>([
  [-32600, InvalidRequest],
  [-32601, MethodNotFound],
  [-32602, InvalidParams],
  [-32603, InternalError],
  [-32001, Overloaded],
]);

/** The error of a refused request, by its code. */
export function requestError(method: string, error: unknown): RequestError {
  const { code, message, data } = (typeof error === "object" && error !== null ? error : {}) as Record<string, unknown>;
  const number = typeof code === "number" ? code : 0;
  const text = typeof message === "string" ? message : JSON.stringify(error);
  return new (KINDS.get(number) ?? RequestError)(method, number, text, data);
}

/** What is known of a turn. */
export interface TurnData {
  threadId: string;
  turnId: string;
  /** The answer, as far as it was received. */
  text: string;
  /** What the agent said on the way to it. */
  commentary: string;
  items: ThreadItem[];
  usage: ThreadTokenUsage | undefined;
  turnUsage: TokenUsageBreakdown | undefined;
  cost: TokenCost | undefined;
}

/** The base of the errors of turns, with what the turn has done and used until then. */
export class TurnProblem extends AgentdError implements TurnData {
  readonly threadId: string = "";
  readonly turnId: string = "";
  readonly text: string = "";
  readonly commentary: string = "";
  readonly items: ThreadItem[] = [];
  readonly usage: ThreadTokenUsage | undefined;
  readonly turnUsage: TokenUsageBreakdown | undefined;
  readonly cost: TokenCost | undefined;
}

/** The same error with what is known of its turn. */
export function withTurn<E extends AgentdError>(error: E, turn: TurnData): E {
  return Object.assign(error, error instanceof TurnProblem ? turn : { turn });
}

/** A turn ended with an error. */
export class TurnFailed extends TurnProblem {
  /** For programs: the `agentErrorInfo` of the protocol. */
  readonly kind: AgentErrorInfo | null;

  constructor(readonly error: TurnError | null) {
    super(error?.message ?? "the turn failed without a reason");
    this.kind = error?.agentErrorInfo ?? null;
  }
}

/** A turn was interrupted, here or by another client. */
export class TurnInterrupted extends TurnProblem {}

/** A turn took longer than it may, and was interrupted. */
export class TurnTimeout extends TurnProblem {}

/** A turn was interrupted by `abort()` of its signal. Its `name` is `AbortError`; `cause` is the reason of the signal. */
export class TurnAborted extends TurnProblem {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "AbortError";
  }
}

/** A turn cost more than `maxCost`, or what it costs is not known, and it was interrupted. */
export class BudgetExceeded extends TurnProblem {}

/** The thread has a turn in progress, and `onBusy` is `error`. */
export class ThreadBusy extends AgentdError {
  constructor(readonly threadId: string) {
    super(
      `a turn is in progress in thread ${threadId}: wait for its end, or use \`onBusy: "wait"\` or \`onBusy: "join"\``,
    );
  }
}

/** The answer of a turn does not have the shape that was asked for; `text` is the answer. */
export class InvalidOutput extends TurnProblem {
  constructor(why: string, text: string, options?: ErrorOptions) {
    super(`the answer does not have the wanted shape: ${why}`, options);
    Object.assign(this, { text });
  }
}

/** What a tool throws for the model to read: other errors are logged, and the model learns that the tool failed. */
export class ToolError extends AgentdError {}
