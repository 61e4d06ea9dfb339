"""The larger examples: the reviewer by its exit codes, and the bot over a few kills."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentd_embed._program import find_program
from conftest import Scripted
from soak import ROOT, Place, soak
from test_agent import message

FINDING = {
    "title": "It drops a table",
    "body": "All users are gone.",
    "confidence_score": 0.9,
    "code_location": {"absolute_file_path": "change.sql", "line_range": {"start": 1, "end": 1}},
}
VERDICT = {"overall_correctness": "patch is incorrect", "overall_explanation": "See above.", "overall_confidence_score": 0.9}


def found(priority: int | None) -> dict[str, Any]:
    findings = [] if priority is None else [{**FINDING, "priority": priority}]
    return message(json.dumps({"findings": findings, **VERDICT}))


@pytest.mark.parametrize(
    ("response", "code", "says"),
    [
        (found(0), 1, "change.sql:1: P0 It drops a table"),
        (found(3), 0, "change.sql:1: P3 It drops a table"),
        (found(None), 0, "See above."),
        ({"steps": [{"error": {"status": 400, "message": "The model has no time."}}]}, 2, "The model has no time."),
    ],
)
def test_the_reviewer_ends_as_its_findings_say(scripted: Scripted, response: dict[str, Any], code: int, says: str) -> None:
    arguments = scripted([response])
    work, env = Path(arguments["cwd"]), dict(arguments["env"])
    env.update(AGENTD_PATH=find_program(None), PYTHONPATH=str(ROOT / "src"), REVIEWER_OPTIONS=json.dumps({"offline": True, "model": arguments["model"]}))
    (work / "change.sql").write_text("SELECT 1;\n")
    who = ["-c", "user.name=You", "-c", "user.email=you@example.com"]
    for command in (["init", "-qb", "main"], ["add", "."], [*who, "commit", "-qm", "Begin"], ["checkout", "-qb", "change"]):
        subprocess.run(["git", *command], cwd=work, env=env, check=True)
    (work / "change.sql").write_text("DROP TABLE users;\n")
    subprocess.run(["git", *who, "commit", "-qam", "Change"], cwd=work, env=env, check=True)
    program = [sys.executable, str(ROOT / "examples" / "reviewer.py"), "main"]
    ran = subprocess.run(program, cwd=work, env=env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == code and says in ran.stdout + ran.stderr, ran.stdout + ran.stderr


@pytest.mark.parametrize("seed", range(2))
def test_the_bot_answers_each_message_once_over_kills(tmp_path: Path, seed: int) -> None:
    place = Place(tmp_path)
    with place.model_server():
        assert soak(3, seed, place) == []
