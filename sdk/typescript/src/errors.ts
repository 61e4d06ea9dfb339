/** What can go wrong, by kind. Everything that this package throws by itself is an `AgentdError`. */

import type { AgentErrorInfo, TurnError } from "./protocol.js";

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
export class ConnectionLost extends AgentdError {}

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

/** A turn ended with an error. */
export class TurnFailed extends AgentdError {
  /** For programs: the `agentErrorInfo` of the protocol. */
  readonly kind: AgentErrorInfo | null;

  constructor(readonly error: TurnError | null) {
    super(error?.message ?? "the turn failed without a reason");
    this.kind = error?.agentErrorInfo ?? null;
  }
}

/** A turn was interrupted, here or by another client. */
export class TurnInterrupted extends AgentdError {}

/** A turn took longer than it may, and was interrupted. */
export class TurnTimeout extends AgentdError {}

/** The answer of a turn does not have the shape that was asked for. */
export class InvalidOutput extends AgentdError {
  constructor(
    why: string,
    /** The answer. */
    readonly text: string,
    options?: ErrorOptions,
  ) {
    super(`the answer does not have the wanted shape: ${why}`, options);
  }
}
