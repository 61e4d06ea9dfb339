"""Servers that end, write garbage, or are of another version: a clear error, and nothing hangs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentd_sdk import Agent, ConnectionLost, ProgramNotFound, VersionMismatch

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


@pytest.mark.parametrize("line", ["not JSON", "[1]", '{"method": 5}'])
def test_garbage_is_named(fake: Fake, line: str) -> None:
    body = f"hello()\nreceive()\nprint({line!r}, flush=True)\nsys.stdin.read()\n"
    with Agent(**fake(body)) as agent:
        with pytest.raises(ConnectionLost, match="not the protocol"):
            agent.request("thread/list")


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
    with pytest.raises(ValueError, match="unix:///PATH"):
        Agent(address="http://host")
    with pytest.raises(RuntimeError, match="not started"):
        Agent(program="x").request("thread/list")
