"""What a turn's result and errors hold: texts, tokens, cost, and how far the turn came."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentd_embed import (
    Agent,
    AsyncAgent,
    BudgetExceeded,
    ConnectionLost,
    InvalidOutput,
    Overloaded,
    TurnFailed,
    TurnInterrupted,
    TurnTimeout,
)
from agentd_embed._program import find_program
from conftest import Arguments, Fake, Scripted
from test_agent import call, message
from test_callbacks import ENDED, TURN

Priced = Callable[[list[dict[str, Any]]], Arguments]


def uses(input_tokens: int, output_tokens: int, response: dict[str, Any]) -> dict[str, Any]:
    """A response that uses so many tokens."""
    usage = {"input_tokens": input_tokens, "cached_input_tokens": 0, "output_tokens": output_tokens}
    return {**response, "steps": [*response["steps"], {"usage": usage}]}


@pytest.fixture
def priced(tmp_path: Path, environment: dict[str, str]) -> Iterator[Priced]:
    """Arguments of an agent whose model costs 2.5 dollars for a million input tokens, and 10 for output; `free` has no price."""
    servers: list[subprocess.Popen[str]] = []

    def arguments(responses: list[dict[str, Any]]) -> Arguments:
        script, catalog = tmp_path / "script.json", tmp_path / "models.json"
        script.write_text(json.dumps({"responses": responses}))
        prices = {"input": "2.5", "output": "10"}
        models = [{"id": "m", "family": "gpt", "is_default": True, "prices": prices}, {"id": "free", "family": "gpt"}]
        catalog.write_text(json.dumps({"models": models}))
        command = [find_program(None), "model-server", "--script", str(script), "--listen", "127.0.0.1:0"]
        server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        servers.append(server)
        assert server.stdout is not None
        address = server.stdout.readline().split("http://")[1].split()[0].split("/")[0]
        provider = {"name": "Priced", "base_url": f"http://{address}/v1", "request_max_retries": 0}
        config = {"model_provider": "priced", "model_providers.priced": provider, "model_catalog_json": str(catalog)}
        return {"config": config, "env": environment, "cwd": tmp_path / "work"}

    yield arguments
    for server in servers:
        server.kill()
        server.wait()


def test_a_result_has_the_tokens_and_the_cost_of_the_turn(priced: Priced) -> None:
    nothing = uses(1000, 10, call("exec_command", cmd="true"))
    responses = [nothing, uses(2000, 20, message("Done")), uses(100, 0, message("Again"))]
    with Agent(**priced(responses)) as agent:
        thread = agent.thread()
        assert thread.usage() is None
        first = thread.run("go")
        assert first.turn_usage is not None and first.turn_usage["totalTokens"] == 3030
        assert first.cost is not None and first.cost.currency == "USD"
        assert first.cost.turn == first.cost.thread == Decimal("0.0078")
        assert first.cost.last == Decimal("0.0052")
        second = thread.run("more")
        assert second.turn_usage is not None and second.turn_usage["totalTokens"] == 100
        assert second.cost is not None and second.cost.turn == Decimal("0.00025")
        usage = thread.usage()
        assert usage is not None and usage.cost is not None
        assert usage.tokens["total"]["totalTokens"] == 3130 and usage.cost.thread == Decimal("0.00805")


def test_a_turn_that_costs_too_much_is_interrupted(priced: Priced) -> None:
    running = uses(100_000, 10, call("exec_command", cmd="sleep 60"))
    responses = [uses(1000, 0, message("Cheap")), running, uses(1000, 0, message("After"))]
    with Agent(**priced(responses)) as agent:
        thread = agent.thread(sandbox="dangerFullAccess", approvalPolicy="never")
        assert thread.run("go", max_cost="0.01").text == "Cheap"
        with pytest.raises(BudgetExceeded, match="more than its `max_cost` of 0.01") as exceeded:
            thread.run("more", max_cost=0.01)
        assert exceeded.value.cost is not None and exceeded.value.cost.turn == Decimal("0.2501")
        assert exceeded.value.usage is not None and exceeded.value.turn_id is not None
        # A turn that is not read is held, too.
        assert thread.read()["thread"]["turns"][1]["status"] == "interrupted"
        with pytest.raises(BudgetExceeded, match="the price of its model is not known"):
            thread.run("more", max_cost=1, model="free")
        for wrong in (-1, "a lot", float("nan")):
            with pytest.raises(ValueError, match="`max_cost`"):
                thread.run("more", max_cost=wrong)


def test_a_budget_that_cannot_be_held_is_named(fake: Fake) -> None:
    usage = {"total": {"totalTokens": 5}, "last": {"totalTokens": 5}, "modelContextWindow": None}
    report = f"send(method='thread/tokenUsage/updated', params={{'threadId': 't', 'turnId': 'u', 'tokenUsage': {usage!r}}})\n"
    ended = "{'threadId': 't', 'turn': {'id': 'u', 'status': 'interrupted', 'items': []}}"
    stop = f"asked = receive()\nsend(id=asked['id'], result={{}})\nsend(method='turn/completed', params={ended})\n"
    with Agent(**fake(TURN + report + report + stop + "sys.stdin.read()\n")) as agent:
        with pytest.raises(BudgetExceeded, match="the server reports no costs"):
            agent.thread().run("go", max_cost=1)
    opted: list[Any] = [{"tokenCost": False}, {"optOutNotificationMethods": ["thread/tokenUsage/updated"]}]
    for capabilities in opted:
        with Agent(**fake(TURN + "sys.stdin.read()\n"), capabilities=capabilities) as agent:
            thread = agent.thread()
            with pytest.raises(ValueError, match="`max_cost` needs `tokenCost`"):
                thread.run("go", max_cost=1)


def test_errors_say_how_far_a_turn_came(scripted: Scripted) -> None:
    idle = {"steps": [{"message": {"text": "I begin.", "phase": "commentary"}}, {"message": "Half an answer"}, "idle"]}

    async def work() -> None:
        async with AsyncAgent(**scripted([call("exec_command", cmd="true"), idle, idle, idle, message("no JSON")])) as agent:
            thread = await agent.thread()
            turn = await thread.turn("go")
            async for text in turn.text():
                if text.endswith("answer"):
                    break
            await turn.interrupt()
            with pytest.raises(TurnInterrupted) as interrupted:
                await turn.result()
            check(interrupted.value, thread.id, turn.id)
            assert interrupted.value.usage is not None and interrupted.value.cost is not None

            turn = await thread.turn("go")
            async for text in turn.text():
                if text.endswith("answer"):
                    break
            with pytest.raises(TurnTimeout) as late:
                await turn.result(timeout=0)
            check(late.value, thread.id, turn.id)

            turn = await thread.turn("go")
            async for text in turn.text():
                if text.endswith("answer"):
                    break
            task = asyncio.ensure_future(turn.result())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as cancelled:
                await task
            check(cancelled.value, thread.id, turn.id)

            with pytest.raises(InvalidOutput) as invalid:
                await thread.run("go", output={"type": "object"})
            assert invalid.value.text == "no JSON" and invalid.value.turn_id is not None
            assert invalid.value.usage is not None and len(invalid.value.items) == 2

    def check(error: Any, thread_id: str, turn_id: str) -> None:
        assert (error.thread_id, error.turn_id) == (thread_id, turn_id)
        assert error.text == "Half an answer"
        assert "agentMessage" in [it["type"] for it in error.items]

    asyncio.run(work())


def test_a_failed_turn_and_a_killed_server_say_how_far_it_came(scripted: Scripted) -> None:
    refused = {"steps": [{"error": {"status": 401, "message": "no"}}]}
    with Agent(**scripted([call("exec_command", cmd="true"), refused])) as agent:
        with pytest.raises(TurnFailed) as failed:
            agent.run("go")
        assert [it["type"] for it in failed.value.items] == ["userMessage", "commandExecution"]
        assert failed.value.thread_id and failed.value.turn_id and failed.value.usage is not None

    with Agent(**scripted([{"steps": [{"message": "Half an answer"}, "idle"]}])) as agent:
        turn = agent.thread().turn("go")
        for text in turn.text():
            if text.endswith("answer"):
                break
        process = agent._agent._session._connection._process  # type: ignore[union-attr]
        assert process is not None
        os.kill(process.pid, 9)
        with pytest.raises(ConnectionLost) as lost:
            turn.result()
        assert lost.value.text == "Half an answer" and lost.value.turn_id == turn.id


def test_commentary_is_apart_from_the_answer(scripted: Scripted) -> None:
    steps = [
        {"message": {"text": "I look around.", "phase": "commentary", "chunk_chars": 4}},
        {"message": {"text": "It is a project.", "phase": "final_answer", "chunk_chars": 4}},
    ]
    with Agent(**scripted([{"steps": steps}, {"steps": steps}, {"steps": steps}, {"steps": steps[:1]}])) as agent:
        thread = agent.thread()
        turn = thread.turn("go")
        assert "".join(turn.text()) == "It is a project."
        result = turn.result()
        assert result.text == "It is a project." and result.commentary == ["I look around."]
        assert "".join(thread.turn("go").commentary()) == "I look around."
        both = "".join(thread.turn("go").text(commentary=True))
        assert both == "I look around.It is a project."
        assert thread.run("go").text == ""


def test_an_overloaded_server_is_asked_again(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentd_embed._session._FIRST_DELAY", 0.001)
    body = (
        "hello()\n"
        "methods = []\n"
        "for line in sys.stdin:\n"
        "    request = json.loads(line); methods.append(request['method'])\n"
        "    if len(methods) % 4: send(id=request['id'], error={'code': -32001, 'message': 'Server overloaded; retry later.'})\n"
        "    else: send(id=request['id'], result=methods)\n"
    )
    with Agent(**fake(body)) as agent:
        assert agent.request("thread/list") == ["thread/list"] * 4
    with Agent(**fake(body), overload_retries=2) as agent:
        with pytest.raises(Overloaded):
            agent.request("thread/list")
        assert agent.request("thread/list")[3:] == ["thread/list"]


def test_capabilities_are_asked_for(fake: Fake) -> None:
    body = "first = receive()\nsend(id=first['id'], result={'userAgent': 'x/0.1.0'})\nreceive()\n"
    body += "send(id=receive()['id'], result=first['params']['capabilities'])\nsys.stdin.read()\n"
    with Agent(**fake(body)) as agent:
        assert agent.request("x") == {"experimentalApi": True, "eventCursor": True, "tokenCost": True}
    with Agent(**fake(body), capabilities={"tokenCost": False, "optOutNotificationMethods": ["turn/diff/updated"]}) as agent:
        asked = agent.request("x")
        assert asked["tokenCost"] is False and asked["optOutNotificationMethods"] == ["turn/diff/updated"]


def test_a_review_has_its_findings(scripted: Scripted, fake: Fake) -> None:
    with Agent(**scripted([message("All is well."), message("All is well.")])) as agent:
        thread = agent.thread()
        for delivery in ("inline", "detached"):
            review = thread.review({"type": "custom", "instructions": "Look"}, delivery=delivery)
            result = review.result()
            assert result.review == "All is well." and result.findings is None
            assert (review.thread.id == thread.id) == (delivery == "inline")

    finding = {"title": "Off by one", "priority": 1, "confidence": 0.9, "location": {"path": "a.py", "startLine": 3}}
    item = {"type": "exitedReviewMode", "id": "r", "review": "One", "findings": [finding], "explanation": "Close"}
    start = TURN.replace("result={'turn': {'id': 'u'}}", "result={'turn': {'id': 'u'}, 'reviewThreadId': 't'}")
    ends = f"send(method='item/completed', params={{'threadId': 't', 'turnId': 'u', 'item': {item!r}}})\n" + ENDED
    with Agent(**fake(start + ends + "sys.stdin.read()\n")) as agent:
        result = agent.thread().review().result()
        assert result.findings == [finding] and result.explanation == "Close" and result.review == "One"
