"""The packages for npm: the launcher and the program from a registry on this machine, the SDK from its files alone."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

from checks import check as checked, expect, run
from names import CHECKOUT, NPM
from registry import Registry

LAUNCHER, SDK, PLATFORM = NPM["program"], NPM["sdk"], NPM["platform"]
SCOPE = SDK.split("/")[0]


def check(packages, folder):
    # The compiler of the SDK, which its packages were built with.
    compiler = Path(os.environ["COMPILER"]).resolve()
    with Registry(sorted(packages.glob("*.tgz"))) as registry:
        check_launcher(registry, folder)
        check_publishing(registry, packages, folder)
    check_sdk(packages, folder / "sdk", compiler)


def environment(folder):
    """What a program gets: no program in PATH but those of the system and node, no home of this machine."""
    node = Path(shutil.which("node")).parent
    return {"PATH": f"{node}:/usr/bin:/bin", "HOME": str(folder), "AGENT_HOME": str(folder / "home")}


def settings(url, folder):
    """What npm gets: this registry alone, and nothing that was fetched before."""
    of_npm = {"registry": url, "cache": str(folder / "cache"), "update_notifier": "false"}
    return {**os.environ, **{f"npm_config_{name}": value for name, value in of_npm.items()}, "HOME": str(folder)}


def check_launcher(registry, folder):
    prefix, work = folder / "prefix", folder / "work"
    agentd = prefix / "bin/agentd"
    work.mkdir()
    alone = environment(work)

    def npm(*arguments, **options):
        return run("npm", *arguments, env=settings(registry.url, folder), **options)

    def exit_codes():
        run(agentd, "no-such-command", code=2, cwd=work, env=alone)
        run(agentd, "--version", cwd=work, env=alone)

    def signals():
        server = subprocess.Popen(
            [agentd, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=work, env=alone
        )
        initialize = b'{"id":0,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}\n'
        server.stdin.write(initialize)
        server.stdin.flush()
        expect(b'"result"' in server.stdout.readline(), "no response to initialize")
        server.send_signal(signal.SIGTERM)
        # The program is gone, too: nobody else holds its output.
        rest, _ = server.communicate(timeout=60)
        expect(server.returncode in (0, 143), f"exit code {server.returncode}, {rest!r}")

    def elsewhere():
        launcher = prefix / "lib/node_modules" / LAUNCHER / "agentd.js"
        program = f"Object.defineProperty(process, 'platform', {{ value: 'plan9' }}); require('{launcher}')"
        said = run("node", "-e", program, code=1, cwd=work, env=alone)
        expect("there is no program for plan9-" in said, said)

    def without_program():
        other = folder / "without"
        npm("install", "--global", "--prefix", other, "--omit=optional", LAUNCHER)
        # With `--global`, some versions of npm do not leave it out.
        for place in (other / "lib/node_modules").rglob(f"{PLATFORM.split('/')[1]}*"):
            shutil.rmtree(place)
        said = run(other / "bin/agentd", "--version", code=1, cwd=work, env=alone)
        expect("--omit=optional" in said and PLATFORM in said, said)

    def run_by_name():
        entry = json.loads((CHECKOUT / "crates/acp/registry/agent.json").read_text())["distribution"]["npx"]
        command = ["npx", "--yes", entry["package"], *entry["args"], "--help"]
        said = run(*command, cwd=work, env={**settings(registry.url, folder), "PATH": alone["PATH"]})
        expect("Agent Client Protocol" in said, said)

    def looked_up():
        foreign = {name for name in registry.asked if name not in (LAUNCHER, SDK) and not name.startswith(PLATFORM)}
        expect(not foreign, f"npm asked for {foreign}")

    def uninstall():
        npm("uninstall", "--global", "--prefix", prefix, LAUNCHER)
        expect(not agentd.exists(), "the command is still there")

    install = ("install", "--global", "--prefix", prefix, "--ignore-scripts", LAUNCHER)
    if not checked("npm", f"`npm install --global {LAUNCHER}`, with no script", lambda: npm(*install)):
        return
    checked("npm", "agentd demo", lambda: run(agentd, "demo", cwd=work, env=alone))
    checked("npm", "exit codes are the program's", exit_codes)
    checked("npm", "a signal ends the program", signals)
    checked("npm", "a platform without a program is named", elsewhere)
    checked("npm", "a missing program is explained", without_program)
    checked("npm", "the command of the registry of agents starts the agent for editors", run_by_name)
    checked("npm", "nothing else is looked up by name", looked_up)
    checked("npm", "`npm uninstall` removes it", uninstall)


def check_publishing(registry, packages, folder):
    def publish(package):
        said = run("npm", "publish", "--dry-run", package, env=settings(registry.url, folder))
        expect("public access" in said, said)
        # It would publish another manifest than the one in the file.
        expect("auto-corrected" not in said, said)

    # A registry refuses a version that it has already.
    registry.documents.clear()
    for package in sorted(packages.glob("*.tgz")):
        checked("npm", f"a dry run of publishing {package.name}", lambda package=package: publish(package))


def check_sdk(packages, project, compiler):
    project.mkdir()
    alone = environment(project)
    stem = f"{SCOPE.removeprefix('@')}-"
    sdk = next(packages.glob(f"{stem}{SDK.split('/')[1]}-*.tgz"))
    # The packages of this run have no program for musl.
    [program] = packages.glob(f"{stem}{PLATFORM.split('/')[1]}*.tgz")

    def install():
        (project / "package.json").write_text('{ "private": true, "type": "module" }')
        # Neither a registry nor anything that was fetched before.
        offline = settings("http://127.0.0.1:9", project)
        run("npm", "install", "--offline", "--no-audit", "--no-fund", sdk, program, cwd=project, env=offline)
        there = {path.name for path in (project / "node_modules").iterdir() if not path.name.startswith(".")}
        expect(there == {SCOPE}, f"node_modules has {there}")

    def tour():
        shutil.copy(CHECKOUT / "sdk/typescript/examples/tour.ts", project)
        options = json.loads((CHECKOUT / "sdk/typescript/tsconfig.json").read_text())["compilerOptions"]
        options |= {"rootDir": ".", "outDir": "built", "typeRoots": [str(compiler / "node_modules/@types")]}
        config = {"compilerOptions": options, "files": ["tour.ts"]}
        (project / "tsconfig.json").write_text(json.dumps(config))
        tsc = compiler / "node_modules/typescript/bin/tsc"
        run("node", tsc, "--project", ".", cwd=project)
        said = run("node", "built/tour.js", cwd=project, env=alone)
        expect("completed" in said and "resumed: 1 turn" in said, said)

    def without_program():
        for place in (project / "node_modules" / SCOPE).glob(f"{PLATFORM.split('/')[1]}*"):
            shutil.rmtree(place)
        said = run("node", "built/tour.js", cwd=project, env=alone, code=1)
        expect(f"the package {PLATFORM}" in said and "AGENTD_PATH" in said, said)

    if not checked("npm", f"`npm install` of {SDK} and its program from files, offline", install):
        return
    if checked("npm", "the tour, compiled with the types of the package", tour):
        checked("npm", "without the program, an error names its package", without_program)
