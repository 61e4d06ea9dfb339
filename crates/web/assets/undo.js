// Taking back the latest turn: what would be done is shown first, then the files are restored, or stay.

import { ask } from "./dialog.js";
import { filesOf } from "./diff.js";
import { button, el, notice, run } from "./dom.js";
import { changeCards } from "./items.js";
import { visible } from "./text.js";

const files = (count) => (count === 1 ? "1 file" : `${count} files`);

export async function undo({ connection, view, composer }) {
  const plan = await run("The turn cannot be undone", planOf(connection, view));
  if (!plan) return;
  const way = await ask({ title: "Undo the latest turn", ...plan, isWide: true });
  if (!way) return;
  const [message] = view.messages().slice(-1);
  const params = { threadId: view.id, numTurns: 1, restoreFiles: way !== "turn", overwriteChanges: way === "overwrite" };
  const done = await run("The turn was not undone", connection.call("thread/rollback", params));
  if (!done) return;
  // The thread is shown anew by the notification about it; its last message can be changed and sent again.
  if (message) composer.restore(message);
  const left = [...(done.files?.conflicts ?? []), ...(done.files?.notRestored ?? [])];
  if (left.length) notice(`Not restored: ${left.map(({ path, reason }) => `${visible(path)} (${reason})`).join("; ")}`);
}

/** What the dialog shows and offers. */
async function planOf(connection, view) {
  const { config } = await connection.call("config/read", { cwd: view.folder, includeDefaults: true });
  if (!config.features?.undo) return withoutRecord(connection, "Files stay unchanged: their changes are not recorded, because features.undo is off.");
  let planned;
  try {
    planned = await connection.call("thread/rollback", { threadId: view.id, numTurns: 1, restoreFiles: true, dryRun: true });
  } catch (error) {
    if (error.code === undefined) throw error;
    return withoutRecord(null, `Files stay unchanged: ${error.message}.`);
  }
  return offered(planned.files, view.folder);
}

const TURN_ONLY = ["Undo the turn, keep the files", "turn"];

function withoutRecord(connection, words) {
  const nodes = [el("p", {}, words)];
  if (connection) {
    const state = el("p", { className: "hint", role: "status" }, "Recording takes time and space for each tool call: see “Undo” in the documentation.");
    const enable = button("Record changes from now on", async () => {
      const value = { keyPath: "features.undo", value: true, mergeStrategy: "replace" };
      try {
        const { filePath } = await connection.call("config/value/write", value);
        state.textContent = `features.undo is on for threads opened from now on: ${visible(filePath)}`;
        enable.disabled = true;
      } catch (error) {
        state.textContent = `It was not switched on: ${error.message}`;
      }
    });
    nodes.push(state, el("div", { className: "buttons" }, enable));
  }
  return { nodes, buttons: [TURN_ONLY] };
}

/** Headers of git's diffs name files without the slash that absolute paths begin with. */
function absolute(folder) {
  return (file) => (`/${file.path}`.startsWith(`${folder}/`) ? { ...file, path: `/${file.path}` } : file);
}

function offered({ diff, diffTruncated, restored, conflicts, notRestored }, folder) {
  const noted = (words, paths) => paths.map(({ path, reason }) => el("li", {}, `${words}: ${visible(path)} (${reason})`));
  const lines = [...noted("Changed since", conflicts), ...noted("Not restored", notRestored)];
  const changes = el("div", { className: "changes", tabIndex: 0, role: "group", "aria-label": "What would change in files" }, ...changeCards(filesOf(diff).map(absolute(folder)), folder));
  const nodes = [
    diff ? el("p", {}, `This would change ${files(restored.length + conflicts.length)}:`) : el("p", {}, "The turn changed no files."),
    diff && changes, diffTruncated && el("p", { className: "hint" }, "The diff is too long to show in full."),
    lines.length > 0 && el("ul", { className: "lines" }, ...lines),
  ].filter(Boolean);
  // What may lose something is never the first.
  if (conflicts.length) return { nodes, buttons: [TURN_ONLY, [`Undo the turn and overwrite later changes of ${files(conflicts.length)}`, "overwrite", "danger"]] };
  if (!restored.length) return { nodes, buttons: [["Undo the turn", "turn"]] };
  return { nodes, buttons: [[`Undo the turn and restore ${files(restored.length)}`, "restore"], [...TURN_ONLY, ""]] };
}
