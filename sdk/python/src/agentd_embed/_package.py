"""The version of this package, and the package with the program that belongs to it.

`cargo xtask tidy` compares the values with `packaging/names.toml`.
"""

from __future__ import annotations

import importlib.metadata
import os

VERSION = "0.1.0"
PROGRAM = "agentd-embed-program"


def installed_program() -> str | None:
    """The program that the package with it put among this Python's scripts."""
    # By the list of the package's files: another package may have put an `agentd` next to this Python.
    try:
        files = importlib.metadata.files(PROGRAM) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = next((file for file in files if file.name in ("agentd", "agentd.exe")), None)
    return None if found is None else os.path.normpath(found.locate())
