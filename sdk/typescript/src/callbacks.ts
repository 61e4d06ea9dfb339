/** What answers the server: the functions of the caller. Without one, everything is declined. */

import { type Connection, type Params, type Reply, type RequestId, checkReply } from "./connection.js";
import { type Tool, toolAnswer } from "./tool.js";
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

/** Where a question of the server belongs. */
export interface CallbackContext {
  threadId: string;
  turnId: string | undefined;
  /** The item or the call that it is about. */
  callId: string | undefined;
  /**
   * The application's own value: `context` of the turn or, without one, of the thread; of a sub-agent, that of the turn
   * that gave it its work.
   */
  user: unknown;
  /** Aborted when the answer is no longer needed: another client gave it, or the turn has ended. */
  signal: AbortSignal;
}

/** A callback that failed. */
export interface CallbackFailure extends CallbackContext {
  callback: "approve" | "ask" | "elicit" | "tool" | "onNotification";
  /** The name of the tool. */
  tool: string | undefined;
}

export interface Callbacks {
  /** Allows what the agent asks for. Without it everything is declined. */
  approve?: ((approval: Approval, context: CallbackContext) => Awaitable<Decision>) | undefined;
  /** Answers questions of the agent: texts by the id of the question. Without it every question is skipped. */
  ask?:
    | ((
        params: ToolRequestUserInputParams,
        context: CallbackContext,
      ) => Awaitable<Record<string, string | string[]>>)
    | undefined;
  /** Answers an MCP server. Without it everything is declined. */
  elicit?:
    | ((
        params: McpServerElicitationRequestParams,
        context: CallbackContext,
      ) => Awaitable<McpServerElicitationRequestResponse>)
    | undefined;
  /** Functions that the model can call. */
  tools?: readonly Tool[] | undefined;
  /** Gets what a callback throws, after it was logged. */
  onError?: ((error: unknown, failure: CallbackFailure) => void) | undefined;
  /** Writes what a callback throws; `console.error` without it. */
  log?: ((message: string, error: unknown) => void) | undefined;
  /** Sends the text of whatever a callback throws to the server, and so to the model: it may hold secrets. */
  sendToolErrors?: boolean | undefined;
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

const KINDS = new Map<string, Approval["kind"]>([
  ["item/commandExecution/requestApproval", "command"],
  ["item/fileChange/requestApproval", "fileChange"],
  ["item/permissions/requestApproval", "permissions"],
]);

const CALLBACKS = new Map<string, CallbackFailure["callback"]>([
  ...[...KINDS.keys()].map((method) => [method, "approve"] as const),
  ["item/tool/requestUserInput", "ask"],
  ["mcpServer/elicitation/request", "elicit"],
  ["item/tool/call", "tool"],
]);

/** A question of the server, which it asks again on a new connection. */
interface Question {
  text: string;
  connection: Connection;
  context: CallbackContext;
  abort: AbortController;
  reply?: Reply;
}

/** Answers the server, each question once, over whichever connection it was asked last. */
export class Answerer {
  readonly #callbacks: Callbacks;
  readonly #userOf: (threadId: string, turnId: string | undefined) => unknown;
  readonly #tools: ReadonlyMap<string, Tool>;
  readonly #questions = new Map<RequestId, Question>();

  constructor(callbacks: Callbacks, userOf: (threadId: string, turnId: string | undefined) => unknown) {
    this.#callbacks = callbacks;
    this.#userOf = userOf;
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
    // The server was started again, and numbers its questions anew.
    if (known) this.#withdraw(id, known, "the server asks something else");
    const abort = new AbortController();
    const question: Question = { text, connection, abort, context: this.#contextOf(params, abort.signal) };
    this.#questions.set(id, question);
    void this.#reply(method, params, question.context).then((reply) => {
      if (abort.signal.aborted) return;
      question.reply = reply;
      question.connection.reply(id, reply);
    });
  }

  /** The server has an answer, here or from another client. */
  resolved(id: unknown): void {
    const question = this.#questions.get(id as RequestId);
    if (question) this.#withdraw(id as RequestId, question, "the question was answered elsewhere or withdrawn");
  }

  turnEnded(turnId: unknown): void {
    this.#withdrawAll("the turn has ended", ({ context }) => context.turnId !== undefined && context.turnId === turnId);
  }

  /** Of a thread's questions, only these are still open. */
  open(threadId: string, ids: readonly unknown[]): void {
    const isOver = ({ context }: Question, id: RequestId) => context.threadId === threadId && !ids.includes(id);
    this.#withdrawAll("the question was answered elsewhere or withdrawn", isOver);
  }

  /** No answer reaches the server any more. */
  lost(error: Error): void {
    this.#withdrawAll(error.message, () => true);
  }

  /** Writes what a callback threw, and gives it to the application. */
  failed(error: unknown, failure: CallbackFailure): void {
    const { callback, tool, threadId } = failure;
    const name = tool === undefined ? `\`${callback}\`` : `the tool \`${tool}\``;
    const where = threadId === "" ? "" : ` in thread ${threadId}`;
    try {
      (this.#callbacks.log ?? console.error)(`agentd: ${name} failed${where}:`, error);
      this.#callbacks.onError?.(error, failure);
    } catch (other) {
      console.error("agentd: `log` or `onError` failed:", other);
    }
  }

  #withdrawAll(why: string, isMeant: (question: Question, id: RequestId) => boolean): void {
    for (const [id, question] of [...this.#questions]) {
      if (isMeant(question, id)) this.#withdraw(id, question, why);
    }
  }

  #withdraw(id: RequestId, question: Question, why: string): void {
    this.#questions.delete(id);
    if (question.reply === undefined) question.abort.abort(new DOMException(why, "AbortError"));
  }

  #contextOf(params: Params, signal: AbortSignal): CallbackContext {
    const text = (name: string) => (typeof params[name] === "string" ? (params[name] as string) : undefined);
    const [threadId, turnId] = [text("threadId") ?? "", text("turnId")];
    const callId = text("callId") ?? text("itemId");
    return { threadId, turnId, callId, user: this.#userOf(threadId, turnId), signal };
  }

  async #reply(method: string, params: Params, context: CallbackContext): Promise<Reply> {
    try {
      const reply = { result: await this.#answer(method, params, context) };
      // An answer that JSON cannot express is the callback's failure, too.
      checkReply(reply);
      return reply;
    } catch (error) {
      // The server has to be answered whatever a callback throws.
      if (error instanceof Refusal) return { error: { code: error.code, message: error.message } };
      // What fails because it was aborted has done what it should.
      if (!context.signal.aborted) this.#report(error, method, params, context);
      const text = this.#callbacks.sendToolErrors ? String(error) : `The callback \`${CALLBACKS.get(method)}\` failed.`;
      if (method !== "item/tool/call") return { error: { code: -32603, message: text } };
      return { result: toolAnswer(this.#callbacks.sendToolErrors ? text : "The tool failed.", false) };
    }
  }

  #report(error: unknown, method: string, params: Params, context: CallbackContext): void {
    const callback = CALLBACKS.get(method) ?? "tool";
    this.failed(error, { ...context, callback, tool: callback === "tool" ? String(params["tool"]) : undefined });
  }

  async #answer(method: string, params: Params, context: CallbackContext): Promise<unknown> {
    const { ask, elicit } = this.#callbacks;
    const kind = KINDS.get(method);
    if (kind) return this.#approve(kind, params, context);
    if (method === "item/tool/requestUserInput") {
      // The server leaves the question to other clients, or has the model decide.
      if (!ask) throw new Refusal(-32601, "this client has no `ask`");
      const answers = Object.entries(await ask(params as unknown as ToolRequestUserInputParams, context));
      return { answers: Object.fromEntries(answers.map(([id, it]) => [id, { answers: [it].flat() }])) };
    }
    if (method === "mcpServer/elicitation/request") {
      return elicit ? elicit(params as unknown as McpServerElicitationRequestParams, context) : { action: "decline" };
    }
    if (method === "item/tool/call") {
      const tool = this.#tools.get(String(params["tool"]));
      if (!tool) throw new Refusal(-32602, `this client has no tool \`${String(params["tool"])}\``);
      const { turnId = "", callId = "" } = context;
      return tool.answer(params as unknown as DynamicToolCallParams, { ...context, turnId, callId });
    }
    throw new Refusal(-32601, `this client does not answer \`${method}\``);
  }

  async #approve(kind: Approval["kind"], params: Params, context: CallbackContext): Promise<unknown> {
    const text = (name: string) => (typeof params[name] === "string" ? (params[name] as string) : undefined);
    const approval = { kind, params, command: text("command"), reason: text("reason") } as unknown as Approval;
    const given = (await this.#callbacks.approve?.(approval, context)) ?? "decline";
    const decision = given === true ? "accept" : given === false ? "decline" : given;
    if (kind !== "permissions") return { decision };
    if (typeof decision === "object") return decision;
    const isGranted = decision === "accept" || decision === "acceptForSession";
    const permissions = isGranted ? (params["permissions"] ?? {}) : {};
    return { permissions, scope: decision === "acceptForSession" ? "session" : "turn" };
  }
}
