"""A real server with a scripted model, and servers that misbehave."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

Arguments = dict[str, Any]
Scripted = Callable[[list[dict[str, Any]]], Arguments]
Fake = Callable[[str], Arguments]


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


class FakeSocket:
    """A server behind a WebSocket that knows a thread and a turn. After the turn has started it writes `raw`.

    The user agent of each connection is the next of `agents`, and the last of them from then on.
    """

    def __init__(self, *agents: str, raw: bytes = b"") -> None:
        self._agents = agents or ("x/0.1.0 (linux)",)
        self._raw = raw
        self._open: list[ServerConnection] = []
        self.address = ""
        self.connections = 0

    async def __aenter__(self) -> FakeSocket:
        self._server = await serve(self._taken, "127.0.0.1", 0)
        port = next(iter(self._server.sockets)).getsockname()[1]
        self.address = f"ws://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.cut()
        self._server.close()
        await self._server.wait_closed()

    def cut(self) -> None:
        """Ends every connection."""
        for connection in self._open:
            connection.transport.abort()
        self._open.clear()

    async def _taken(self, connection: ServerConnection) -> None:
        agent = self._agents[min(self.connections, len(self._agents) - 1)]
        self.connections += 1
        self._open.append(connection)
        results = {
            "initialize": {"userAgent": agent},
            "thread/start": {"thread": {"id": "t"}, "eventCursor": "1"},
            "turn/start": {"turn": {"id": "u"}},
        }
        async for text in connection:
            message = json.loads(text)
            if message.get("method") in results:
                await connection.send(json.dumps({"id": message["id"], "result": results[message["method"]]}))
            if message.get("method") == "turn/start" and self._raw:
                connection.transport.write(self._raw)
        await asyncio.sleep(0)
