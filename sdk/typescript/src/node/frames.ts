/** The frames of a WebSocket (RFC 6455, section 5), as a client writes and reads them. */

import { randomBytes } from "node:crypto";

import { LONGEST_MESSAGE } from "../transport.js";

export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

export interface Message {
  opcode: number;
  payload: Buffer;
}

/** A whole message in one frame, masked as clients have to. */
export function frame(opcode: number, payload: Buffer): Buffer {
  const { length } = payload;
  const extra = length < 126 ? 0 : length < 65_536 ? 2 : 8;
  const bytes = Buffer.allocUnsafe(6 + extra + length);
  bytes[0] = 0x80 | opcode;
  bytes[1] = 0x80 | (extra === 0 ? length : extra === 2 ? 126 : 127);
  if (extra === 2) bytes.writeUInt16BE(length, 2);
  if (extra === 8) bytes.writeBigUInt64BE(BigInt(length), 2);
  const mask = randomBytes(4);
  mask.copy(bytes, 2 + extra);
  const start = 6 + extra;
  for (let at = 0; at < length; at++) bytes[start + at] = payload[at]! ^ mask[at & 3]!;
  return bytes;
}

/** Puts frames together into messages. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #held = 0;
  #parts: Buffer[] | undefined;
  #size = 0;

  /** The messages that the bytes complete. Throws an `Error` for what the protocol forbids. */
  *read(bytes: Buffer): Generator<Message> {
    this.#chunks.push(bytes);
    this.#held += bytes.length;
    for (let header = this.#header(); header && this.#held >= header.size + header.length; header = this.#header()) {
      const payload = this.#take(header.size + header.length).subarray(header.size);
      const message = this.#assemble(header.opcode, header.isFinal, payload);
      if (message) yield message;
    }
  }

  #header(): { opcode: number; isFinal: boolean; size: number; length: number } | undefined {
    if (this.#held < 2) return undefined;
    const start = this.#peek(Math.min(this.#held, 10));
    const [first, second] = [start[0]!, start[1]!];
    if (first & 0x70) throw new Error("a frame has reserved bits");
    if (second & 0x80) throw new Error("a frame of a server is masked");
    const size = second < 126 ? 2 : second === 126 ? 4 : 10;
    if (start.length < size) return undefined;
    const length = size === 2 ? second : size === 4 ? start.readUInt16BE(2) : Number(start.readBigUInt64BE(2));
    const isControl = (first & 0x08) !== 0;
    if (isControl && (length > 125 || !(first & 0x80))) throw new Error("a control frame is too long or divided");
    if (!isControl && this.#size + length > LONGEST_MESSAGE) {
      throw new Error(`a message is longer than ${LONGEST_MESSAGE} bytes`);
    }
    return { opcode: first & 0x0f, isFinal: (first & 0x80) !== 0, size, length };
  }

  #assemble(opcode: number, isFinal: boolean, payload: Buffer): Message | undefined {
    if (opcode >= OPCODE.close && opcode <= OPCODE.pong) return { opcode, payload };
    if (opcode !== OPCODE.text && opcode !== OPCODE.continuation) throw new Error(`a frame has the opcode ${opcode}`);
    if ((opcode === OPCODE.continuation) !== (this.#parts !== undefined)) throw new Error("frames are out of order");
    const parts = (this.#parts ??= []);
    parts.push(payload);
    this.#size += payload.length;
    if (!isFinal) return undefined;
    this.#parts = undefined;
    this.#size = 0;
    return { opcode: OPCODE.text, payload: Buffer.concat(parts) };
  }

  /** The first bytes, without taking them. */
  #peek(count: number): Buffer {
    const first = this.#chunks[0]!;
    if (first.length >= count) return first.subarray(0, count);
    const chunks: Buffer[] = [];
    for (let held = 0, at = 0; held < count; at++) {
      chunks.push(this.#chunks[at]!);
      held += this.#chunks[at]!.length;
    }
    return Buffer.concat(chunks).subarray(0, count);
  }

  #take(count: number): Buffer {
    const all = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
    this.#chunks = all.length > count ? [all.subarray(count)] : [];
    this.#held -= count;
    return all.subarray(0, count);
  }
}
