/** The types of arguments, for callers whose compiler does not check them: a `TypeError` names the argument. */

import { isObject } from "./connection.js";

type Kind = "text" | "texts" | "flag" | "number" | "list" | "object" | "function";

/** Parameters of threads, turns and lists, and options of agents. Others are left to the server. */
const KINDS: Readonly<Record<string, Kind>> = {
  address: "text",
  approve: "function",
  archived: "flag",
  ask: "function",
  baseInstructions: "text",
  capabilities: "object",
  clientName: "text",
  collaborationMode: "object",
  config: "object",
  cwd: "texts",
  developerInstructions: "text",
  dynamicTools: "list",
  effort: "text",
  elicit: "function",
  env: "object",
  ephemeral: "flag",
  excludeTurns: "flag",
  lastTurnId: "text",
  limit: "number",
  log: "function",
  maxTotalTokens: "number",
  model: "text",
  modelProvider: "text",
  modelProviders: "list",
  numTurns: "number",
  objective: "text",
  offline: "flag",
  onError: "function",
  overwriteChanges: "flag",
  dryRun: "flag",
  personality: "text",
  program: "text",
  replay: "text",
  restoreFiles: "flag",
  sandbox: "text",
  sandboxPolicy: "object",
  searchTerm: "text",
  sendToolErrors: "flag",
  serviceName: "text",
  serviceTier: "text",
  signal: "object",
  sortDirection: "text",
  sortKey: "text",
  sourceKinds: "list",
  summary: "text",
  target: "object",
  threadId: "text",
  token: "text",
  tokenBudget: "number",
  tools: "list",
};

const NAMES: Record<Kind, string> = {
  text: "a text",
  texts: "a text or a list",
  flag: "true or false",
  number: "a number",
  list: "a list",
  object: "an object",
  function: "a function",
};

/** Checks named arguments. Absent ones and null are left to the server. */
export function check(args: unknown, what = "the options"): void {
  if (!isObject(args)) throw new TypeError(`${what} are not an object`);
  for (const [name, value] of Object.entries(args)) {
    const kind = Object.hasOwn(KINDS, name) ? KINDS[name] : undefined;
    if (kind !== undefined && value !== undefined && value !== null && !isOfKind(kind, value)) {
      throw new TypeError(`\`${name}\` is ${shown(value)}, not ${NAMES[kind]}`);
    }
  }
}

/** Checks an argument that cannot be left out. */
export function checkGiven(name: string, value: unknown): void {
  if (value === undefined || value === null) throw new TypeError(`\`${name}\` is missing`);
  check({ [name]: value });
}

function isOfKind(kind: Kind, value: unknown): boolean {
  if (kind === "text") return typeof value === "string";
  if (kind === "texts") return typeof value === "string" || Array.isArray(value);
  if (kind === "flag") return typeof value === "boolean";
  if (kind === "number") return typeof value === "number" && Number.isFinite(value);
  if (kind === "list") return Array.isArray(value);
  return kind === "object" ? isObject(value) : typeof value === "function";
}

/** A value may be a secret, and is not repeated. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : `of the type ${typeof value}`;
}
