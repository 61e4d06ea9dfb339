// One connection to the server that this page comes from: token, handshake, calls and their answers, signs of
// life, and coming back after a loss. It knows no method but `initialize` and the one that it asks for life with.

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
/** A handshake that takes longer has met something that holds it back. */
const HANDSHAKE_MS = 10_000;
/** After this long without a message, the server is asked for one; a proxy may have lost the connection silently. */
const QUIET_MS = 20_000;
const ANSWER_MS = 10_000;

/** The server is overloaded and did not take the request: it may be sent again, later. */
const OVERLOADED = -32001;
const MOST_TRIES = 6;
const METHOD_NOT_FOUND = -32601;

/** An error answer of the server, or the loss of the connection (without a code). */
export class CallError extends Error {
  /** Whether the request was sent, and its answer was lost: it may have been carried out. */
  isUnanswered = false;

  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

export class Connection {
  #handlers;
  #token;
  #socket = null;
  #ready = false;
  #calls = new Map();
  #nextId = 0;
  #failures = 0;
  #timer;
  #deadline;
  #heard = 0;
  #asking = false;

  /**
   * `handlers`:
   * - `onState(phase, words)`: `connecting`, `open`, `waiting` (it will try again by itself) or
   *   `unauthorized` (it needs another token);
   * - `onReady()`: the handshake is done, for the first time or again;
   * - `onNotification(method, params, eventCursor)`;
   * - `onRequest(id, method, params)`: returns false when it is not for this client.
   */
  constructor(handlers) {
    this.#handlers = handlers;
    setInterval(() => this.#askForLife(), 5000);
    // A machine that wakes up, or comes into a network, tries at once.
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => document.hidden || this.retry());
  }

  /** Connects with this token, instead of whatever connection there was. */
  connect(token) {
    this.#token = token;
    this.#failures = 0;
    this.#drop("another connection was started");
    this.#open();
  }

  /** Tries again at once, if it waits. */
  retry() {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#open();
  }

  get isReady() {
    return this.#ready;
  }

  /** Calls a method; a request that the server had no room for is sent again. */
  async call(method, params = {}) {
    for (let tries = 0; ; tries += 1) {
      try {
        if (!this.#ready) throw new CallError("there is no connection to the server");
        return await this.#request(method, params);
      } catch (error) {
        if (error.code !== OVERLOADED || tries === MOST_TRIES) throw error;
        await new Promise((wake) => setTimeout(wake, delay(tries)));
      }
    }
  }

  /** Answers a request of the server. Returns false without a connection: the server asks again. */
  answer(id, result) {
    if (this.#ready) this.#send({ id, result });
    return this.#ready;
  }

  #open() {
    this.#timer = undefined;
    if (!this.#token) {
      this.#handlers.onState("unauthorized", "This page needs the server's token.");
      return;
    }
    this.#handlers.onState("connecting", "Connecting …");
    const socket = new WebSocket(`ws://${location.host}/`, ["agentd", `agentd.bearer.${base64url(this.#token)}`]);
    this.#socket = socket;
    this.#deadline = setTimeout(() => this.#lost("no answer to the handshake; a proxy may block it"), HANDSHAKE_MS);
    socket.onopen = () => this.#initialize(socket);
    socket.onmessage = (event) => socket === this.#socket && this.#receive(event.data);
    socket.onclose = (event) => socket === this.#socket && this.#closed(event);
  }

  async #initialize(socket) {
    try {
      const clientInfo = { name: "agentd_web", title: "agentd web", version: "1" };
      // With cursors a client comes back to exactly where it was: docs/reconnecting.md.
      const capabilities = { experimentalApi: true, eventCursor: true, tokenCost: true };
      await this.#request("initialize", { clientInfo, capabilities });
    } catch (error) {
      if (socket === this.#socket) this.#lost(`initialize failed: ${error.message}`);
      return;
    }
    if (socket !== this.#socket) return;
    clearTimeout(this.#deadline);
    this.#send({ method: "initialized" });
    this.#ready = true;
    this.#failures = 0;
    this.#handlers.onState("open", "Connected");
    this.#handlers.onReady();
  }

  #request(method, params) {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      this.#send({ id, method, params });
    });
  }

  #send(message) {
    this.#socket.send(JSON.stringify(message));
  }

  #receive(data) {
    this.#heard = Date.now();
    const message = JSON.parse(data);
    const { id, method, params } = message;
    if (method === undefined) {
      // The ids of the server's requests are its own: only answers are looked up here.
      const call = this.#calls.get(id);
      this.#calls.delete(id);
      if (message.error) call?.reject(new CallError(message.error.message, message.error.code));
      else call?.resolve(message.result);
    } else if (id === undefined) {
      this.#handlers.onNotification(method, params, message.eventCursor);
    } else if (!this.#handlers.onRequest(id, method, params)) {
      this.#send({ id, error: { code: METHOD_NOT_FOUND, message: `this client does not handle ${method}` } });
    }
  }

  async #askForLife() {
    if (!this.#ready || this.#asking || Date.now() - this.#heard < QUIET_MS) return;
    this.#asking = true;
    const socket = this.#socket;
    const late = setTimeout(() => socket === this.#socket && this.#lost("the server no longer answers"), ANSWER_MS);
    // An error is an answer, too.
    await this.#request("thread/loaded/list", { limit: 1 }).catch(() => {});
    clearTimeout(late);
    this.#asking = false;
  }

  async #closed(event) {
    const wasReady = this.#ready;
    const words = `${event.reason || "the connection was lost"} (${event.code})`;
    this.#drop(words);
    if (wasReady) this.#wait(words);
    else await this.#explainRefusal();
  }

  #lost(words) {
    this.#drop(words);
    this.#wait(words);
  }

  /** Lets go of the connection; calls without an answer fail. */
  #drop(words) {
    const socket = this.#socket;
    this.#socket = null;
    this.#ready = false;
    clearTimeout(this.#timer);
    clearTimeout(this.#deadline);
    this.#timer = undefined;
    socket?.close(1000);
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) {
      const error = new CallError(`the connection was lost meanwhile: ${words}`);
      error.isUnanswered = true;
      call.reject(error);
    }
  }

  #wait(words) {
    const wait = delay(this.#failures++);
    this.#timer = setTimeout(() => this.#open(), wait);
    this.#handlers.onState("waiting", `Disconnected: ${words}. Trying again in ${(wait / 1000).toFixed(1)} s.`);
  }

  /** Browsers hide from pages why a handshake failed. The server says whether the token is the reason. */
  async #explainRefusal() {
    const token = this.#token;
    const isSuperseded = () => token !== this.#token || this.#socket !== null || this.#timer !== undefined;
    try {
      const headers = { Authorization: `Bearer ${token}` };
      const signal = AbortSignal.timeout(5000);
      const { status } = await fetch("/token", { headers, cache: "no-store", signal });
      if (isSuperseded()) return;
      if (status === 401) {
        this.#handlers.onState("unauthorized", "The server does not accept this token.");
        return;
      }
      const words = status === 200 ? "the server is reachable, but WebSockets are blocked on the way" : `the server refused the connection with status ${status}`;
      this.#wait(words);
    } catch {
      if (!isSuperseded()) this.#wait("the server does not answer");
    }
  }
}

/** Grows exponentially; half of it is random, so that clients do not come back all at once. */
function delay(failures) {
  const most = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(failures, 10));
  return most * (0.5 + Math.random() / 2);
}

function base64url(text) {
  const bytes = new TextEncoder().encode(text);
  const base64 = btoa(String.fromCharCode(...bytes));
  return base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
