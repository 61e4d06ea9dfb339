/** What answers the server: the functions of the caller. Without one, everything is declined. */

import { type Connection, type Params, type Reply, type RequestId, checkReply } from "./connection.js";
import type { Tool } from "./tool.js";
import type {
  CommandExecutionRequestApprovalParams,
  CommandExecutionRequestApprovalResponse,
  DynamicToolCallParams,
  FileChangeRequestApprovalParams,
  FileChangeRequestApprovalResponse,
  McpServerElicitationRequestParams,
  McpServerElicitationRequestResponse,
  PermissionsRequestApprovalParams,
  PermissionsRequestApprovalResponse,
  ToolRequestUserInputParams,
} from "./protocol.js";

interface Asked<K, P> {
  kind: K;
  /** The parameters of the request, in the shape of the protocol. */
  params: P;
  /** The whole command, of the kind `command`. */
  command: string | undefined;
  /** Why, in the words of the server or the model. */
  reason: string | undefined;
}

/** What the agent asks to be allowed. */
export type Approval =
  | Asked<"command", CommandExecutionRequestApprovalParams>
  | Asked<"fileChange", FileChangeRequestApprovalParams>
  | Asked<"permissions", PermissionsRequestApprovalParams>;

/** An answer to an approval: yes or no, one of these words, or an object of the protocol. */
export type Decision =
  | boolean
  | "accept"
  | "acceptForSession"
  | "decline"
  | "cancel"
  | Exclude<CommandExecutionRequestApprovalResponse["decision"] | FileChangeRequestApprovalResponse["decision"], string>
  | PermissionsRequestApprovalResponse;

type Awaitable<T> = T | Promise<T>;

export interface Callbacks {
  /** Allows what the agent asks for. Without it everything is declined. */
  approve?: ((approval: Approval) => Awaitable<Decision>) | undefined;
  /** Answers questions of the agent: texts by the id of the question. Without it every question is skipped. */
  ask?: ((params: ToolRequestUserInputParams) => Awaitable<Record<string, string | string[]>>) | undefined;
  /** Answers an MCP server. Without it everything is declined. */
  elicit?:
    | ((params: McpServerElicitationRequestParams) => Awaitable<McpServerElicitationRequestResponse>)
    | undefined;
  /** Functions that the model can call. */
  tools?: readonly Tool[] | undefined;
}

/** What the server is answered in place of a result. */
class Refusal extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

const APPROVALS = new Map<string, Approval["kind"]>([
  ["item/commandExecution/requestApproval", "command"],
  ["item/fileChange/requestApproval", "fileChange"],
  ["item/permissions/requestApproval", "permissions"],
]);

/** A question of the server, which it asks again on a new connection. */
interface Question {
  text: string;
  connection: Connection;
  reply?: Reply;
}

/** Answers the server, each question once, over whichever connection it was asked last. */
export class Answerer {
  readonly #callbacks: Callbacks;
  readonly #tools: ReadonlyMap<string, Tool>;
  readonly #questions = new Map<RequestId, Question>();

  constructor(callbacks: Callbacks) {
    this.#callbacks = callbacks;
    this.#tools = new Map(callbacks.tools?.map((tool) => [tool.name, tool]));
  }

  get tools(): Tool[] {
    return [...this.#tools.values()];
  }

  asked(connection: Connection, id: RequestId, method: string, params: Params): void {
    const text = JSON.stringify([method, params]);
    const known = this.#questions.get(id);
    if (known?.text === text) {
      known.connection = connection;
      if (known.reply) connection.reply(id, known.reply);
      return;
    }
    const question: Question = { text, connection };
    this.#questions.set(id, question);
    void this.#reply(method, params).then((reply) => {
      question.reply = reply;
      question.connection.reply(id, reply);
    });
  }

  /** The server has an answer, here or from another client. */
  resolved(id: unknown): void {
    this.#questions.delete(id as RequestId);
  }

  async #reply(method: string, params: Params): Promise<Reply> {
    try {
      const reply = { result: await this.#answer(method, params) };
      // An answer that JSON cannot express is the callback's failure, too.
      checkReply(reply);
      return reply;
    } catch (error) {
      // The server has to be answered whatever a callback throws.
      if (error instanceof Refusal) return { error: { code: error.code, message: error.message } };
      return { error: { code: -32603, message: String(error) } };
    }
  }

  async #answer(method: string, params: Params): Promise<unknown> {
    const { ask, elicit } = this.#callbacks;
    const kind = APPROVALS.get(method);
    if (kind) return this.#approve(kind, params);
    if (method === "item/tool/requestUserInput") {
      if (!ask) return { answers: {} };
      const answers = Object.entries(await ask(params as unknown as ToolRequestUserInputParams));
      return { answers: Object.fromEntries(answers.map(([id, it]) => [id, { answers: [it].flat() }])) };
    }
    if (method === "mcpServer/elicitation/request") {
      return elicit ? elicit(params as unknown as McpServerElicitationRequestParams) : { action: "decline" };
    }
    if (method === "item/tool/call") {
      const tool = this.#tools.get(String(params["tool"]));
      if (!tool) throw new Refusal(-32602, `this client has no tool \`${String(params["tool"])}\``);
      return tool.answer(params as unknown as DynamicToolCallParams);
    }
    throw new Refusal(-32601, `this client does not answer \`${method}\``);
  }

  async #approve(kind: Approval["kind"], params: Params): Promise<unknown> {
    const text = (name: string) => (typeof params[name] === "string" ? (params[name] as string) : undefined);
    const approval = { kind, params, command: text("command"), reason: text("reason") } as unknown as Approval;
    const given = (await this.#callbacks.approve?.(approval)) ?? "decline";
    const decision = given === true ? "accept" : given === false ? "decline" : given;
    if (kind !== "permissions") return { decision };
    if (typeof decision === "object") return decision;
    const isGranted = decision === "accept" || decision === "acceptForSession";
    const permissions = isGranted ? (params["permissions"] ?? {}) : {};
    return { permissions, scope: decision === "acceptForSession" ? "session" : "turn" };
  }
}
