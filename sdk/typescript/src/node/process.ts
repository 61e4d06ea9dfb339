/** A server of one's own: finding the program, starting it, and speaking with it over its pipes. */

import { type ChildProcessWithoutNullStreams, spawn as spawnProcess } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join, resolve } from "node:path";

import { FolderNotFound, ProgramNotFound } from "../errors.js";
import { PROGRAM } from "../package.js";
import { LONGEST_MESSAGE, type Receiver, type Transport } from "../transport.js";

/** Lines of the server's standard error that an error repeats, and the characters of each. */
const LAST_LINES = 20;
const LONGEST_LINE = 2000;
/** Milliseconds that a server may take to end after its input was closed, and after it was told to. */
const GRACE = 5_000;

/** The program: the one that is given, `AGENTD_PATH`, the one of the package with it, or the one in `PATH`. */
export function findProgram(given?: string): string {
  const named = [
    [given, "`program`"],
    [process.env["AGENTD_PATH"], "`AGENTD_PATH`"],
  ] as const;
  for (const [name, what] of named) {
    if (!name) continue;
    const found = which(name);
    if (found) return found;
    throw new ProgramNotFound(
      `${what} is '${name}', where there is no program: correct it, or leave it out to use the one of a package or in PATH`,
    );
  }
  const found = installed() ?? which("agentd");
  if (found) return found;
  const hasPackage = process.platform === "linux";
  const [why, remedy] = hasPackage
    ? [`the package ${PROGRAM}${process.arch} (or ${PROGRAM}${process.arch}-musl) is not installed here`, "Install that package (npm leaves it out with `--omit=optional`)"]
    : [`there is no package with it for ${process.platform}`, "Build it"];
  throw new ProgramNotFound(
    "no program `agentd` was found: the option `program` and the variable AGENTD_PATH are not set, " +
      `${why}, and PATH has none. ${remedy}, or set one of the two to the program`,
  );
}

/** The program of the package for this platform, with glibc or with musl, which npm installs with this one. */
function installed(): string | undefined {
  if (process.platform !== "linux") return undefined;
  // Looked for as node does, from this file: a program that is found so has the version that this package asks for.
  const resolve = createRequire(import.meta.url).resolve;
  for (const library of ["", "-musl"]) {
    try {
      return which(resolve(`${PROGRAM}${process.arch}${library}/bin/agentd`));
    } catch {
      // npm installs the one that fits.
    }
  }
  return undefined;
}

function which(name: string): string | undefined {
  const isPath = /[/\\]/.test(name);
  const folders = isPath ? [""] : (process.env["PATH"] ?? "").split(delimiter).filter(Boolean);
  const endings = process.platform === "win32" ? ["", ".exe"] : [""];
  const candidates = folders.flatMap((folder) => endings.map((ending) => join(folder, name) + ending));
  return candidates.map((it) => resolve(it)).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

export interface Command {
  program: string;
  args: string[];
  cwd: string | undefined;
  env: Record<string, string | undefined> | undefined;
}

/** Starts a server, a message a line. */
export function spawn({ program, args, cwd, env }: Command, receiver: Receiver): Promise<Transport> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => {
      // The system's error is the same as for a program that is missing.
      if (cwd !== undefined && !isFolder(cwd)) {
        const why = `the working folder ${cwd} is not there, or is not a folder: create it, or give another \`cwd\``;
        return reject(new FolderNotFound(why, { cause: error }));
      }
      reject(new ProgramNotFound(`${program} cannot be started: ${error.message}`, { cause: error }));
    };
    let child: ChildProcessWithoutNullStreams;
    try {
      child = spawnProcess(program, args, { cwd, env, stdio: "pipe", windowsHide: true });
    } catch (error) {
      fail(error as Error);
      return;
    }
    child.on("error", fail);
    child.on("spawn", () => resolve(new Pipes(child, receiver)));
  });
}

class Pipes implements Transport {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #receiver: Receiver;
  readonly #ended: Promise<void>;
  readonly #said = new LastLines();
  #rest: Buffer[] = [];
  #length = 0;
  #hasEnded = false;
  #hasExited = false;
  #isHeld = false;

  constructor(child: ChildProcessWithoutNullStreams, receiver: Receiver) {
    this.#child = child;
    this.#receiver = receiver;
    child.stdout.on("data", (bytes: Buffer) => this.#read(bytes));
    child.stderr.on("data", (bytes: Buffer) => this.#said.add(bytes));
    // A server that is gone: `close` and `end` say why.
    child.stdin.on("error", () => this.#outputEnded());
    child.stdout.on("error", () => this.#outputEnded());
    child.stdout.on("end", () => this.#outputEnded());
    this.#ended = new Promise((resolve) => {
      child.on("exit", () => {
        this.#hasExited = true;
        this.#endOutput();
        resolve();
      });
    });
    child.on("close", (code, signal) => this.#end(`the server ended with ${signal ?? code}`));
  }

  send(text: string): void {
    if (this.#child.stdin.writable) this.#child.stdin.write(`${text}\n`);
  }

  async close(): Promise<void> {
    this.#child.stdin.end();
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      if (await this.#endsInTime()) return;
      this.#child.kill(signal);
    }
    await this.#endsInTime();
  }

  abort(): void {
    this.#child.kill("SIGKILL");
    this.#child.stdin.destroy();
    this.#child.stdout.destroy();
    this.#child.stderr.destroy();
  }

  hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
    if (isHeld) return void this.#child.stdout.pause();
    this.#child.stdout.resume();
    if (this.#hasExited) this.#endOutput();
  }

  /** A process that inherited the output of the server may hold it open. What is there is read first. */
  #endOutput(): void {
    const end = () => {
      if (this.#isHeld) return;
      this.#child.stdout.destroy();
      this.#child.stderr.destroy();
    };
    setTimeout(end, GRACE).unref();
  }

  async #endsInTime(): Promise<boolean> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<boolean>((resolve) => (timer = setTimeout(() => resolve(false), GRACE)));
    const inTime = await Promise.race([this.#ended.then(() => true), late]);
    clearTimeout(timer);
    return inTime;
  }

  #read(bytes: Buffer): void {
    let start = 0;
    for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, start)) {
      const line = Buffer.concat([...this.#rest, bytes.subarray(start, at)]);
      this.#rest = [];
      this.#length = 0;
      start = at + 1;
      if (line.length > LONGEST_MESSAGE) return this.#tooLong();
      this.#receiver.message(line.toString());
    }
    if (start === bytes.length) return;
    this.#rest.push(bytes.subarray(start));
    this.#length += bytes.length - start;
    if (this.#length > LONGEST_MESSAGE) this.#tooLong();
  }

  #tooLong(): void {
    this.#rest = [];
    this.#length = 0;
    this.#child.stdout.pause();
    this.#end(`the server wrote what is not the protocol: a line is longer than ${LONGEST_MESSAGE} bytes`);
  }

  /** The exit says more, if it follows. */
  #outputEnded(): void {
    setTimeout(() => this.#end("the server closed its output"), GRACE).unref();
  }

  #end(why: string): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#receiver.ended(why + this.#said.text());
  }
}

/** The last lines that a server wrote to its standard error. */
class LastLines {
  #lines: string[] = [];
  #rest = "";

  add(bytes: Buffer): void {
    const lines = (this.#rest + bytes.toString()).split("\n");
    this.#rest = (lines.pop() ?? "").slice(0, LONGEST_LINE);
    this.#lines = [...this.#lines, ...lines.map((it) => it.trimEnd().slice(0, LONGEST_LINE))].slice(-LAST_LINES);
  }

  text(): string {
    const lines = [...this.#lines, this.#rest].filter(Boolean).slice(-LAST_LINES);
    return lines.length > 0 ? `; it said:${lines.map((it) => `\n  ${it}`).join("")}` : "";
  }
}
