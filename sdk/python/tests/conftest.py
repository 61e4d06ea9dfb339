"""A real server with a scripted model, and servers that misbehave."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Arguments = dict[str, Any]
Scripted = Callable[[list[dict[str, Any]]], Arguments]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment with a home of its own."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AGENT_HOME": str(home)}


@pytest.fixture
def scripted(tmp_path: Path, environment: dict[str, str]) -> Scripted:
    """Arguments of an agent whose model gives these responses."""

    def arguments(responses: list[dict[str, Any]]) -> Arguments:
        script = tmp_path / "script.json"
        script.write_text(json.dumps({"responses": responses}))
        return {"offline": True, "model": str(script), "env": environment, "cwd": tmp_path / "work"}

    return arguments


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str], Arguments]:
    """Arguments of an agent whose server is a Python program with this body.

    The body has `receive()` for the next message and `send(**message)`.
    """

    def arguments(body: str) -> Arguments:
        program = tmp_path / "agentd"
        program.write_text(
            f"#!{sys.executable}\n"
            "import json, os, sys, time\n"
            "def receive(): return json.loads(sys.stdin.readline())\n"
            "def send(**message): print(json.dumps(message), flush=True)\n"
            "def hello(agent='x/0.1.0 (linux; x86_64) agentd (x; 1)'):\n"
            "    send(id=receive()['id'], result={'userAgent': agent}); receive()\n" + body
        )
        program.chmod(0o755)
        return {"program": program}

    return arguments
