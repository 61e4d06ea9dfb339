"""Installs what `cargo xtask package` built, each package by its own installer in a clean environment, and
uses it there: one line for each check, and a count at the end.

Environment: PACKAGES (their folder), PLACE (an empty folder), PARTS (the modules that check them, separated by
commas), COMPILER (the folder with the compiler of TypeScript). Ends with 1 when a check failed.
"""

import importlib
import os
import platform
from pathlib import Path

import checks

PACKAGES = Path(os.environ["PACKAGES"]).resolve()
PLACE = Path(os.environ["PLACE"]).resolve()


def checksums():
    checks.run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=PACKAGES)
    listed = {line.split()[1] for line in (PACKAGES / "SHA256SUMS").read_text().splitlines()}
    there = {path.name for path in PACKAGES.iterdir()} - {"SHA256SUMS", "SHA256SUMS.minisig"}
    checks.expect(listed == there, f"the list has {listed}, the folder {there}")


print(f"client packages on Python {platform.python_version()}", flush=True)
checks.check("all", "the checksums are those of all files", checksums)
for part in os.environ["PARTS"].split(","):
    folder = PLACE / part
    folder.mkdir(parents=True)
    importlib.import_module(part).check(PACKAGES, folder)
checks.end()
