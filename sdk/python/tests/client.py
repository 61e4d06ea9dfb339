"""The types and the tests of the package against `agentd`: one line for each check, and a count at the end.

Environment: AGENTD (the program); with SOAK_KILLS, the soak with so many kills in place of them. Ends with 1 when a check
failed.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
passed = failed = 0


def report(name: str, problem: str | None) -> None:
    global passed, failed
    if problem is None:
        passed += 1
        print(f"ok    {name}", flush=True)
    else:
        failed += 1
        print(f"FAIL  {name}: {' '.join(problem.split())[-600:]}", flush=True)


class Reporter:
    """Says how each test went."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            name = report.nodeid.rpartition("::")[2]
            sys.modules[__name__].report(f"python sdk: {name}", report.longreprtext if report.failed else None)


def main() -> int:
    print(f"client agentd-embed on Python {platform.python_version()}", flush=True)
    os.environ["AGENTD_PATH"] = os.environ["AGENTD"]
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(ROOT / "src"))
    kills = os.environ.get("SOAK_KILLS")
    if kills is not None:
        from soak import main as soak

        sys.argv[1:] = [kills]
        report(f"python sdk: {kills} kills of a bot and its server", "see the lines above" if soak() else None)
        return end()
    for mode in ("src", "tests", "examples"):
        environment = {**os.environ, "MYPYPATH": "src:tests"}
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, mode]
        checked = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        report(f"python sdk: types of {mode}", checked.stdout + checked.stderr if checked.returncode else None)
    # It is a program of npm, which the package fetches when it is first run.
    environment = {**os.environ, "PYRIGHT_PYTHON_CACHE_DIR": str(Path(sys.prefix) / "pyright")}
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    checked = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    report("python sdk: types by pyright", checked.stdout + checked.stderr if checked.returncode else None)
    pytest.main(["-p", "no:terminal", "-p", "no:cacheprovider", str(ROOT / "tests")], plugins=[Reporter()])
    return end()


def end() -> int:
    """The count, and the exit code."""
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
