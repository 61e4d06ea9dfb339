"""The client against a real server with a scripted model."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from agentd_embed import (
    Agent,
    AsyncAgent,
    Approval,
    ConnectionLost,
    Event,
    InvalidOutput,
    InvalidParams,
    RequestError,
    TurnFailed,
    TurnInterrupted,
    TurnTimeout,
    tool,
)
from agentd_embed._program import find_program
from agentd_embed.types import CollaborationMode
from conftest import Arguments, Scripted


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"steps": [{"message": {"text": text, **more}}]}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"steps": [{"function_call": {"name": name, "arguments": arguments}}]}


def is_message(event: Event) -> bool:
    return event.method == "item/completed" and event.params["item"]["type"] == "agentMessage"


def test_three_lines_are_enough(environment: dict[str, str]) -> None:
    with Agent(offline=True, model="echo", env=environment) as agent:
        result = agent.run("Hello there")
    assert "Hello there" in result.text
    assert result.output == result.text
    assert result.usage is not None and result.usage["total"]["totalTokens"] > 0
    assert [item["type"] for item in result.items][0] == "userMessage"


def test_a_turn_is_streamed_and_the_thread_goes_on(scripted: Scripted) -> None:
    responses = [message("One two three", chunk_chars=4), message("Again"), message("Short"), message("After")]
    with Agent(**scripted(responses)) as agent:
        thread = agent.thread()
        turn = thread.turn("go")
        texts = list(turn.text())
        assert "".join(texts) == "One two three" and len(texts) > 1
        assert turn.result().text == "One two three"
        thread.rename("A title")
        again = agent.resume(thread.id)
        assert again.run("more").text == "Again"
        assert again.read()["thread"]["name"] == "A title"
        listed = agent.typed.request("thread/list", {"limit": 10})
        assert [it["id"] for it in listed["data"]] == [thread.id]
        assert agent.fork(thread.id).id != thread.id
        thread.compact()
        assert thread.run("and now?").text == "After"
        turns = thread.read()["thread"]["turns"]
        assert [it["status"] for it in turns] == ["completed"] * 4


def test_two_turns_at_once_have_an_answer_each(scripted: Scripted) -> None:
    async def work() -> None:
        async with AsyncAgent(**scripted([message("One"), message("Two")])) as agent:
            thread = await agent.thread()
            results = await asyncio.gather(thread.run("first"), thread.run("second"))
            assert [it.text for it in results] == ["One", "Two"]

    asyncio.run(work())


def test_configuration_may_be_a_table(scripted: Scripted) -> None:
    provider = {"name": "Mine\x7f 😀", "base_url": "http://127.0.0.1:1/v1", "request_max_retries": 0}
    arguments = scripted([])
    with Agent(**arguments, config={"model_providers.mine": provider}) as agent:
        agent.thread(modelProvider="mine")
        read = agent.typed.request("config/read", {})
        assert read["config"]["model_providers"]["mine"]["name"] == provider["name"]
    wrong: list[tuple[Arguments, str]] = [
        ({"a.b": {"c": [1, None]}}, "'c'][1] is None"), ({"a": 1 << 63}, "larger"), ({"a": "\ud800"}, "half"),
    ]
    for config, expected in wrong:
        with pytest.raises(ValueError, match=expected.replace("[", "\\[")):
            Agent(**arguments, config=config)
    with pytest.raises(TypeError, match="of the type .*Path"):
        Agent(**arguments, config={"a": Path("x")})


def test_questions_are_left_to_the_model_without_a_callback(scripted: Scripted) -> None:
    question = {"id": "lang", "header": "Language", "question": "Which?", "options": []}
    responses = [
        call("request_user_input", questions=[{**question, "options": [{"label": "a", "description": "b"}, {"label": "c", "description": "d"}]}]),
        {"expect": {"tool_output_contains": "decide yourself"}, **message("As you like")},
    ]
    arguments = scripted(responses)
    plan_mode: CollaborationMode = {"mode": "plan", "settings": {"model": arguments["model"]}}
    with Agent(**arguments) as agent:
        assert agent.thread().run("go", collaborationMode=plan_mode).text == "As you like"


ESCALATED = {"cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "to make it"}


@pytest.mark.parametrize("allows", [True, False])
def test_a_command_is_asked_about(scripted: Scripted, allows: bool) -> None:
    asked: list[Approval] = []

    def approve(approval: Approval) -> bool:
        asked.append(approval)
        return allows

    arguments = scripted([call("exec_command", **ESCALATED), message("Done")])
    with Agent(**arguments, approve=approve) as agent:
        assert agent.run("go", approvalPolicy="onRequest").text == "Done"
    assert [(it.kind, it.reason) for it in asked] == [("command", "to make it")]
    assert "touch made" in (asked[0].command or "")
    assert (arguments["cwd"] / "made").exists() == allows


def test_nothing_is_allowed_without_a_callback(scripted: Scripted) -> None:
    arguments = scripted([call("exec_command", **ESCALATED), message("Done")])
    with Agent(**arguments) as agent:
        agent.run("go", approvalPolicy="onRequest")
    assert not (arguments["cwd"] / "made").exists()


def test_a_function_is_a_tool(scripted: Scripted) -> None:
    calls: list[tuple[str, int]] = []

    @tool
    def weather(city: str, days: int = 1) -> dict[str, str]:
        """What the weather will be."""
        calls.append((city, days))
        return {"weather": "sunny"}

    responses = [
        call("weather", city="Vienna", days=3),
        {"expect": {"tool_output_contains": "sunny"}, **call("weather", city=5)},
        {"expect": {"tool_output_contains": "not string"}, **message("It will be sunny.")},
    ]
    with Agent(**scripted(responses), tools=[weather]) as agent:
        assert agent.run("weather?").text == "It will be sunny."
    assert calls == [("Vienna", 3)]


def test_questions_are_answered(scripted: Scripted) -> None:
    question = {
        "id": "lang", "header": "Language", "question": "Which?",
        "options": [{"label": "Rust", "description": "r"}, {"label": "Go", "description": "g"}],
    }
    responses = [call("request_user_input", questions=[question]), message("Rust it is")]
    asked: list[str] = []

    async def ask(params: Any) -> dict[str, str]:
        asked.append(params["questions"][0]["question"])
        return {"lang": "Rust"}

    arguments = scripted(responses)
    plan_mode: CollaborationMode = {"mode": "plan", "settings": {"model": arguments["model"]}}
    with Agent(**arguments, ask=ask) as agent:
        thread = agent.thread()
        assert thread.run("go", collaborationMode=plan_mode).text == "Rust it is"
    assert asked == ["Which?"]


@dataclass
class Step:
    name: str
    minutes: int | None


@dataclass
class Plan:
    title: str
    kind: Literal["short", "long"]
    steps: list[Step]


def test_an_answer_has_the_wanted_shape(scripted: Scripted) -> None:
    text = '{"title":"T","kind":"short","steps":[{"name":"a","minutes":null},{"name":"b","minutes":3}]}'
    with Agent(**scripted([message(text), message('{"title":1}'), message("no JSON")])) as agent:
        thread = agent.thread()
        plan = thread.run("plan", output=Plan).output
        assert plan == Plan("T", "short", [Step("a", None), Step("b", 3)])
        with pytest.raises(InvalidOutput, match=r"the answer.title is 1, not string"):
            thread.run("plan", output=Plan)
        with pytest.raises(InvalidOutput) as raised:
            thread.run("plan", output={"type": "object"})
        assert raised.value.text == "no JSON"


def test_a_turn_that_takes_too_long_is_interrupted(scripted: Scripted) -> None:
    with Agent(**scripted([{"steps": [{"message": "I begin."}, "idle"]}, message("Next")])) as agent:
        thread = agent.thread()
        turn = thread.turn("go")
        next(event for event in turn if is_message(event))
        with pytest.raises(TurnTimeout, match="0.01 seconds; the turn was interrupted"):
            turn.result(timeout=0.01)
        assert thread.run("again").text == "Next"


def test_a_turn_is_interrupted_and_steered(scripted: Scripted) -> None:
    with Agent(**scripted([{"steps": [{"message": "I begin."}, "idle"]}])) as agent:
        turn = agent.thread().turn("go")
        for event in turn:
            if is_message(event):
                turn.steer("also this")
                turn.interrupt()
        with pytest.raises(TurnInterrupted):
            turn.result()


def test_refusals_and_failures_have_kinds(scripted: Scripted) -> None:
    failing = {"steps": [{"error": {"status": 401, "message": "no"}}]}
    with Agent(**scripted([failing])) as agent:
        with pytest.raises(InvalidParams, match="thread/start"):
            agent.request("thread/start", {"cwd": 5})
        with pytest.raises(RequestError) as raised:
            agent.resume("01a00000-0000-7000-8000-000000000000")
        assert raised.value.method == "thread/resume" and raised.value.code != 0
        with pytest.raises(TurnFailed) as failed:
            agent.run("go")
        assert failed.value.kind is not None


def test_a_cancelled_task_interrupts_its_turn(scripted: Scripted) -> None:
    async def work() -> None:
        responses = [{"steps": [{"message": "I begin."}, "idle"]}, message("Next")]
        async with AsyncAgent(**scripted(responses)) as agent:
            thread = await agent.thread()
            turn = await thread.turn("go")
            async for event in turn:
                # Before it the model may not have been asked, and its first response would be left.
                if is_message(event):
                    break
            task = asyncio.create_task(turn.result())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await thread.run("again")).text == "Next"

    asyncio.run(work())


def test_a_cancelled_iteration_interrupts_its_turn(scripted: Scripted) -> None:
    async def work() -> None:
        responses = [{"steps": [{"message": "I begin."}, "idle"]}]
        async with AsyncAgent(**scripted(responses)) as agent:
            thread = await agent.thread()
            turn = await thread.turn("go")
            begun = asyncio.Event()

            async def follow() -> None:
                async for _ in turn:
                    begun.set()

            task = asyncio.create_task(follow())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(TurnInterrupted):
                await turn.result()
            assert (await thread.read())["thread"]["turns"][0]["status"] == "interrupted"

    asyncio.run(work())


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl+C interrupts, also in a job of the background, which begins with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_interrupts_a_turn(scripted: Scripted) -> None:
    @tool
    def press() -> str:
        """Presses Ctrl+C."""
        os.kill(os.getpid(), signal.SIGINT)
        return "pressed"

    with Agent(**scripted([call("press"), {"steps": ["idle"]}]), tools=[press]) as agent:
        thread = agent.thread()
        with pytest.raises(KeyboardInterrupt):
            thread.run("go")
        assert thread.read()["thread"]["turns"][0]["status"] == "interrupted"


def test_ctrl_c_between_two_events_interrupts_a_turn(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    with Agent(**scripted([{"steps": [{"message": "I begin."}, "idle"]}])) as agent:
        thread = agent.thread()
        turn = thread.turn("go")

        def pressed(work: Any) -> Any:
            monkeypatch.undo()
            work.close()
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            for _ in turn:
                monkeypatch.setattr(agent, "_run", pressed)
        assert thread.read()["thread"]["turns"][0]["status"] == "interrupted"
        with pytest.raises(TurnInterrupted):
            turn.result()


def test_the_tour_runs(environment: dict[str, str]) -> None:
    root = Path(__file__).parent.parent
    environment["PYTHONPATH"] = str(root / "src")
    environment["AGENTD_PATH"] = find_program(None)
    tour = [sys.executable, str(root / "examples/tour.py")]
    ran = subprocess.run(tour, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert "files: ['AGENTD_DEMO.md']" in ran.stdout and "resumed: 1 turn" in ran.stdout


def test_the_program_of_the_readme_runs(scripted: Scripted) -> None:
    root = Path(__file__).parent.parent
    arguments = scripted([message("Hi")])
    env = {**arguments["env"], "PYTHONPATH": str(root / "src"), "AGENTD_PATH": find_program(None)}
    program = [sys.executable, str(root / "examples/readme.py")]
    ran = subprocess.run(program, cwd=arguments["cwd"], env=env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert fits((root.parent / "readme-output.txt").read_text(), ran.stdout), ran.stdout
    assert (arguments["cwd"] / "AGENTD_DEMO.md").exists()


def fits(wanted: str, output: str) -> bool:
    """An ellipsis stands for any text in a line, and alone on its line for any number of lines."""
    lines = wanted.rstrip("\n").split("\n")
    patterns = ["(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + "\n" for line in lines]
    return re.fullmatch("".join(patterns), output) is not None


@pytest.mark.parametrize("kind", ["unix", "ws"])
def test_two_agents_share_a_server(scripted: Scripted, kind: str) -> None:
    arguments = scripted([message("Hi")])
    folder = arguments["cwd"].parent
    (folder / "token").write_text("secret-token-of-the-test-0123456789")
    (folder / "token").chmod(0o600)
    listen = {
        "unix": ["--listen", f"unix://{folder / 's.sock'}"],
        "ws": ["--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token", "--ws-token-file", str(folder / "token")],
    }[kind]
    server = subprocess.Popen(
        [find_program(None), "app-server", *listen],
        env=arguments["env"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        address = server.stdout.readline().removeprefix("listening on ").strip()
        options = {"address": address, "offline": True, "model": arguments["model"], "reconnect_timeout": 0.3}
        if kind == "ws":
            with pytest.raises(ConnectionLost, match="401"):
                Agent(**options, token="wrong").start()
            options["token"] = (folder / "token").read_text()
        with Agent(**options) as first, Agent(**options) as second:
            thread = first.thread(cwd=str(arguments["cwd"]))
            other = second.resume(thread.id)
            assert thread.run("go").text == "Hi"
            assert other.read()["thread"]["turns"][0]["status"] == "completed"
            server.kill()
            with pytest.raises(ConnectionLost):
                other.read()
    finally:
        server.kill()
        server.wait()
