// A thread as Markdown, saved as a file by the browser.

import { AGENT_TOOLS, NOTES } from "./facts.js";
import { nameOf } from "./threads.js";
import { output } from "./text.js";

const TURNS_A_PAGE = 50;

/** Reads all turns of a thread, and saves them. */
export async function exportThread(connection, { id, thread, folder }) {
  const turns = [];
  for (let cursor = null; ; ) {
    const page = await connection.call("thread/turns/list", { threadId: id, itemsView: "full", sortDirection: "asc", limit: TURNS_A_PAGE, cursor });
    turns.push(...page.data);
    cursor = page.nextCursor;
    if (!cursor) break;
  }
  const { thread: now } = await connection.call("thread/read", { threadId: id });
  const name = nameOf(now);
  save(`${name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "thread"}.md`, markdownOf({ ...thread, ...now }, name, folder, turns));
}

function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

export function markdownOf({ id, createdAt }, name, folder, turns) {
  const head = `# ${name}\n\nThread \`${id}\` in \`${folder}\`, started ${new Date(createdAt * 1000).toISOString()}\n`;
  const parts = turns.flatMap(({ items, status, error }) => [
    ...items.map(partOf), status === "failed" || status === "interrupted" ? `*The turn ${status === "failed" ? "failed" : "was interrupted"}.* ${error?.message ?? ""}` : "",
  ]);
  return [head, ...parts.filter(Boolean)].join("\n");
}

/** A block that no line of its text can end. */
function fenced(text, language = "") {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text.replace(/\n$/, "")}\n${fence}\n`;
}

const PARTS = {
  userMessage: ({ content }) => `## You\n\n${content.map((part) => part.text ?? `[${part.type}${part.name || part.path ? `: ${part.name ?? part.path}` : ""}]`).join("\n")}\n`,
  agentMessage: ({ text, phase }) => `${phase === "commentary" ? "" : "## Agent\n\n"}${text}\n`,
  plan: ({ text }) => `## Proposed plan\n\n${text}\n`,
  reasoning: ({ summary }) => (summary.length ? `${summary.join("\n\n").replace(/^/gm, "> ")}\n` : ""),
  commandExecution: ({ command, aggregatedOutput: text, exitCode }) =>
    `${fenced(`$ ${command}\n${output(text ?? "")}`, "console")}${exitCode ? `\nExit code ${exitCode}\n` : ""}`,
  fileChange: ({ changes, status }) => changes.map(({ path, kind, diff }) => `\`${path}\`: ${kind.type ?? kind}${status === "completed" ? "" : ` (${status})`}\n\n${fenced(diff, "diff")}`).join("\n"),
  mcpToolCall: ({ server, tool, arguments: given, result, error }) => {
    const text = error?.message ?? (result?.content ?? []).map((part) => part.text ?? `[${part.type}]`).join("\n");
    return `**${server} · ${tool}**\n\n${fenced(JSON.stringify(given ?? {}, null, 2), "json")}\n${text ? fenced(text) : ""}`;
  },
  dynamicToolCall: ({ tool, arguments: given, contentItems }) => {
    const text = (contentItems ?? []).map((part) => part.text ?? "[image]").join("\n");
    return `**${tool}**\n\n${fenced(JSON.stringify(given ?? {}, null, 2), "json")}\n${text ? fenced(text) : ""}`;
  },
  collabToolCall: ({ tool, prompt }) => `*${AGENT_TOOLS[tool] ?? tool}*${prompt ? `\n\n${prompt}` : ""}\n`,
  exitedReviewMode: ({ review }) => `## Review\n\n${review}\n`,
};

function partOf(item) {
  if (PARTS[item.type]) return PARTS[item.type](item);
  const known = NOTES[item.type];
  return `*${known?.title ?? item.type}*${known?.member && item[known.member] ? `: ${item[known.member]}` : ""}\n`;
}
