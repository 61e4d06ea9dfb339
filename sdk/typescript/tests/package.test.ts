/** Which program is started, and what an error says when there is none. */

import assert from "node:assert/strict";
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { folderOf } from "./servers.js";

/** The places in the order in which they are looked at. */
const PLACES = ["option", "variable", "package", "path"] as const;
const PLATFORM = `@agentd-embed/linux-${process.arch}`;

function put(program: string): string {
  mkdirSync(dirname(program), { recursive: true });
  writeFileSync(program, "#!/bin/sh\n", { mode: 0o755 });
  return program;
}

/** The function of a copy of this package, next to which others can be installed. */
async function installed(folder: string): Promise<(given?: string) => string> {
  const here = dirname(dirname(fileURLToPath(import.meta.resolve("@agentd-embed/sdk"))));
  const copy = join(folder, "node_modules/@agentd-embed/sdk");
  for (const part of ["dist", "package.json"]) cpSync(join(here, part), join(copy, part), { recursive: true });
  return (await import(pathToFileURL(join(copy, "dist/node/process.js")).href)).findProgram;
}

function setEnvironment(context: TestContext, values: Record<string, string>): void {
  const before = { ...process.env };
  context.after(() => Object.keys(values).forEach((name) => restore(name, before[name])));
  Object.assign(process.env, values);
}

function restore(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
}

for (let first = 0; first <= PLACES.length; first++) {
  const there: readonly string[] = PLACES.slice(first);
  test(`the first place with a program is taken: ${there[0] ?? "none"}`, async (context) => {
    const folder = folderOf(context);
    const found = await installed(folder);
    const place = (name: string, path: string) => (there.includes(name) ? put(join(folder, path)) : undefined);
    const programs = {
      option: place("option", "option/agentd"),
      variable: place("variable", "variable/agentd"),
      package: place("package", `node_modules/${PLATFORM}/bin/agentd`),
      path: place("path", "path/agentd"),
    };
    setEnvironment(context, { PATH: join(folder, "path"), AGENTD_PATH: programs.variable ?? "" });
    if (first < PLACES.length) {
      assert.equal(found(programs.option), programs[PLACES[first] as (typeof PLACES)[number]]);
      return;
    }
    assert.throws(
      () => found(),
      ({ name, message }: Error) => {
        const tried = ["`program`", "AGENTD_PATH", PLATFORM, "PATH has none"];
        assert.deepEqual(tried.filter((it) => !message.includes(it)), [], message);
        return name === "ProgramNotFound";
      },
    );
  });
}

test("a program for musl is taken where there is none for glibc", async (context) => {
  const folder = folderOf(context);
  const found = await installed(folder);
  setEnvironment(context, { PATH: join(folder, "path"), AGENTD_PATH: "" });
  const program = (library: string) => join(folder, `node_modules/${PLATFORM}${library}/bin/agentd`);
  const musl = put(program("-musl"));
  assert.equal(found(), musl);
  const glibc = put(program(""));
  assert.equal(found(), glibc);
});

test("a wrong variable is not passed over", async (context) => {
  const folder = folderOf(context);
  const found = await installed(folder);
  setEnvironment(context, { PATH: dirname(put(join(folder, "path/agentd"))), AGENTD_PATH: "/nowhere/agentd" });
  assert.throws(() => found(), /`AGENTD_PATH` is '\/nowhere\/agentd'/);
});
