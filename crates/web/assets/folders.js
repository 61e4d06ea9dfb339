// The folder of a new thread: recent ones while nothing is written, else the folders that the path could go on with.

import { $, button, el, icon } from "./dom.js";
import { visible } from "./text.js";

const MOST_ROWS = 60;
const THREADS = 100;
const SEARCH_MS = 150;

export class Folders {
  #connection;
  #recent = [];
  #request = 0;
  #timer;
  /** Listings of folders, of one opening of the dialog. */
  #listings = new Map();

  constructor(connection) {
    this.#connection = connection;
    $("cwd").addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#show(), SEARCH_MS);
    });
    $("cwd").addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown") return;
      event.preventDefault();
      $("folders").querySelector("button")?.focus();
    });
    $("folders").addEventListener("keydown", (event) => this.#move(event));
  }

  /** The dialog opens. */
  async open() {
    this.#listings.clear();
    this.#recent = [];
    this.#draw("", []);
    try {
      const page = await this.#connection.call("thread/list", { limit: THREADS, sortKey: "updated_at", sourceKinds: ["editor", "cli", "appServer", "exec", "unknown"] });
      this.#recent = [...new Set(page.data.map(({ cwd }) => cwd))].slice(0, 12);
    } catch {
      // Without a connection there are none; starting a thread says so.
    }
    await this.#show();
  }

  async #show() {
    const request = ++this.#request;
    const written = $("cwd").value;
    if (!written.startsWith("/")) {
      const fits = (path) => path.toLowerCase().includes(written.trim().toLowerCase());
      this.#draw("Recent folders", this.#recent.filter(fits).map((path) => this.#row(path, path)));
      return;
    }
    const at = written.lastIndexOf("/");
    const [folder, begun] = [written.slice(0, at) || "/", written.slice(at + 1).toLowerCase()];
    let names;
    try {
      names = await this.#list(folder);
    } catch (error) {
      if (request === this.#request) this.#draw("Folders", [], error.message);
      return;
    }
    if (request !== this.#request) return;
    const shown = names.filter((name) => name.toLowerCase().startsWith(begun) && (begun.startsWith(".") || !name.startsWith(".")));
    const base = folder === "/" ? "" : folder;
    const rows = shown.slice(0, MOST_ROWS).map((name) => this.#row(`${base}/${name}`, name, true));
    const parent = folder === "/" ? [] : [this.#row(folder.replace(/\/[^/]*$/, "") || "/", "..", true)];
    this.#draw(`Folders in ${visible(folder)}`, [...parent, ...rows], shown.length > MOST_ROWS ? `${shown.length - MOST_ROWS} more: keep typing.` : "");
  }

  async #list(folder) {
    if (!this.#listings.has(folder)) {
      const { entries } = await this.#connection.call("fs/readDirectory", { path: folder });
      this.#listings.set(folder, entries.filter(({ isDirectory }) => isDirectory).map(({ fileName }) => fileName).sort((a, b) => a.localeCompare(b)));
    }
    return this.#listings.get(folder);
  }

  /** A folder. One of a listing is walked into, a recent one is taken. */
  #row(path, name, walks = false) {
    const choose = () => {
      $("cwd").value = walks ? `${path === "/" ? "" : path}/` : path;
      $("cwd").focus();
      this.#show();
    };
    const row = button("", choose, { className: "folder-entry", title: path, "aria-label": name === ".." ? "To the folder above" : visible(path) });
    row.append(icon("folder"), el("span", {}, visible(name)));
    return el("li", {}, row);
  }

  #draw(title, rows, hint = "") {
    $("folders-title").textContent = title;
    $("folders-title").hidden = !rows.length && !hint;
    $("folders").replaceChildren(...rows);
    $("folders-hint").textContent = hint;
  }

  #move(event) {
    const rows = [...$("folders").querySelectorAll("button")];
    const at = rows.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    if (next < 0) $("cwd").focus();
    else rows[Math.min(next, rows.length - 1)].focus();
  }
}
