"""The wheels, in a virtual environment without a network."""

import sys

from checks import check as checked, expect, run

THREE_LINES = """
from agentd_embed import Agent
with Agent(offline=True) as agent:
    print(agent.run("What does this project do?").text)
"""


def check(packages, folder):
    python, agentd = folder / "bin/python", folder / "bin/agentd"
    work = folder / "work"
    work.mkdir()
    # Neither a program in PATH nor a home of this machine.
    alone = {"PATH": "/usr/bin:/bin", "HOME": str(work), "AGENT_HOME": str(work / "home")}

    def install():
        run(sys.executable, "-m", "venv", folder)
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        run(*pip, "install", "--no-index", "--find-links", packages, "agentd-embed")
        run(*pip, "check")
        listed = run(*pip, "list")
        expect("agentd " in listed and "agentd-embed" in listed, listed)

    def sdk():
        program = folder / "three_lines.py"
        program.write_text(THREE_LINES)
        said = run(python, program, cwd=work, env=alone)
        expect("That was a complete turn" in said, said)

    def uninstall():
        run(python, "-m", "pip", "uninstall", "--yes", "agentd", "agentd-embed")
        expect(not agentd.exists(), "the program is still there")

    if not checked("wheel", "pip install agentd-embed brings the program", install):
        return
    checked("wheel", "agentd demo", lambda: run(agentd, "demo", cwd=work, env=alone))
    checked("wheel", "three lines with the SDK find the program beside their Python", sdk)
    checked("wheel", "pip uninstall removes it", uninstall)
