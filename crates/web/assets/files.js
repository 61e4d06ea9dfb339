// The files of the server's machine: folders to walk through, and a view of one file.

import { $, button, el, icon } from "./dom.js";
import { LineHighlighter, languageOf } from "./highlight.js";
import { visible } from "./text.js";

/** More of a file, or of a folder, is not shown. */
const MOST_LINES = 3000;
const MOST_ENTRIES = 2000;

const IMAGES = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };

export class FilesTab {
  #connection;
  #folder = null;
  #top = null;
  #request = 0;

  constructor(connection) {
    this.#connection = connection;
  }

  open(view) {
    this.#top = view?.folder ?? null;
    this.#folder = this.#top;
    this.#request += 1;
    $("pane-files").replaceChildren();
    if (!$("pane-files").hidden && !$("panel").hidden) this.refresh();
  }

  refresh() {
    if (this.#folder) this.#show(() => this.#listing(this.#folder));
    else $("pane-files").replaceChildren(el("p", { className: "empty" }, "No thread is open."));
  }

  /** Shows what `read` resolves to, or its failure, unless something else was asked for meanwhile. */
  async #show(read, focus = false) {
    const request = ++this.#request;
    let nodes;
    try {
      nodes = await read();
    } catch (error) {
      nodes = [this.#bar(this.#folder), el("p", { className: "field-error", role: "alert" }, error.message)];
    }
    if (request !== this.#request) return;
    $("pane-files").replaceChildren(...nodes);
    if (focus) $("pane-files").querySelector("button")?.focus();
  }

  #go(folder) {
    this.#folder = folder;
    this.#show(() => this.#listing(folder), true);
  }

  #bar(path, back) {
    const parent = path.replace(/\/[^/]*$/, "") || "/";
    const up = back ? button("Back to the folder", back) : path === "/" ? null : button("Up", () => this.#go(parent), { "aria-label": "To the folder above" });
    const home = !back && path !== this.#top ? button("Working folder", () => this.#go(this.#top)) : null;
    return el("div", { className: "bar" }, up, home, el("code", { className: "grow" }, visible(path)));
  }

  async #listing(folder) {
    const { entries } = await this.#connection.call("fs/readDirectory", { path: folder });
    const order = (a, b) => b.isDirectory - a.isDirectory || a.fileName.localeCompare(b.fileName);
    const rows = entries.sort(order).slice(0, MOST_ENTRIES).map((entry) => {
      const path = `${folder === "/" ? "" : folder}/${entry.fileName}`;
      const open = entry.isDirectory ? () => this.#go(path) : () => this.#show(() => this.#file(path), true);
      const row = button("", open, { className: "entry" });
      row.append(icon(entry.isDirectory ? "folder" : "file"), el("span", {}, visible(entry.fileName), entry.isDirectory && el("span", { className: "unseen" }, ", folder")));
      return el("li", {}, row);
    });
    const left = entries.length - rows.length;
    return [
      this.#bar(folder),
      rows.length ? el("ul", { className: "entries" }, ...rows) : el("p", { className: "empty" }, "This folder is empty."),
      left > 0 ? el("p", { className: "hint" }, `${left} more are not shown.`) : "",
    ];
  }

  async #file(path) {
    const bytes = await readFile(this.#connection, path);
    const bar = this.#bar(path, () => this.#show(() => this.#listing(this.#folder), true));
    const kind = IMAGES[path.split(".").at(-1).toLowerCase()];
    if (kind) return [bar, imageOf(bytes, kind, path)];
    const text = decoded(bytes);
    if (text === null) return [bar, el("p", { className: "empty" }, `Not a text file: ${bytes.length.toLocaleString("en")} bytes.`)];
    const lines = text.replace(/\n$/, "").split("\n");
    const colours = new LineHighlighter(languageOf(path));
    const rows = lines.slice(0, MOST_LINES).map((line, at) =>
      el("tr", {}, el("td", { className: "number" }, String(at + 1)), el("td", { className: "line" }, ...colours.line(line.replace(/\r$/, "")))));
    const left = lines.length - rows.length;
    return [
      bar,
      el("div", { className: "diff file", tabIndex: 0, role: "group", "aria-label": `Contents of ${visible(path)}` },
        el("table", {}, el("tbody", {}, ...rows))),
      left > 0 ? el("p", { className: "hint" }, `${left.toLocaleString("en")} more lines are not shown.`) : "",
    ];
  }
}

export async function readFile(connection, path) {
  const { dataBase64 } = await connection.call("fs/readFile", { path });
  return Uint8Array.from(atob(dataBase64), (character) => character.charCodeAt(0));
}

/** The text, or null where the bytes are none. */
function decoded(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

function imageOf(bytes, type, path) {
  const name = visible(path.split("/").at(-1));
  const image = el("img", { alt: name, className: "picture" });
  image.src = URL.createObjectURL(new Blob([bytes], { type }));
  const release = () => URL.revokeObjectURL(image.src);
  image.onload = release;
  image.onerror = () => {
    release();
    image.replaceWith(el("p", { className: "hint" }, `${name} cannot be shown as an image: ${bytes.length.toLocaleString("en")} bytes.`));
  };
  return image;
}

/** An image that an item names; its place stays empty, with the reason, where it cannot be read. */
export function itemImage(connection, path) {
  const place = el("div", { className: "picture-place" });
  const type = IMAGES[path.split(".").at(-1).toLowerCase()] ?? "image/png";
  readFile(connection, path).then(
    (bytes) => place.append(imageOf(bytes, type, path)),
    (error) => place.append(el("p", { className: "hint" }, error.message)),
  );
  return place;
}
