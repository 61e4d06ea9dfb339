// The types and the tests of the package against `agentd`: one line for each check, and a count at the end.
//
// Environment: AGENTD (the program), SDK (the package's folder). Ends with 1 when a check failed.

import { spawnSync } from "node:child_process";
import { cpSync, readdirSync, rmSync } from "node:fs";
import path from "node:path";
import { run } from "node:test";

const { AGENTD, SDK } = process.env;
// Below the folder with the compiler, so that modules are found and the checkout stays clean.
const COPY = path.join(import.meta.dirname, "sdk");
const TSC = path.join(import.meta.dirname, "node_modules/typescript/bin/tsc");

let passed = 0;
let failed = 0;

function report(name, problem) {
  if (problem === undefined) {
    passed += 1;
    console.log(`ok    typescript sdk: ${name}`);
  } else {
    failed += 1;
    console.log(`FAIL  typescript sdk: ${name}: ${String(problem).replace(/\s+/g, " ").slice(-600)}`);
  }
}

console.log(`client @agentd-embed/sdk on Node.js ${process.versions.node}`);
rmSync(COPY, { recursive: true, force: true });
for (const part of ["package.json", "tsconfig.json", "src", "tests", "examples"]) {
  cpSync(path.join(SDK, part), path.join(COPY, part), { recursive: true });
}
for (const [name, project] of [["src", "."], ["tests and examples", "tests"]]) {
  const compiled = spawnSync(process.execPath, [TSC, "--project", project], { cwd: COPY, encoding: "utf8" });
  report(`types of ${name}`, compiled.status === 0 ? undefined : compiled.stdout + compiled.stderr);
}
const built = path.join(COPY, "tests-dist/tests");
const files = readdirSync(built).filter((name) => name.endsWith(".test.js")).map((name) => path.join(built, name));
process.env.AGENTD_PATH = AGENTD;
process.env.NODE_OPTIONS = "--expose-gc";
const events = run({ files, concurrency: 1 });
events.on("test:pass", ({ name, skip }) => {
  if (skip === undefined) report(name);
  else console.log(`skip  typescript sdk: ${name}: ${skip}`);
});
events.on("test:fail", ({ name, details }) => report(name, details.error.cause?.stack ?? details.error.message));
events.on("end", () => {
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed > 0 || passed === 0 ? 1 : 0);
});
events.resume();
