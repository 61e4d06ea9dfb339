"""The packages for npm, from a registry on this machine."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from checks import check as checked, expect, run
from registry import Registry


def check(packages, folder):
    with Registry(sorted(packages.glob("*.tgz"))) as url:
        check_with(url, folder)


def check_with(url, folder):
    prefix, work = folder / "prefix", folder / "work"
    agentd = prefix / "bin/agentd"
    work.mkdir()
    node = Path(shutil.which("node")).parent
    alone = {"PATH": f"{node}:/usr/bin:/bin", "HOME": str(work), "AGENT_HOME": str(work / "home")}

    def npm(*arguments, **options):
        settings = {"npm_config_registry": url, "npm_config_cache": str(folder / "cache"), "HOME": str(work)}
        return run("npm", *arguments, env={**os.environ, **settings}, **options)

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
        launcher = prefix / "lib/node_modules/agentd/agentd.js"
        program = f"Object.defineProperty(process, 'platform', {{ value: 'plan9' }}); require('{launcher}')"
        said = run("node", "-e", program, code=1, cwd=work, env=alone)
        expect("there is no program for plan9-" in said, said)

    def without_program():
        other = folder / "without"
        npm("install", "--global", "--prefix", other, "--omit=optional", "agentd")
        # Some versions of npm install it globally all the same.
        for place in (other / "lib/node_modules").rglob("@agentd"):
            shutil.rmtree(place)
        said = run(other / "bin/agentd", "--version", code=1, cwd=work, env=alone)
        expect("--omit=optional" in said, said)

    def uninstall():
        npm("uninstall", "--global", "--prefix", prefix, "agentd")
        expect(not agentd.exists(), "the command is still there")

    install = ("install", "--global", "--prefix", prefix, "--ignore-scripts", "agentd")
    if not checked("npm", "npm install --global agentd, with no script", lambda: npm(*install)):
        return
    checked("npm", "agentd demo", lambda: run(agentd, "demo", cwd=work, env=alone))
    checked("npm", "exit codes are the program's", exit_codes)
    checked("npm", "a signal ends the program", signals)
    checked("npm", "a platform without a program is named", elsewhere)
    checked("npm", "a missing program is explained", without_program)
    checked("npm", "npm uninstall removes it", uninstall)
