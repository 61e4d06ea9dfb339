"""Which program is started, and what an error says when there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import agentd_embed
from agentd_embed import ProgramNotFound
from agentd_embed._program import find_program
from agentd_embed._package import PROGRAM, VERSION

#: The places in the order in which they are looked at.
PLACES = ("argument", "variable", "package", "path")


def put(program: Path) -> Path:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("first", range(len(PLACES) + 1))
def test_the_first_place_with_a_program_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    there = PLACES[first:]
    programs = {place: put(tmp_path / place / "bin/agentd") for place in there}
    monkeypatch.setenv("PATH", str(tmp_path / "path/bin"))
    monkeypatch.setenv("AGENTD_PATH", str(programs.get("variable", "")))
    monkeypatch.syspath_prepend(str(tmp_path / "package/lib"))
    if "package" in there:
        described = tmp_path / f"package/lib/{PROGRAM.replace('-', '_')}-{VERSION}.dist-info"
        described.mkdir(parents=True)
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PROGRAM}\nVersion: {VERSION}\n")
        (described / "RECORD").write_text("../bin/agentd,,\n")
    given = programs.get("argument")
    if there:
        assert find_program(given) == str(programs[there[0]])
        return
    with pytest.raises(ProgramNotFound) as refused:
        find_program(given)
    for tried in ("`program`", "AGENTD_PATH", sys.executable, f"`{PROGRAM}`", "PATH has none"):
        assert tried in str(refused.value)


def test_a_wrong_variable_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(put(tmp_path / "agentd").parent))
    monkeypatch.setenv("AGENTD_PATH", "/nowhere/agentd")
    with pytest.raises(ProgramNotFound, match="`AGENTD_PATH` is '/nowhere/agentd'"):
        find_program(None)


def test_the_version_is_that_of_the_package() -> None:
    assert agentd_embed.__version__ == VERSION
