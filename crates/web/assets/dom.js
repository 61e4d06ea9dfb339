// Elements, and what all parts of the page do with them. Text goes into the page as text nodes only: what the
// model, a command or a file says is never markup.

export const $ = (id) => document.getElementById(id);

/** An element; `aria-*`, `data-*` and `role` are attributes, all else properties. Strings become text nodes. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined) continue;
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child != null && child !== false));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** The icons, as paths in a box of 16 by 16. */
const ICONS = {
  check: "M3 8.5l3.2 3L13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  file: "M4 1.8h5l3.2 3.2v9.2H4zM9 2v3.2h3",
  folder: "M1.8 4h4.4l1.4 1.6h6.6v7H1.8z",
  spin: "M8 2a6 6 0 1 1-6 6",
  up: "M8 13V3.5M4 7.5L8 3.5l4 4",
  down: "M8 3v9.5M4 8.5L8 12.5l4-4",
  chevron: "M6 3.5L10.5 8L6 12.5",
  image: "M2 3h12v10H2zM2 11l3.5-3.5L9 11l2-2 3 3M10.5 6.2h.01",
  circle: "M8 3.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

export function button(words, onclick, properties = {}) {
  return el("button", { type: "button", onclick, ...properties }, words);
}

/** Shows a failure to the user until the next one, or until it is closed. */
export function notice(words) {
  $("notice-text").textContent = words;
  $("notice").hidden = !words;
}

/** Reports the failure of a promise that no code awaits. */
export async function run(what, promise) {
  try {
    return await promise;
  } catch (error) {
    notice(`${what}: ${error.message}`);
    return undefined;
  }
}

/** Tells screen readers what has happened; the page itself shows it elsewhere. */
export function announce(words) {
  $("announcer").textContent = words;
}

/** Opens a dialog of the page. The browser keeps the focus within it, closes it on Esc, and gives the focus back. */
export function openDialog(dialog) {
  if (!dialog.open) dialog.showModal();
}

/** A value of this tab (`sessionStorage`) or of this browser (`localStorage`); storage may be switched off. */
export function stored(storage, key) {
  try {
    return window[storage].getItem(key);
  } catch {
    return null;
  }
}

/** A stored list; what is none, such as what another program at this address has left, is an empty one. */
export function storedList(storage, key) {
  try {
    const list = JSON.parse(stored(storage, key) ?? "[]");
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}

/** Changes what an element contains. A control in it that has the focus is found again by its place among the controls. */
export function keepFocus(element, change) {
  const controls = () => [...element.querySelectorAll("a[href], button, input, select, summary, textarea, [tabindex]")];
  const at = element.contains(document.activeElement) ? controls().indexOf(document.activeElement) : -1;
  change();
  if (at >= 0 && !element.contains(document.activeElement)) controls()[Math.min(at, controls().length - 1)]?.focus({ preventScroll: true });
}

/** Stores a value, or removes it where it is empty. Returns whether it is kept: without storage, or where it is full, it is not. */
export function store(storage, key, value) {
  try {
    if (value) window[storage].setItem(key, value);
    else window[storage].removeItem(key);
    return true;
  } catch {
    return false;
  }
}
