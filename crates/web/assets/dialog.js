// Questions of the page itself, as dialogs that are made when they are asked.

import { button, el, openDialog } from "./dom.js";

let count = 0;

/**
 * Asks with a dialog. `buttons`: `[words, value, className]` each, of which the first is submitted by Enter; one
 * that closes is added. Resolves to the value of the button, or to null when the dialog was closed otherwise. The
 * browser gives the focus back to what had it.
 */
export function ask({ title, nodes = [], buttons = [], close = "Cancel", isWide = false }) {
  const id = `dialog-${count++}`;
  const dialog = el("dialog", { "aria-labelledby": id, className: isWide ? "wide" : "" });
  const submits = buttons.map(([words, value, className = "primary"]) => el("button", { type: "submit", value, className }, words));
  dialog.append(el("form", { method: "dialog", autocomplete: "off" },
    el("h2", { id }, title), ...nodes,
    el("div", { className: "buttons" }, ...submits, button(close, () => dialog.close(), { "data-cancel": "" }))));
  document.body.append(dialog);
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue || null);
    });
    openDialog(dialog);
  });
}

/** A field with its label; `read()` returns its text. */
export function textField(label, properties = {}, hint = null) {
  const { tag = "input", ...rest } = properties;
  const input = el(tag, { ...(tag === "input" ? { type: "text" } : { rows: 4 }), autocomplete: "off", ...rest });
  const element = el("label", {}, label, input, hint && el("span", { className: "hint" }, hint));
  return { element, input, read: () => input.value.trim() };
}

/** Options of which one is chosen: `[value, words, hint]` each, the first at the beginning. */
export function choiceField(legend, options) {
  const name = `choice-${count++}`;
  const inputs = options.map(([value], at) => el("input", { type: "radio", name, value, checked: at === 0 }));
  const rows = options.map(([, words, hint], at) =>
    el("label", { className: "choice" }, inputs[at], el("span", {}, words, hint && el("span", { className: "hint" }, hint))));
  const element = el("fieldset", {}, el("legend", {}, legend), ...rows);
  return { element, inputs, read: () => inputs.find(({ checked }) => checked).value };
}
