"""The wheels, in a virtual environment without a network for each Python of this machine that the SDK runs on."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from checks import check as checked, expect, run
from names import CHECKOUT, PYPI
from registry import Index

SDK, PROGRAM = PYPI["sdk"], PYPI["program"]
IMPORT = SDK.replace("-", "_")
THREE_LINES = f"""
from {IMPORT} import Agent
with Agent(offline=True) as agent:
    print(agent.run("What does this project do?").text)
"""


def check(packages, folder):
    for version, python in pythons().items():
        place = folder / version
        place.mkdir()
        check_with(packages, place, python, f"wheel on {version}", in_full=python == sys.executable)


def pythons():
    """The interpreters of this machine that the SDK runs on, by their versions."""
    named = [shutil.which(f"python3.{minor}") for minor in range(9, 20)]
    of_pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser().glob("versions/3.*/bin/python3")
    found = {}
    for python in [sys.executable, *filter(None, named), *of_pyenv]:
        # A name in PATH may stand for a version that its owner has not chosen.
        asked = subprocess.run(
            [python, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )
        version = asked.stdout.strip()
        if asked.returncode == 0 and tuple(map(int, version.split("."))) >= (3, 9):
            found.setdefault(version, python)
    return found


def check_with(packages, folder, interpreter, group, in_full):
    python, agentd = folder / "bin/python", folder / "bin/agentd"
    work = folder / "work"
    work.mkdir()
    # A program of somebody else that has the same name comes first in PATH; no home of this machine.
    foreign = folder / "foreign/agentd"
    foreign.parent.mkdir()
    foreign.write_text("#!/bin/sh\nexit 3\n")
    foreign.chmod(0o755)
    alone = {"PATH": f"{foreign.parent}:/usr/bin:/bin", "HOME": str(work), "AGENT_HOME": str(work / "home")}
    three_lines = folder / "three_lines.py"
    three_lines.write_text(THREE_LINES)

    def pip(*arguments, **options):
        return run(python, "-m", "pip", "--disable-pip-version-check", *arguments, **options)

    def install():
        run(interpreter, "-m", "venv", folder)
        pip("install", "--no-index", "--find-links", packages, SDK)
        pip("check")
        listed = pip("list", "--format=freeze").splitlines()
        ours = sorted(line for line in listed if re.match("(?i)agentd", line))
        version = run(python, "-c", f"import {IMPORT}; print({IMPORT}.__version__)").strip()
        expect(ours == sorted([f"{SDK}=={version}", f"{PROGRAM}=={version}"]), listed)

    def looked_up():
        with Index(sorted(packages.glob("*.whl"))) as index:
            pip("install", "--isolated", "--index-url", index.url, "--no-cache-dir", "--target", folder / "other", SDK)
        expect(index.asked == {SDK, PROGRAM}, f"pip asked for {index.asked}")

    def sdk():
        said = run(python, three_lines, cwd=work, env=alone)
        expect("That was a complete turn" in said, said)

    def tour():
        said = run(python, CHECKOUT / "sdk/python/examples/tour.py", cwd=work, env=alone)
        expect("completed" in said and "resumed: 1 turn" in said, said)

    def without_program():
        pip("uninstall", "--yes", PROGRAM)
        expect(not agentd.exists(), "the program is still there")
        said = run(python, three_lines, cwd=work, env={**alone, "PATH": "/usr/bin:/bin"}, code=1)
        expect(f"has no package `{PROGRAM}` with it" in said, said)

    def uninstall():
        pip("uninstall", "--yes", SDK)
        left = [path for path in folder.rglob(f"{IMPORT}*") if folder / "other" not in path.parents]
        expect(not left, f"{left} are still there")

    if not checked(group, f"`pip install {SDK}` brings the program", install):
        return
    checked(group, "the tour, with the program of its package", tour)
    if not in_full:
        return
    checked(group, "nothing else is looked up by name", looked_up)
    checked(group, "agentd demo", lambda: run(agentd, "demo", cwd=work, env=alone))
    checked(group, "three lines with the SDK", sdk)
    checked(group, "without the program, an error names its package", without_program)
    checked(group, "`pip uninstall` leaves nothing", uninstall)
