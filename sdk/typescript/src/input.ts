/** What a message to the agent consists of. */

import type { UserInput } from "./protocol.js";

/** A text, or the parts of the protocol. */
export type Input = string | readonly UserInput[];

export function partsOf(message: Input): UserInput[] {
  return typeof message === "string" ? [{ type: "text", text: message }] : [...message];
}

/** An image as a part of a message: its address, or its bytes. */
export function image(source: string | URL | Uint8Array, type = "image/png"): UserInput {
  if (!(source instanceof Uint8Array)) return { type: "image", url: String(source) };
  let binary = "";
  for (let at = 0; at < source.length; at += 0x8000) {
    binary += String.fromCharCode(...source.subarray(at, at + 0x8000));
  }
  return { type: "image", url: `data:${type};base64,${btoa(binary)}` };
}
