"""What is done with threads: lists, archive, branches, undo, images, goals. Against the real program."""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agentd_embed import Agent, Approval, AsyncAgent, InvalidParams, MethodNotFound, RequestError, image
from conftest import Scripted
from test_agent import call, message


def png() -> bytes:
    """A PNG of one red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")


def test_threads_are_listed_in_pages_and_by_filters(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentd_embed._agent._PAGE", 2)
    with Agent(**scripted([message("Hi")])) as agent:
        threads = [agent.thread() for _ in range(5)]
        for number, thread in enumerate(threads):
            thread.run(f"question {number}")
        ids = [it.id for it in threads]
        # Those of one second may come in any order.
        assert {it["id"] for it in agent.list()} == set(ids)
        assert len(list(agent.list())) == 5
        assert len(list(agent.list(limit=3))) == 3 and not list(agent.list(limit=0))
        assert [it["id"] for it in agent.list(searchTerm="question 3")] == [ids[3]]
        threads[1].archive()
        agent.archive(ids[2])
        assert {it["id"] for it in agent.list(archived=True)} == {ids[1], ids[2]}
        assert len(list(agent.list())) == 3
        threads[1].unarchive()
        agent.unarchive(ids[2])
        assert len(list(agent.list())) == 5
        assert agent.server is not None and "agentd" in agent.server["userAgent"]


def test_turns_are_rolled_back_and_threads_forked(scripted: Scripted) -> None:
    responses = [message("One"), message("Two"), message("Three")]
    with Agent(**scripted(responses)) as agent:
        thread = agent.thread()
        for text in ("first", "second"):
            thread.run(text)
        fork = thread.fork(ephemeral=False)
        rest = thread.rollback()
        assert len(rest["turns"]) == 1 and len(thread.read()["thread"]["turns"]) == 1
        assert len(fork.read()["thread"]["turns"]) == 2
        with pytest.raises(RequestError):
            thread.rollback(5)
        untyped: Any = thread
        with pytest.raises(TypeError, match="`turns` is of the type str"):
            untyped.rollback("1")


def test_what_a_turn_did_to_files_is_undone(scripted: Scripted) -> None:
    patch = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\n"
    arguments = scripted([{"steps": [{"custom_tool_call": {"name": "apply_patch", "input": patch}}]}, message("Done")])
    made = Path(arguments["cwd"]) / "made.txt"
    with Agent(**arguments, config={"features.undo": True}) as agent:
        thread = agent.thread(sandbox="workspaceWrite", approvalPolicy="never")
        thread.run("go")
        assert made.read_text() == "made\n"
        would = thread.undo(dry_run=True)
        assert made.exists() and [Path(it).name for it in would["restored"]] == ["made.txt"]
        assert "made" in would["diff"]
        thread.undo()
        assert not made.exists() and not thread.read()["thread"]["turns"]


def test_images_are_sent_by_path_and_bytes(scripted: Scripted, tmp_path: Path) -> None:
    file = tmp_path / "red.png"
    file.write_bytes(png())
    url = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    for source in (file, str(file), png(), bytearray(png()), url):
        expected = {"expect": {"contains": "data:image/png;base64,"}, **message("Red")}
        with Agent(**scripted([expected])) as agent:
            assert agent.run(["What color?", image(source)]).text == "Red"
    assert image("https://example.org/a.png") == {"type": "image", "url": "https://example.org/a.png"}
    assert image(Path("a.png")) == {"type": "localImage", "path": "a.png"}
    for kind, start in {"jpeg": b"\xff\xd8\xff", "gif": b"GIF89a", "webp": b"RIFF1234WEBP"}.items():
        assert image(start)["url"].startswith(f"data:image/{kind};")  # type: ignore[typeddict-item]
    for wrong, error in ((b"%PDF", ValueError), ("http://example.org/a.png", ValueError), (5, TypeError)):
        untyped: Any = wrong
        with pytest.raises(error, match="`source`"):
            image(untyped)
    with Agent(**scripted([])) as agent:
        with pytest.raises(InvalidParams, match="missing.png"):
            agent.run([image(tmp_path / "missing.png")])


def test_a_goal_is_worked_on(scripted: Scripted) -> None:
    done = call("update_goal", status="complete")
    responses = [call("exec_command", cmd="true"), message("Step"), done, message("Reached"), message("More"), message("More")]

    async def work() -> None:
        async with AsyncAgent(**scripted(responses), config={"features.goals": True}) as agent:
            thread = await agent.thread(sandbox="dangerFullAccess", approvalPolicy="never")
            assert await thread.goal() is None
            events = thread.events()
            goal = await thread.set_goal("Win", token_budget=1_000_000)
            assert goal["objective"] == "Win" and goal["tokenBudget"] == 1_000_000
            # Its turns start by themselves.
            async for event in events:
                if event.method == "thread/goal/updated" and event.params["goal"]["status"] == "complete":
                    break
            current = await thread.goal()
            assert current is not None and current["status"] == "complete"
            assert await thread.clear_goal() is True
            assert await thread.clear_goal() is False and await thread.goal() is None

    asyncio.run(asyncio.wait_for(work(), 60))


def test_messages_wait_in_a_queue(scripted: Scripted) -> None:
    responses = [call("exec_command", cmd="touch x"), message("One"), message("Two")]

    async def work() -> None:
        async with AsyncAgent(**scripted(responses), approve=approve) as agent:
            thread = await agent.thread(sandbox="readOnly", approvalPolicy="unlessTrusted")
            events = thread.events()
            turn = await thread.turn("begin")
            await asked.wait()
            first = await thread.queue("first", client_id="own")
            assert await thread.queue("first", client_id="own") == first and first["clientUserMessageId"] == "own"
            second = await thread.queue("secnd")
            gone = await thread.queue("never mind")
            await thread.update_queued(second["id"], "second")
            await thread.reorder_queue([second["id"], gone["id"], first["id"]])
            assert await thread.delete_queued(gone["id"]) and not await thread.delete_queued(gone["id"])
            queue = await thread.queued()
            assert [it["input"][0] for it in queue["data"]] == [{"type": "text", "text": it} for it in ("second", "first")]
            assert queue["pause"] is None
            await turn.interrupt()
            async for event in events:
                if event.method == "thread/queue/changed" and event.params["pause"] is not None:
                    assert event.params["length"] == 2 and event.params["pause"]["reason"] == "interrupted"
                    break
            started = await thread.start_queue(first["id"])
            assert (await started.result()).text == "One"
            async for event in events:
                if event.method == "item/completed" and event.params["item"]["type"] == "agentMessage":
                    said = event.params["item"]["text"]
                    if said == "Two":
                        break
            assert (await thread.queued())["data"] == []
            untyped: Any = thread
            calls: list[Callable[[], Awaitable[object]]] = [
                lambda: untyped.queue(5),
                lambda: untyped.reorder_queue("abc"),
                lambda: untyped.delete_queued(1),
            ]
            for wrong in calls:
                with pytest.raises(TypeError):
                    await wrong()

    async def approve(_: Approval) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return False

    asked = asyncio.Event()
    asyncio.run(asyncio.wait_for(work(), 60))


def test_what_was_said_is_found(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentd_embed._agent._PAGE", 1)
    monkeypatch.setattr("agentd_embed._queue._PAGE", 1)
    with Agent(**scripted([message("The lexer counts wrong"), message("Mended"), message("The lexer is fine")])) as agent:
        one, two = agent.thread(), agent.thread()
        one.run("Why does the parser fail?")
        one.run("Mend the lexer")
        two.run("And now?")
        found = list(agent.search("lexer"))
        assert {it["thread"]["id"] for it in found} == {one.id, two.id}
        assert list(agent.search("lexer", limit=1)) == found[:1] and not list(agent.search("lexer", archived=True))
        (of_one,) = agent.search("parser fail")
        assert of_one["thread"]["id"] == one.id and "parser" in of_one["snippet"]
        said = list(one.search("THE LEXER"))
        assert [it["snippet"] for it in said] == ["Mend the lexer", "The lexer counts wrong"]
        assert list(one.search("the lexer", limit=1)) == said[:1] and not list(two.search("parser"))


def test_a_method_that_the_server_lacks_is_named(scripted: Scripted) -> None:
    with Agent(**scripted([])) as agent:
        with pytest.raises(MethodNotFound, match="thread/nothing"):
            agent.request("thread/nothing")
