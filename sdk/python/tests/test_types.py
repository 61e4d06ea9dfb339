"""What type checkers find, and that the names of parameters are those of the protocol."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, get_args

import pytest

from agentd_embed import Agent, AsyncAgent, AsyncThread, AsyncTurn, Thread, Turn, _event_types, _params
from agentd_embed._agent_options import AgentOptions

ROOT = Path(__file__).parent.parent
SCHEMA = ROOT.parent.parent / "schema"
MISTAKES = Path("tests/mistakes/mistakes.py")


def mypy() -> str:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "--no-error-summary", str(MISTAKES)]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "MYPYPATH": "src"}, capture_output=True, text=True).stdout


def pyright() -> str:
    environment = {**os.environ, "PYRIGHT_PYTHON_CACHE_DIR": str(Path(sys.prefix) / "pyright")}
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", str(MISTAKES.parent)]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if "informations" not in ran.stdout:
        pytest.skip(f"pyright is a program of npm, which could not be fetched: {ran.stderr[-200:]}")
    return ran.stdout


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_every_mistake_is_found_and_nothing_else(checker: Callable[[], str]) -> None:
    lines = (ROOT / MISTAKES).read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert len(wrong) >= 20
    output = checker()
    found = {int(it) for it in re.findall(r"mistakes\.py:(\d+)(?::\d+)?(?: -)?:? error", output)}
    assert found == wrong, output


@pytest.mark.parametrize(
    ("options", "definition", "apart"),
    [
        (_params.ThreadOptions, "ThreadStartParams", set[str]()),
        (_params.ResumeOptions, "ThreadResumeParams", {"threadId", "eventCursor"}),
        (_params.ForkOptions, "ThreadForkParams", {"threadId"}),
        (_params.TurnOptions, "TurnStartParams", {"threadId", "input"}),
        (_params.ListOptions, "ThreadListParams", {"cursor", "limit"}),
        (_params.SearchOptions, "ThreadSearchParams", {"searchTerm", "cursor", "limit"}),
    ],
)
def test_parameters_are_those_of_the_protocol(options: Any, definition: str, apart: set[str]) -> None:
    if not SCHEMA.exists():
        pytest.skip("the schema is in the repository")
    schema = json.loads((SCHEMA / "agentd.schema.json").read_text())["$defs"][definition]
    assert set(options.__annotations__) == set(schema["properties"]) - apart


def test_the_union_of_events_has_every_notification() -> None:
    if not SCHEMA.exists():
        pytest.skip("the schema is in the repository")
    listed = json.loads((SCHEMA / "methods.json").read_text())["serverNotifications"]
    params = {it["method"]: it["params"] for it in listed}
    source = inspect.getsource(_event_types)
    assert set(re.findall(r'Literal\["(.+?)"\]', source)) == set(params) | {"replaced", "turn/replaced"}
    assert dict(re.findall(r'Literal\["(.+?)"\], t\.(\w+)\]', source)).items() <= params.items()


def test_the_arguments_of_both_agents_are_the_same() -> None:
    names = set(inspect.signature(AsyncAgent.__init__).parameters) - {"self"}
    assert set(AgentOptions.__annotations__) == names
    assert get_args(_params.OnBusy) == ("wait", "join", "error")


@pytest.mark.parametrize("pair", [(AsyncAgent, Agent), (AsyncThread, Thread), (AsyncTurn, Turn)])
def test_both_kinds_of_agent_have_the_same_methods(pair: tuple[type[Any], type[Any]]) -> None:
    apart = {"agent", "id", "thread"}  # Attributes of the one, properties of the other.
    asynchronous, synchronous = ({it for it in dir(kind) if not it.startswith("_")} - apart for kind in pair)
    assert asynchronous == synchronous
    for name in asynchronous:
        methods = [getattr(kind, name) for kind in pair]
        if not inspect.isfunction(methods[0]):
            continue
        names = [list(inspect.signature(it).parameters) for it in methods]
        # `run` and `turn` hand their options on: their overloads are checked by the type checkers.
        assert names[0] == names[1] or "options" in names[1], name


def test_only_what_python_39_has_is_used() -> None:
    """Syntax of later versions, and names of later standard libraries that this package once used."""
    loads = "import sys, agentd_embed; print('agentd_embed.types' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run([sys.executable, "-c", loads], env=environment, capture_output=True, text=True)
    # The types of the protocol need Python 3.10 where they are imported when the program runs.
    assert ran.stdout.strip() == "False", ran.stderr
    for path in (ROOT / "src/agentd_embed").glob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 9))
        later = re.findall(r"\b(aiter|anext|asyncio\.(?:timeout|TaskGroup|Runner)|ExceptionGroup|tomllib|slots=True)\b", path.read_text())
        assert not later, (path, later)
