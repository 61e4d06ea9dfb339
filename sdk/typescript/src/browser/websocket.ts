/** The WebSocket of a browser, whose pages set no headers: the token travels among the offered subprotocols. */

import { ConnectionLost } from "../errors.js";
import type { Receiver, Transport } from "../transport.js";

/** Milliseconds that the server may take to confirm the end. */
const GRACE = 2_000;

/** Connects to `ws://` or `wss://`. */
export function connect(
  address: string,
  token: string | undefined,
  receiver: Receiver,
  signal: AbortSignal,
): Promise<Transport> {
  return new Promise((resolve, reject) => {
    const fail = (why: string, cause?: unknown) =>
      reject(new ConnectionLost(`there is no server at ${address}: ${why}`, { cause }));
    let socket: WebSocket;
    try {
      socket = new WebSocket(address, token ? ["agentd", `agentd.bearer.${base64url(token)}`] : ["agentd"]);
    } catch (error) {
      fail((error as Error).message, error);
      return;
    }
    let isOpen = false;
    const aborted = () => {
      fail("it took too long", signal.reason);
      socket.close();
    };
    signal.addEventListener("abort", aborted);
    const closed = new Promise<void>((done) => {
      socket.onclose = ({ code, reason }) => {
        signal.removeEventListener("abort", aborted);
        // Browsers do not tell pages why a handshake failed.
        if (!isOpen) fail("it does not answer, or refused the token or this page's origin");
        else receiver.ended(`the server closed the connection (${code}${reason && `: ${reason}`})`);
        done();
      };
    });
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") return receiver.message(data);
      receiver.ended("the server wrote what is not the protocol: a message is no text");
      socket.close();
    };
    socket.onopen = () => {
      isOpen = true;
      signal.removeEventListener("abort", aborted);
      resolve({
        send: (text) => socket.readyState === 1 && socket.send(text),
        close: () => close(socket, closed),
        abort: () => socket.close(),
        hold: () => undefined,
      });
    };
  });
}

async function close(socket: WebSocket, closed: Promise<void>): Promise<void> {
  socket.close(1000);
  await Promise.race([closed, new Promise((done) => setTimeout(done, GRACE))]);
}

function base64url(text: string): string {
  const bytes = new TextEncoder().encode(text);
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
