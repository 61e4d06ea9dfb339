// The token of the server: it comes in the fragment of the address, which no request contains, leaves the
// address bar at once, and stays in this tab.

import { store, stored } from "./dom.js";

const KEY = "agentd.token";

/** Takes the token out of the address, where there is one. Returns the token of this tab. */
export function takeToken() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const given = fragment.get("token");
  if (given) {
    keepToken(given);
    fragment.delete("token");
    const rest = fragment.toString();
    // Replaced, so that the history does not hold it either.
    history.replaceState(null, "", location.pathname + (rest ? `#${rest}` : ""));
  }
  return given ?? stored("sessionStorage", KEY) ?? "";
}

export function keepToken(token) {
  store("sessionStorage", KEY, token);
}

/** The thread that the address names. */
export function threadOfAddress() {
  return new URLSearchParams(location.hash.slice(1)).get("thread");
}

export function nameThread(id) {
  const wanted = id ? `#thread=${id}` : "";
  if (location.hash !== wanted) history.replaceState(null, "", location.pathname + wanted);
}
