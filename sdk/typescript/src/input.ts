/** What a message to the agent consists of. */

import type { UserInput } from "./protocol.js";

/** A text, or the parts of the protocol. */
export type Input = string | readonly UserInput[];

/** The parts of a message. Throws a `TypeError` for what is none. */
export function partsOf(message: Input): UserInput[] {
  const isPart = (part: unknown): boolean => typeof part === "object" && part !== null && "type" in part;
  if (typeof message !== "string" && !(Array.isArray(message) && message.every(isPart))) {
    throw new TypeError("`message` is not a text or a list of parts");
  }
  return typeof message === "string" ? [{ type: "text", text: message }] : ([...message] as UserInput[]);
}

/**
 * An image as a part of a message: its bytes, its address (`https:` or `data:`), or the path of a file on the server's
 * machine, also as a `file:` URL. A path that is not absolute is one in the working folder of the thread.
 */
export function image(source: string | URL | Uint8Array, type = "image/png"): UserInput {
  if (source instanceof Uint8Array) return { type: "image", url: `data:${type};base64,${base64(source)}` };
  if (!(typeof source === "string" || source instanceof URL) || String(source) === "") {
    throw new TypeError("`source` of an image is not an address, a path or bytes");
  }
  const text = String(source);
  if (/^file:\/\//i.test(text)) return { type: "localImage", path: decodeURIComponent(new URL(text).pathname) };
  return /^(data:|[a-z][a-z0-9+.-]*:\/\/)/i.test(text) ? { type: "image", url: text } : { type: "localImage", path: text };
}

function base64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(binary);
}
