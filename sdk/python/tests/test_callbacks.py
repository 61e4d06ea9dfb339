"""Callbacks and tools: none waits for another, they end with their turn, and what they raise stays here."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agentd_embed import Agent, Approval, AsyncAgent, ToolContext, ToolError, TurnInterrupted, tool
from conftest import Fake, Scripted
from test_agent import ESCALATED, call, message
from test_reconnect import agent_of, gated, run

#: A server with a thread and a turn, and a question.
TURN = (
    "hello()\n"
    "send(id=receive()['id'], result={'thread': {'id': 't'}})\n"
    "send(id=receive()['id'], result={'turn': {'id': 'u'}})\n"
)
ASKED = "send(id='q', method='item/fileChange/requestApproval', params={'threadId': 't', 'turnId': 'u', 'itemId': 'i'})\n"
ENDED = "send(method='turn/completed', params={'threadId': 't', 'turn': {'id': 'u', 'status': 'completed', 'items': []}})\n"


def test_fifty_slow_callbacks_do_not_delay_another_user_s_tool(fake: Fake) -> None:
    waits, began = threading.Event(), threading.Semaphore(0)
    delays: list[float] = []

    def approve(_: Approval) -> bool:
        began.release()
        return waits.wait(60)

    @tool
    def now(at: float) -> str:
        """The time."""
        delays.append(time.time() - at)
        return "now"

    ask = "send(id=f'a{n}', method='item/fileChange/requestApproval', params={'threadId': f't{n}', 'turnId': 'u'})\n"
    body = (
        "hello()\n"
        f"for n in range(50): {ask}"
        "go = receive()\n"
        "params = {'threadId': 'other', 'turnId': 'v', 'callId': 'c', 'tool': 'now'}\n"
        "answers = []\n"
        "for n in range(10):\n"
        "    send(id=f'x{n}', method='item/tool/call', params={**params, 'arguments': {'at': time.time()}})\n"
        "    answers.append(receive()['result']['success'])\n"
        "send(id=go['id'], result=all(answers))\n"
        "sys.stdin.read()\n"
    )
    with Agent(**fake(body), approve=approve, tools=[now]) as agent:
        for _ in range(50):
            assert began.acquire(timeout=30)
        assert agent.request("thread/list") is True
        waits.set()
    # Other programs of the machine may hold one of them up.
    assert sorted(delays)[len(delays) // 2] < 0.05, delays


def test_a_callback_beyond_the_bound_fails_clearly(fake: Fake, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr("agentd_embed._callbacks.MAX_THREADS", 1)
    waits = threading.Event()
    body = (
        "hello()\n"
        "params = {'threadId': 't', 'turnId': 'u'}\n"
        "for n in range(2): send(id=n, method='item/fileChange/requestApproval', params=params)\n"
        "go, refused = sorted([receive(), receive()], key=lambda it: 'method' not in it)\n"
        "send(id=go['id'], result=refused)\n"
        "sys.stdin.read()\n"
    )
    with Agent(**fake(body), approve=lambda _: waits.wait(60)) as agent:
        refused = agent.request("thread/list")
        assert refused["id"] == 1 and "error" in refused
        waits.set()
    assert "1 callbacks of this agent run already" in caplog.text


@pytest.mark.parametrize("how", ["resolved", "turn ends"])
def test_a_question_that_is_obsolete_cancels_its_callback(fake: Fake, how: str) -> None:
    resolved = "send(method='serverRequest/resolved', params={'threadId': 't', 'requestId': 'q'})\n"
    body = TURN + ASKED + "first = receive()\n" + (resolved if how == "resolved" else ENDED)
    body += "send(id=first['id'], result={})\nsys.stdin.read()\n"

    async def work() -> None:
        began, ended = asyncio.Event(), asyncio.Event()

        async def approve(_: Approval, ctx: ToolContext) -> bool:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                assert ctx.is_cancelled
                ended.set()
            return True

        async with AsyncAgent(**fake(body), approve=approve) as agent:
            turn = await (await agent.thread()).turn("go")
            await began.wait()
            await agent.request("thread/list")
            await asyncio.wait_for(ended.wait(), 10)
            del turn

    asyncio.run(work())


def test_a_tool_ends_with_its_turn(scripted: Scripted) -> None:
    async def work() -> None:
        began = asyncio.Event()
        ended: list[float] = []
        in_thread = threading.Event()

        @tool
        async def wait() -> str:
            """Waits in the loop."""
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(time.monotonic())
            return ""

        @tool
        def sleep(ctx: ToolContext) -> str:
            """Waits in a thread."""
            loop.call_soon_threadsafe(began.set)
            assert ctx.wait_cancelled(60)
            ended.append(time.monotonic())
            in_thread.set()
            return ""

        loop = asyncio.get_running_loop()
        for each in (wait, sleep):
            async with AsyncAgent(**scripted([call(each.name)]), tools=[wait, sleep]) as agent:
                began.clear()
                turn = await (await agent.thread()).turn("go")
                await began.wait()
                await turn.interrupt()
                with pytest.raises(TurnInterrupted):
                    await turn.result()
                at = time.monotonic()
                if each is sleep:
                    assert await loop.run_in_executor(None, in_thread.wait, 10)
                else:
                    await asyncio.sleep(0)
                assert ended.pop() - at < 0.1

    asyncio.run(work())


def test_a_sub_agent_s_callbacks_get_the_context_of_the_turn_that_gave_it_work(scripted: Scripted) -> None:
    seen: list[Any] = []

    @tool
    def whose(ctx: ToolContext) -> str:
        """The user."""
        seen.append(ctx.user)
        return "known"

    def of(conversation: int, *responses: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**it, "conversation": conversation} for it in responses]

    wait = call("wait_agent", targets=["Ada"], timeout_ms=20_000)
    begins = [call("spawn_agent", message="look"), wait, message("Done")]
    goes_on = [call("send_input", target="Ada", message="again"), wait, message("Done")]
    below = [call("spawn_agent", message="look"), call("wait_agent", targets=["Basil"], timeout_ms=20_000), call("whose"), message("Seen")]
    again = [call("whose"), message("Seen")]
    arguments = scripted([
        *of(0, *begins, *goes_on, *goes_on),
        *of(1, *below, *again, *again),
        *of(2, call("whose"), message("Seen")),
    ])  # fmt: skip

    async def work() -> None:
        async with gated(arguments, "unix") as gate:
            async with agent_of(arguments, gate.address, tools=[whose]) as agent:
                thread = await agent.thread(context="the thread's", config={"agents.max_depth": 2})
                await thread.run("go", context="Ada")
                await thread.run("on", context="Grace")
            # In another process the turns of the thread say who its agents are.
            async with agent_of(arguments, gate.address, tools=[whose]) as agent:
                thread = await agent.resume(thread.id, context="resumed")
                await thread.run("on")

    run(work)
    assert seen == ["Ada", "Ada", "Grace", "resumed"]


def test_callbacks_get_the_context_of_their_user(scripted: Scripted) -> None:
    seen: list[Any] = []

    @tool
    def note(text: str, ctx: ToolContext) -> str:
        """Notes a text."""
        seen.append((text, ctx.user, ctx.thread_id, ctx.turn_id, bool(ctx.call_id)))
        return "noted"

    def approve(approval: Approval, where: ToolContext) -> bool:
        seen.append((approval.kind, where.user, where.thread_id, where.turn_id, bool(where.call_id)))
        return False

    assert list(note.schema["properties"]) == ["text"] == note.schema["required"]
    responses = [call("note", text="a"), call("exec_command", **ESCALATED), message("1"), call("note", text="b"), message("2")]
    with Agent(**scripted(responses), tools=[note], approve=approve) as agent:
        thread = agent.thread(context={"name": "Ada"}, approvalPolicy="onRequest")
        first = thread.turn("go")
        first.result()
        second = thread.turn("go", context="only this turn")
        second.result()
        fork = thread.fork()
        # The model begins its script again in another thread.
        third = fork.turn("go")
        third.result()
    assert seen[3:] == [
        ("a", {"name": "Ada"}, fork.id, third.id, True),
        ("command", {"name": "Ada"}, fork.id, third.id, True),
    ]
    assert seen[:3] == [
        ("a", {"name": "Ada"}, thread.id, first.id, True),
        ("command", {"name": "Ada"}, thread.id, first.id, True),
        ("b", "only this turn", thread.id, second.id, True),
    ]


@pytest.mark.parametrize("is_sent", [False, True])
def test_the_model_does_not_read_what_a_tool_raises(scripted: Scripted, caplog: Any, is_sent: bool) -> None:
    caplog.set_level(logging.ERROR)
    errors: list[tuple[str, Any]] = []

    @tool
    def query() -> str:
        """Queries the database."""
        raise ValueError("password=hunter2")

    @tool
    def lookup() -> str:
        """Looks something up."""
        raise ToolError("there is no such customer")

    def on_error(error: Exception, ctx: ToolContext) -> None:
        errors.append((str(error), ctx.user))

    secret = "ValueError: password=hunter2" if is_sent else "The tool failed."
    hidden = [] if is_sent else ["hunter2"]
    responses = [
        call("query"),
        {"expect": {"tool_output_contains": secret, "not_contains": hidden}, **call("lookup")},
        {"expect": {"tool_output_contains": "there is no such customer"}, **message("Done")},
    ]
    options: Any = {"tools": [query, lookup], "on_error": on_error, "send_tool_errors": is_sent}
    with Agent(**scripted(responses), **options) as agent:
        assert agent.thread(context="Ada").run("go").text == "Done"
    assert errors == [("password=hunter2", "Ada")]
    assert "the tool `query` failed" in caplog.text and "hunter2" in caplog.text


def test_a_callback_that_fails_keeps_its_text(fake: Fake, caplog: Any) -> None:
    body = TURN + ASKED + (
        "go, answer = sorted([receive(), receive()], key=lambda it: 'method' not in it)\n"
        "send(id=go['id'], result=answer)\n"
        "sys.stdin.read()\n"
    )

    def approve(_: Approval) -> bool:
        raise SystemExit("secret")

    with Agent(**fake(body), approve=approve) as agent:
        turn = agent.thread().turn("go")
        answer = agent.request("thread/list")
        assert answer["error"]["message"] == "the client's callback failed"
        assert turn.id == "u"
    assert "secret" in caplog.text


def test_a_server_that_is_killed_ends_its_callbacks(scripted: Scripted) -> None:
    began, ended = threading.Event(), threading.Event()

    @tool
    def wait(ctx: ToolContext) -> str:
        """Waits."""
        began.set()
        if ctx.wait_cancelled(60):
            ended.set()
        return ""

    with Agent(**scripted([call("wait")]), tools=[wait]) as agent:
        turn = agent.thread().turn("go")
        assert began.wait(30)
        process = agent._agent._session._connection._process  # type: ignore[union-attr]
        assert process is not None
        os.kill(process.pid, 9)
        assert ended.wait(30)
        assert turn.id


def test_an_approval_that_another_client_answers_is_cancelled(scripted: Scripted) -> None:
    arguments = scripted([call("exec_command", **ESCALATED), message("Done")])

    async def work() -> None:
        asked, cancelled = asyncio.Event(), asyncio.Event()
        contexts: list[ToolContext] = []

        async def wait(_: Approval, ctx: ToolContext) -> bool:
            contexts.append(ctx)
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            return False

        async def allow(_: Approval) -> bool:
            await asked.wait()
            return True

        async with gated(arguments, "unix") as gate:
            async with agent_of(arguments, gate.address, approve=wait) as first:
                async with agent_of(arguments, gate.address, approve=allow) as second:
                    thread = await first.thread(approvalPolicy="onRequest")
                    await second.resume(thread.id)
                    assert (await thread.run("go")).text == "Done"
                    assert cancelled.is_set() and contexts[0].is_cancelled
        assert (Path(arguments["cwd"]) / "made").exists()

    run(work)


def test_arguments_of_the_wrong_type_are_named(fake: Fake) -> None:
    @tool
    def once() -> None:
        """Nothing."""

    wrong: list[tuple[dict[str, Any], str]] = [
        ({"approve": "yes"}, "`approve`"),
        ({"tools": [len]}, r"`tools\[0\]`"),
        ({"tools": once}, "`tools`"),
        ({"start_timeout": "5"}, "`start_timeout`"),
        ({"capabilities": ["x"]}, "`capabilities`"),
        ({"client_name": 5}, "`client_name`"),
        ({"address": 5}, "`address`"),
        ({"token": 5}, "`token`"),
        ({"env": {"A": 5}}, r"`env\['A'\]`"),
        ({"cwd": 5}, "`cwd` is of the type int, not str or a path"),
        ({"offline": "yes"}, "`offline`"),
        ({"config": "x"}, "`config`"),
        ({"overload_retries": 1.5}, "`overload_retries`"),
    ]
    for arguments, name in wrong:
        with pytest.raises(TypeError, match=name):
            Agent(**arguments)
    with pytest.raises(ValueError, match="second tool with the name `once`"):
        Agent(tools=[once, once])
    with pytest.raises(ValueError, match="opts out of `turn/completed`"):
        Agent(capabilities={"optOutNotificationMethods": ["turn/completed"]})
    with Agent(**fake("hello()\nsend(id=receive()['id'], result={'thread': {'id': 't'}})\nsys.stdin.read()\n")) as agent:
        untyped: Any = agent
        calls: list[tuple[Any, str]] = [
            (lambda: untyped.thread(cwd=5), "`cwd` is of the type int, not str"),
            (lambda: untyped.thread(approval_policy="never"), "no parameter `approval_policy`: is it `approvalPolicy`"),
            (lambda: untyped.thread(ephemeral=1), "`ephemeral` is of the type int, not bool"),
            (lambda: untyped.resume(5), "`thread_id` is of the type int"),
            (lambda: untyped.run(5), "`message` is of the type int"),
            (lambda: untyped.run("go", timeout="1"), "`timeout` is of the type str"),
        ]
        thread: Any = agent.thread()
        calls += [
            (lambda: thread.turn(5), "`message` is of the type int"),
            (lambda: thread.turn([5]), r"`message\[0\]` is of the type int"),
            (lambda: thread.run("go", timeout="1"), "`timeout` is of the type str"),
            (lambda: thread.run("go", maxTotalTokens=True), "`maxTotalTokens` is of the type bool"),
            (lambda: thread.run("go", max_cost=[1]), "`max_cost` is of the type list"),
            (lambda: thread.turn("go", output=object), "no counterpart in JSON"),
            (lambda: thread.events(5), "`cursor` is of the type int"),
            (lambda: thread.rename(5), "`name` is of the type int"),
        ]
        for each, expected in calls:
            with pytest.raises(TypeError, match=expected):
                each()
