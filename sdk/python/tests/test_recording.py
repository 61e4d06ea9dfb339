"""Sessions that are recorded and replayed, and models that answer a schema."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentd_embed import Agent, Approval, AsyncAgent, ConnectionLost, ReplayMismatch, tool
from agentd_embed.testing import answers, calls, expecting, fails, says, scripted as script
from conftest import Scripted
from test_agent import ESCALATED, call, message
from test_reconnect import LONG, agent_of, gated, run


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def approve(approval: Approval) -> bool:
    return approval.kind == "command"


def session(options: dict[str, Any], question: str = "go") -> tuple[str, list[str], int]:
    with Agent(**options, tools=[weather], approve=approve) as agent:
        thread = agent.thread(approvalPolicy="onRequest")
        turn = thread.turn(question)
        texts = "".join(turn.text())
        result = turn.result()
        thread.rename("Recorded")
        return texts, [it["type"] for it in result.items], len(thread.read()["thread"]["turns"])


def test_a_session_is_recorded_and_replayed_without_a_server(scripted: Scripted, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    responses = [call("weather", city="Vienna"), call("exec_command", **{**ESCALATED, "cmd": "touch made; echo $MY_API_KEY"}), message("Done so", chunk_chars=3)]
    arguments = scripted(responses)
    arguments["env"] = {**arguments["env"], "MY_API_KEY": "very-secret-value"}
    recorded = session({**arguments, "record": file})
    assert "Done so" == recorded[0] and "dynamicToolCall" in recorded[1]
    assert "very-secret-value" not in file.read_text()
    # The program does not exist: nothing is started.
    options = {**arguments, "program": "/nowhere", "replay": file}
    for _ in range(2):
        assert session(options) == recorded
    with pytest.raises(ReplayMismatch, match=r"session.jsonl:\d+: the recording has .*\"go\".* sends .*\"stop\"") as differs:
        session(options, "stop")
    assert differs.value.expected["params"]["input"][0]["text"] == "go"
    assert differs.value.actual["params"]["input"][0]["text"] == "stop"


def test_every_later_call_of_a_replay_that_differs_fails(scripted: Scripted, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    with Agent(**scripted([]), record=file) as agent:
        agent.request("thread/list", {"limit": 1})
    with Agent(program="/nowhere", replay=file) as agent:
        with pytest.raises(ReplayMismatch):
            agent.request("thread/list", {"limit": 2})
        with pytest.raises(ConnectionLost, match="this session sends"):
            agent.request("thread/list", {"limit": 1})
    with Agent(program="/nowhere", replay=file) as agent:
        agent.request("thread/list", {"limit": 1})
        with pytest.raises(ReplayMismatch, match="there is no further message"):
            agent.request("thread/list", {"limit": 1})


def test_secrets_in_messages_are_left_out(scripted: Scripted, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    with Agent(**scripted([]), record=file) as agent:
        params = {"command": ["true"], "env": {"A": "hidden-1"}, "cwd": str(tmp_path)}
        assert agent.request("command/exec", params)["exitCode"] == 0
    assert "hidden-1" not in file.read_text()
    with Agent(program="/nowhere", replay=file) as agent:
        assert agent.request("command/exec", params)["exitCode"] == 0


def test_a_recording_holds_losses_of_the_connection(scripted: Scripted, tmp_path: Path) -> None:
    arguments = scripted([message(LONG, chunk_chars=8, chunk_delay_ms=3)])
    file = tmp_path / "session.jsonl"

    async def work() -> None:
        async with gated(arguments, "unix") as gate:
            async with agent_of(arguments, gate.address, record=file) as agent:
                turn = await (await agent.thread()).turn("go")
                async for _ in turn.text():
                    if gate.connections < 2:
                        gate.cut()
                assert (await turn.result()).text == LONG
        async with agent_of(arguments, "unix:///nowhere.sock", replay=file) as agent:
            turn = await (await agent.thread()).turn("go")
            assert (await asyncio.wait_for(turn.result(), 20)).text == LONG

    run(work)
    assert sum('"connection"' in line for line in file.read_text().splitlines()) == 2


def test_what_is_no_recording_is_named(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    for content in ("no JSON\n", '{"sent": {}}\n', "[1]\n"):
        file.write_text(content)
        with pytest.raises(ValueError, match="session.jsonl:1: "):
            Agent(replay=file)
    with pytest.raises(FileNotFoundError):
        AsyncAgent(replay=tmp_path / "missing")


@dataclass
class Forecast:
    days: int
    cities: list[str]


def test_an_offline_model_answers_a_schema(environment: dict[str, str], tmp_path: Path) -> None:
    forecast = Forecast(3, ["Vienna"])
    responses = [
        calls("weather", city="Vienna"),
        expecting(answers(forecast, Forecast), tool_output_contains="sunny"),
        says("Bye", chunk_chars=1),
        fails(401),
    ]
    with Agent(**script(tmp_path, *responses), env=environment, cwd=tmp_path / "work", tools=[weather]) as agent:
        thread = agent.thread()
        assert thread.run("plan", output=Forecast).output == forecast
        assert thread.run("thanks").text == "Bye"
        with pytest.raises(Exception, match="scripted failure"):
            thread.run("more")
    with pytest.raises(ValueError, match="`value`"):
        answers({"days": "x", "cities": []}, Forecast)
    with pytest.raises(TypeError, match=r"`responses\[0\]`"):
        script(tmp_path, "hello")  # type: ignore[arg-type]
    assert json.loads((tmp_path / "model-script.json").read_text())["on_exhausted"] == "error"
