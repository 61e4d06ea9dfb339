// What can be done with the open thread: entries of its menu, and commands after `/` in the composer.

import { ask, choiceField, textField } from "./dialog.js";
import { $, el, notice, openDialog, run } from "./dom.js";
import { exportThread } from "./export.js";
import { undo } from "./undo.js";
import { visible } from "./text.js";

const INIT = "Write an AGENTS.md for this folder: how it is organised, how it is built and tested, and the conventions that a " +
  "new contributor has to know. Read what is there first, and keep what an AGENTS.md already says where it is still true.";

/**
 * Name, argument and description of each command; `words`, those of the menu, where it has the command; `waits`, that
 * it has to wait for the end of a turn; and `run(host, text)`.
 */
const COMMANDS = [
  { name: "rename", argument: "NAME", what: "name this thread", words: "Rename …", run: rename },
  { name: "fork", what: "continue in a copy of this thread", words: "Fork", waits: true, run: fork },
  { name: "undo", what: "undo the latest turn and its file changes", words: "Undo the latest turn …", waits: true, run: (host) => undo(host) },
  { name: "review", argument: "TEXT", what: "review changes, or what the text describes", words: "Review …", waits: true, run: review },
  { name: "compact", what: "summarise the conversation to free the context", words: "Compact", waits: true, run: compact },
  { name: "goal", argument: "TEXT|clear", what: "set, show or clear the thread's goal", words: "Goal …", run: (host, text) => host.goal.command(text) },
  { name: "cost", what: "show the tokens, the cost and the limits", words: "Cost and limits", run: (host) => host.usage.show() },
  { name: "export", what: "save the thread as Markdown", words: "Export", run: (host) => run("The thread was not exported", exportThread(host.connection, host.view)) },
  { name: "archive", what: "archive this thread", words: "Archive", waits: true, run: archive },
  { name: "delete", what: "delete this thread permanently, after confirmation", words: "Delete …", waits: true, run: remove, className: "danger" },
  { name: "approvals", what: "choose what the agent may do", run: (host) => host.settings.show("approval-policy") },
  { name: "diff", what: "show all changes of the latest turn", run: (host) => host.panel.show("changes") },
  { name: "files", what: "show the files of the folder", run: (host) => host.panel.show("files") },
  { name: "image", what: "add an image to the message", run: () => $("image-file").click() },
  { name: "init", what: "let the agent write an AGENTS.md for this folder", waits: true, run: (host) => host.composer.sendText(INIT) },
  { name: "login", what: "choose an account, a key or another model provider", run: (host) => host.setup.show() },
  { name: "model", what: "choose the model and its effort", run: (host) => host.settings.show("model") },
  { name: "new", what: "start a new thread", run: (host) => host.startThread() },
  { name: "ps", what: "list running commands, with their output", run: (host) => host.panel.show("processes") },
  { name: "stop", what: "end the commands that run in the background", run: stop },
];

export class Actions {
  /** What the commands work on; set once all parts of the page exist. */
  host = null;

  /** The commands that can be used now. */
  commands() {
    return COMMANDS.filter((command) => !this.#whyNot(command)).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Runs a command. Returns the reason why it was not run, or null. */
  run(name, text) {
    const command = COMMANDS.find((one) => one.name === name);
    if (!command) return `Unknown command: /${visible(name)}. Type / to see all commands. With a space in front, the text is sent as a message.`;
    const why = this.#whyNot(command);
    if (why) return `/${name}: ${why}`;
    notice("");
    command.run(this.host, text);
    return null;
  }

  /** The entries of the menu. */
  entries() {
    const shown = COMMANDS.filter(({ words }) => words);
    return shown.map((command) => ({
      id: command.name, words: command.words, className: command.className, why: this.#whyNot(command),
      run: () => this.run(command.name, ""),
    }));
  }

  #whyNot({ waits }) {
    if (!this.host.connection.isReady) return "there is no connection to the server";
    return waits && this.host.view.running ? "it must wait for the end of the turn" : null;
  }
}

function rename(host, name) {
  if (name) {
    run("The thread was not renamed", host.connection.call("thread/name/set", { threadId: host.view.id, name }));
    return;
  }
  $("name").value = host.view.thread.name ?? "";
  openDialog($("rename-dialog"));
}

async function fork({ connection, view, open, nameOf }) {
  const forked = await run("The thread was not forked", connection.call("thread/fork", { threadId: view.id, excludeTurns: true }));
  if (!forked) return;
  // What the copy is called says where one is.
  const name = `${nameOf(view.thread).slice(0, 80)} (fork)`;
  await run("The copy was not named", connection.call("thread/name/set", { threadId: forked.thread.id, name }));
  await open(forked.thread.id);
}

function compact({ connection, view }) {
  run("The thread was not compacted", connection.call("thread/compact/start", { threadId: view.id }));
}

function archive({ connection, view }) {
  run("The thread was not archived", connection.call("thread/archive", { threadId: view.id }));
}

async function remove({ connection, view, nameOf }) {
  const { id, thread } = view;
  const nodes = [el("p", {}, `“${nameOf(thread)}” and all of its messages will be deleted permanently. Files in the folder stay unchanged.`)];
  const answer = await ask({ title: "Delete this thread?", nodes, buttons: [["Delete permanently", "delete", "primary destructive"]] });
  if (answer) await run("The thread was not deleted", connection.call("thread/delete", { threadId: id }));
}

function stop({ connection, view }) {
  run("The processes were not ended", connection.call("thread/backgroundTerminals/clean", { threadId: view.id }));
}

async function review({ connection, view }, instructions) {
  const target = instructions ? { type: "custom", instructions } : await reviewTarget();
  if (target) await run("The review was not started", connection.call("review/start", { threadId: view.id, target }));
}

async function reviewTarget() {
  const kind = choiceField("What should be reviewed?", [
    ["uncommittedChanges", "Uncommitted changes"], ["baseBranch", "Changes against a branch"],
    ["commit", "A commit"], ["custom", "Something else"],
  ]);
  const details = {
    baseBranch: textField("Branch", { placeholder: "main", spellcheck: false }), commit: textField("Commit", { placeholder: "its hash", spellcheck: false }),
    custom: textField("What to review", { tag: "textarea" }),
  };
  const show = () => {
    for (const [name, { element, input }] of Object.entries(details)) {
      element.hidden = kind.read() !== name;
      input.required = kind.read() === name;
    }
  };
  show();
  for (const input of kind.inputs) input.addEventListener("change", show);
  const nodes = [kind.element, ...Object.values(details).map(({ element }) => element)];
  if (!await ask({ title: "Review", nodes, buttons: [["Start the review", "start"]] })) return null;
  const type = kind.read();
  const text = details[type]?.read();
  return { uncommittedChanges: { type }, baseBranch: { type, branch: text }, commit: { type, sha: text }, custom: { type, instructions: text } }[type];
}
