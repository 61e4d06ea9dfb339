"""Servers that end, write garbage, or are of another version: a clear error, and nothing hangs."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentd_embed import (
    Agent,
    AsyncAgent,
    ConnectionLost,
    FolderNotFound,
    ProgramNotFound,
    TurnInterrupted,
    TurnTimeout,
    VersionMismatch,
)
from conftest import FakeSocket

Fake = Callable[[str], dict[str, Any]]


def test_a_server_that_ends_fails_every_call_with_its_last_words(fake: Fake) -> None:
    body = "hello()\nreceive()\nprint('out of memory', file=sys.stderr, flush=True)\nos._exit(3)\n"
    with Agent(**fake(body)) as agent:
        with pytest.raises(ConnectionLost, match=r"(?s)ended with 3.*out of memory"):
            agent.request("thread/list")
        with pytest.raises(ConnectionLost, match="ended with 3"):
            agent.request("thread/list")


def test_a_server_that_ends_in_a_turn_ends_its_iteration(fake: Fake) -> None:
    body = (
        "hello()\n"
        "send(id=receive()['id'], result={'thread': {'id': 't'}})\n"
        "send(id=receive()['id'], result={'turn': {'id': 'u'}})\n"
        "send(method='item/agentMessage/delta', params={'threadId': 't', 'turnId': 'u', 'itemId': 'i', 'delta': 'x'})\n"
        "os._exit(0)\n"
    )
    with Agent(**fake(body)) as agent:
        turn = agent.thread().turn("go")
        with pytest.raises(ConnectionLost):
            for _ in turn:
                pass


GARBAGE = [
    "not JSON",
    "[1]",
    "[" * 100_000,
    '{"method": 5}',
    '{"method": "x", "params": [1]}',
    '{"method": "x", "params": ""}',
    '{"method": "x", "id": 1, "params": "text"}',
    '{"method": "x", "id": {}}',
    '{"id": [1], "result": 1}',
    '{"id": {}, "result": 1}',
    "",
    "5",
    "null",
]


@pytest.mark.parametrize("line", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_named(fake: Fake, line: str) -> None:
    body = f"hello()\nreceive()\nprint({line!r}, flush=True)\nsys.stdin.read()\n"
    with Agent(**fake(body)) as agent:
        with pytest.raises(ConnectionLost, match="not the protocol"):
            agent.request("thread/list")


def frame(opcode: int, payload: bytes, first: int = 0x80) -> bytes:
    """A WebSocket frame of a server, whose payload is short."""
    return bytes([first | opcode, len(payload)]) + payload


#: What a server may not write, by what is wrong with it.
FRAMES = {
    "reserved opcode": frame(3, b""),
    "reserved bit": frame(1, b"{}", first=0xC0),
    "masked": bytes([0x81, 0x82]) + b"abcd" + b"{}",
    "no UTF-8": frame(1, b"\xff\xfe"),
    "no JSON": frame(1, b"{"),
    "no object": frame(1, b"[1]"),
    "continuation of nothing": frame(0, b"{}"),
    "fragmented ping": frame(9, b"", first=0),
    "long ping": bytes([0x89, 126, 0, 200]) + bytes(200),
    "too long": bytes([0x81, 127]) + (1 << 40).to_bytes(8, "big"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_malformed_frames_are_named(name: str) -> None:
    async def work() -> None:
        async with FakeSocket(raw=FRAMES[name]) as server:
            async with AsyncAgent(address=server.address) as agent:
                turn = await (await agent.thread()).turn("go")
                waits = [turn.result(), agent.request("thread/list"), agent.request("thread/list")]
                for wait in waits:
                    with pytest.raises(ConnectionLost, match="not the protocol"):
                        await asyncio.wait_for(wait, 30)
                # It would write the same again.
                assert server.connections == 1

    asyncio.run(work())


@pytest.mark.parametrize("version", ["x/1.0.0 (linux)", "x/0.0.9 (linux)", "nonsense"])
def test_other_versions_behind_a_socket_are_refused(version: str) -> None:
    async def work() -> None:
        async with FakeSocket(version) as server:
            with pytest.raises(VersionMismatch, match="0.1 and later"):
                await AsyncAgent(address=server.address).start()

    asyncio.run(work())


def test_answers_out_of_order_and_unknown_notifications_are_taken(fake: Fake) -> None:
    body = (
        "hello()\n"
        "send(method='some/news', params={'threadId': 5})\n"
        "send(id=99, result={})\n"
        "send(id='q', method='some/question', params={})\n"
        "first = receive()\n"
        "second = receive()\n"
        "call, reply = (first, second) if 'method' in first else (second, first)\n"
        "send(id=call['id'], result=reply['error']['code'])\n"
        "sys.stdin.read()\n"
    )
    with Agent(**fake(body)) as agent:
        assert agent.request("thread/list") == -32601


@pytest.mark.parametrize("version", ["x/1.0.0 (linux)", "x/0.0.9 (linux)", "nonsense"])
def test_other_versions_are_refused(fake: Fake, version: str) -> None:
    with pytest.raises(VersionMismatch, match="0.1 and later"):
        with Agent(**fake(f"hello({version!r})\nsys.stdin.read()\n")):
            pass


def test_a_missing_program_is_named() -> None:
    with pytest.raises(ProgramNotFound, match="`program` is '/nowhere/agentd'"):
        with Agent(program="/nowhere/agentd"):
            pass
    with pytest.raises(ConnectionLost, match="no server at unix:///nowhere.sock"):
        with Agent(address="unix:///nowhere.sock"):
            pass
    with pytest.raises(ValueError, match="its character 7 .* remove the white space") as refused:
        Agent(address="unix:///nowhere.sock", token="secret\n")
    assert "secret" not in str(refused.value)
    with pytest.raises(ValueError, match="unix:///PATH"):
        Agent(address="http://host")
    with pytest.raises(RuntimeError, match="not started"):
        Agent(program="x").request("thread/list")


#: A server that starts a thread and a turn.
TURN = (
    "hello()\n"
    "send(id=receive()['id'], result={'thread': {'id': 't'}})\n"
    "send(id=receive()['id'], result={'turn': {'id': 'u'}})\n"
)


@pytest.mark.parametrize("method", ["item/completed", "thread/tokenUsage/updated", "turn/completed"])
def test_an_event_without_its_content_is_named(fake: Fake, method: str) -> None:
    body = f"send(method={method!r}, params={{'threadId': 't', 'turnId': 'u'}})\nsys.stdin.read()\n"
    with Agent(**fake(TURN + body)) as agent:
        turn = agent.thread().turn("go")
        for _ in range(2):
            with pytest.raises(ConnectionLost, match=f"not the protocol: `{method}`"):
                turn.result()


def test_a_result_without_an_id_is_named(fake: Fake) -> None:
    with Agent(**fake("hello()\nsend(id=receive()['id'], result={'thread': 5})\nsys.stdin.read()\n")) as agent:
        with pytest.raises(ConnectionLost, match="the result of `thread/start` has no `thread` with an id"):
            agent.thread()


def test_a_server_without_a_handshake_is_given_up(fake: Fake) -> None:
    body = "print('migrating', file=sys.stderr, flush=True)\nreceive()\nsys.stdin.read()\n"
    with pytest.raises(ConnectionLost, match="the handshake took longer than 0.5 seconds"):
        Agent(**fake(body), start_timeout=0.5).start()


def test_a_working_folder_that_is_missing_is_named(fake: Fake, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(FolderNotFound, match=f"the working folder {missing} is not there"):
        Agent(**fake("hello()\n"), cwd=missing).start()


def test_a_mute_server_is_killed_at_the_limit(fake: Fake, tmp_path: Path) -> None:
    written = tmp_path / "pid"
    body = (
        "import signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(written)!r}, 'w').write(str(os.getpid()))\n"
        "while True: signal.pause()\n"
    )
    began = time.monotonic()
    with pytest.raises(ConnectionLost, match="the handshake took longer than 2 seconds"):
        Agent(**fake(body), start_timeout=2).start()
    # Less than the time that a server has to end by itself.
    assert time.monotonic() - began < 5
    with pytest.raises(ProcessLookupError):
        os.kill(int(written.read_text()), 0)


def test_a_timeout_ends_without_the_help_of_the_server(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentd_embed._turn.INTERRUPTION", 0.1)
    with Agent(**fake(TURN + "sys.stdin.read()\n")) as agent:
        turn = agent.thread().turn("go")
        with pytest.raises(TurnTimeout, match="did not confirm"):
            turn.result(timeout=0)
        with pytest.raises(TurnInterrupted, match="no answer within 0.1 seconds"):
            turn.result()
    with Agent(**fake("hello()\nsend(id=receive()['id'], result={'thread': {'id': 't'}})\nsys.stdin.read()\n")) as agent:
        thread = agent.thread()
        with pytest.raises(TurnTimeout, match="did not start the turn within 0.1 seconds"):
            thread.run("go", timeout=0.1)


def test_a_lost_connection_stays_lost_for_a_turn(fake: Fake) -> None:
    with Agent(**fake(TURN + "os._exit(0)\n")) as agent:
        turn = agent.thread().turn("go")
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                turn.result()


@pytest.mark.parametrize("answer", [{1, 2}, float("nan")], ids=["set", "nan"])
def test_an_answer_that_is_no_json_is_refused(fake: Fake, answer: object) -> None:
    body = (
        "hello()\n"
        "call = receive()\n"
        "send(id='q', method='mcpServer/elicitation/request', params={})\n"
        "send(id=call['id'], result=receive()['error']['message'])\n"
        "sys.stdin.read()\n"
    )
    with Agent(**fake(body), elicit=lambda _: answer) as agent:
        assert "JSON" in agent.request("thread/list")
        with pytest.raises((TypeError, ValueError), match="JSON"):
            agent.request("thread/list", {"limit": answer})


def test_a_turn_that_is_dropped_collects_no_events(fake: Fake) -> None:
    async def work() -> None:
        async with AsyncAgent(**fake(TURN + "sys.stdin.read()\n")) as agent:
            thread = await agent.thread()
            turn = await thread.turn("go")
            assert len(thread._state.feeds) == 1
            del turn
            gc.collect()
            assert len(thread._state.feeds) == 0

    asyncio.run(work())


def test_an_agent_is_started_once(fake: Fake) -> None:
    with Agent(**fake("hello()\nsys.stdin.read()\n")) as agent:
        with pytest.raises(RuntimeError, match="started before"):
            agent.start()
