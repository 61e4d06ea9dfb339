// One connection to `agentd app-server` over a WebSocket: credentials, handshake, calls and their
// answers, and coming back after a loss. It knows no method but `initialize`.

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 30_000;

/** The server is overloaded and did not take the request: it may be sent again, later. */
const OVERLOADED = -32001;
const MOST_TRIES = 6;

const METHOD_NOT_FOUND = -32601;

/** An error answer of the server, or the loss of the connection (without a code). */
export class CallError extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

export class Connection {
  #url;
  #token;
  #handlers;
  #socket = null;
  #ready = false;
  #everOpen = false;
  #ended = false;
  #calls = new Map();
  #nextId = 0;
  #failures = 0;
  #timer;

  /**
   * `handlers`:
   * - `onState(phase, words)`: `connecting`, `open`, `waiting` (lost; it will try again), `failed`
   *   (it will not) or `closed` (by `close`), and why;
   * - `onReady()`: the handshake is done, for the first time or again. The server has forgotten
   *   what the connection before was subscribed to;
   * - `onNotification(method, params, eventCursor)`;
   * - `onRequest(id, method, params)`: returns false when it is not for this client. Answer with
   *   `answer(id, result)`.
   */
  constructor(url, token, handlers) {
    this.#url = url;
    this.#token = token;
    this.#handlers = handlers;
    this.#connect();
  }

  /** Calls a method; a request that the server had no room for is sent again. */
  async call(method, params) {
    for (let tries = 0; ; tries += 1) {
      try {
        if (!this.#ready) throw new CallError("there is no connection");
        return await this.#request(method, params);
      } catch (error) {
        if (error.code !== OVERLOADED || tries === MOST_TRIES) throw error;
        await new Promise((wake) => setTimeout(wake, delay(tries)));
      }
    }
  }

  /** Answers a request of the server. After a disconnection, the server asks again. */
  answer(id, result) {
    if (this.#ready) this.#send({ id, result });
  }

  /** Closes the connection permanently. */
  close() {
    this.#end("closed", "Disconnected.");
  }

  #end(phase, words) {
    if (this.#ended) return;
    this.#ended = true;
    this.#ready = false;
    clearTimeout(this.#timer);
    this.#handlers.onState(phase, words);
    this.#socket?.close(1000);
  }

  #connect() {
    this.#handlers.onState("connecting", `Connecting to ${this.#url} …`);
    // Browsers cannot send an `Authorization` header. The token travels among the offered
    // subprotocols instead; the server chooses `agentd`.
    const protocols = ["agentd"];
    if (this.#token) protocols.push(`agentd.bearer.${base64url(this.#token)}`);
    let socket;
    try {
      socket = new WebSocket(this.#url, protocols);
    } catch (error) {
      this.#end("failed", `This is no address of a server: ${error.message}`);
      return;
    }
    this.#socket = socket;
    socket.onopen = () => this.#initialize(socket);
    socket.onmessage = (event) => this.#receive(JSON.parse(event.data));
    socket.onclose = (event) => this.#lost(event);
  }

  async #initialize(socket) {
    this.#everOpen = true;
    try {
      const clientInfo = { name: "agentd_web_example", title: "Web example", version: "1" };
      // With cursors a client comes back to exactly where it was: docs/coming-back.md.
      const capabilities = { experimentalApi: true, eventCursor: true };
      await this.#request("initialize", { clientInfo, capabilities });
    } catch (error) {
      socket.close(1000, "initialize failed");
      return;
    }
    this.#send({ method: "initialized" });
    this.#ready = true;
    this.#failures = 0;
    this.#handlers.onState("open", `Connected to ${this.#url}`);
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

  #receive(message) {
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
      const error = { code: METHOD_NOT_FOUND, message: `this client does not handle ${method}` };
      this.#send({ id, error });
    }
  }

  async #lost(event) {
    this.#ready = false;
    this.#socket = null;
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) call.reject(new CallError("the connection was lost meanwhile"));
    if (this.#ended) return;
    if (!this.#everOpen) {
      this.#end("failed", await this.#whyRefused());
      return;
    }
    const wait = delay(this.#failures++);
    const why = event.reason || "no reason given";
    const seconds = (wait / 1000).toFixed(1);
    const words = `Connection lost: ${why} (${event.code}). Trying again in ${seconds} s.`;
    this.#handlers.onState("waiting", words);
    this.#timer = setTimeout(() => this.#connect(), wait);
  }

  /** Browsers hide from pages why a handshake failed; whether anybody is there can be asked. */
  async #whyRefused() {
    const probe = new URL("/healthz", this.#url.replace(/^ws/i, "http"));
    try {
      const signal = AbortSignal.timeout(5000);
      await fetch(probe, { mode: "no-cors", cache: "no-store", signal });
    } catch {
      return `No server responds at ${this.#url}. Is the server running, and is this its port?`;
    }
    return (
      `The server refused this page. Check the token, and that the server was started with ` +
      `--ws-allow-origin ${location.origin}`
    );
  }
}

/** Grows exponentially; half of it is random, so that clients do not come back all at once. */
function delay(failures) {
  const most = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** failures);
  return most * (0.5 + Math.random() / 2);
}

function base64url(text) {
  const bytes = new TextEncoder().encode(text);
  const base64 = btoa(String.fromCharCode(...bytes));
  return base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
