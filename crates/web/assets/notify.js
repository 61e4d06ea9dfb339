// Says outside of the page that the agent needs an answer, or has ended its turn: in the title, and with a
// notification of the browser where the user has switched that on.

import { $, store, stored } from "./dom.js";

const KEY = "agentd.notify";

export class Notifier {
  #title = "agentd";
  /** What waits, until the page is looked at. */
  #waits = "";

  constructor() {
    $("notify").checked = stored("localStorage", KEY) === "on" && permission() === "granted";
    $("notify").addEventListener("change", () => this.#switch());
    for (const name of ["focus", "visibilitychange"]) addEventListener(name, () => this.#seen());
    document.addEventListener("visibilitychange", () => this.#seen());
  }

  /** The title of the page, without what waits. */
  setTitle(title) {
    this.#title = title;
    this.#show();
  }

  /** Tells of something, unless the page is looked at. `open()` is called when the notification is clicked. */
  tell(words, body, open) {
    if (isSeen()) return;
    this.#waits = words;
    this.#show();
    if (!$("notify").checked || permission() !== "granted") return;
    const shown = new Notification(`${words}: ${this.#title}`, { body, tag: "agentd" });
    shown.onclick = () => {
      window.focus();
      shown.close();
      open();
    };
  }

  #seen() {
    if (!isSeen() || !this.#waits) return;
    this.#waits = "";
    this.#show();
  }

  #show() {
    document.title = this.#waits ? `(${this.#waits}) ${this.#title}` : this.#title;
  }

  async #switch() {
    const wanted = $("notify").checked;
    const allowed = wanted && permission() === "default" ? await Notification.requestPermission() : permission();
    const isOn = wanted && allowed === "granted";
    $("notify").checked = isOn;
    $("notify-hint").textContent = wanted && !isOn ? "The browser blocks notifications of this page. Allow them in its address bar." : "";
    store("localStorage", KEY, isOn ? "on" : "");
  }
}

function permission() {
  return "Notification" in window ? Notification.permission : "denied";
}

function isSeen() {
  return !document.hidden && document.hasFocus();
}
