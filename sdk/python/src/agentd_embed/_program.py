"""Finding the program, and checking what a connection to a server is made with."""

from __future__ import annotations

import os
import shutil
import sys

from ._package import PROGRAM, installed_program
from .errors import ProgramNotFound


def find_program(given: str | os.PathLike[str] | None) -> str:
    """The program: the one that is given, `AGENTD_PATH`, the one of the package with it, or the one in `PATH`."""
    for named, what in ((given, "`program`"), (os.environ.get("AGENTD_PATH"), "`AGENTD_PATH`")):
        if named:
            found = shutil.which(named)
            if found is None:
                raise ProgramNotFound(
                    f"{what} is {os.fspath(named)!r}, where there is no program: correct it, or leave it out to "
                    f"use the one of the package `{PROGRAM}` or in PATH"
                )
            return os.fspath(found)
    installed = installed_program()
    found = (installed and shutil.which(installed)) or shutil.which("agentd")
    if found is None:
        raise ProgramNotFound(
            "no program `agentd` was found: the argument `program` and the variable AGENTD_PATH are not set, "
            f"{sys.executable} has no package `{PROGRAM}` with it, and PATH has none. Install that package, or set "
            "one of the two to the program"
        )
    return found


def check_token(token: str) -> None:
    """Raises :class:`ValueError` for a token that no HTTP header can hold.

    A header holds visible ASCII only; a line break in it would begin another header.
    """
    at = next((at for at, it in enumerate(token) if not "!" <= it <= "~"), None)
    if at is None:
        return
    is_around = all("!" <= it <= "~" for it in token.strip())
    hint = (
        "remove the white space around it, such as the line break at the end of its file"
        if is_around
        else "a token is of visible ASCII characters"
    )
    raise ValueError(
        f"the token cannot be sent in an HTTP header: its character {at + 1} is none that may be in one; {hint}"
    )
