"""Coming back to a server after the connection was lost: nothing is lost, doubled or asked twice."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentd_embed import Approval, AsyncAgent, AsyncTurn, ConnectionLost, TurnInterrupted, VersionMismatch
from agentd_embed._connection import Connection
from agentd_embed._program import find_program
from conftest import Arguments, FakeSocket, Scripted
from test_agent import ESCALATED, call, message

KINDS = ["unix", "ws"]
LONG = "".join(f"word {at} of it " for at in range(200))
IDLE = {"steps": [{"message": "I begin."}, "idle"]}


class Gate:
    """A proxy in front of a Unix socket, whose connections can be cut."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""
        self.refuses = False
        self.connections = 0

    async def taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Passes a connection on."""
        self.connections += 1
        if self.refuses:
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_unix_connection(str(self._path))
        self._open |= {writer, far_writer}
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.ensure_future(self._pass(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.close()

    def cut(self) -> None:
        """Ends every connection in the middle of whatever it does."""
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()


@asynccontextmanager
async def serving(folder: Path, env: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    command = [find_program(None), "app-server", "--listen", f"unix://{folder / 's.sock'}"]
    server = await asyncio.create_subprocess_exec(*command, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=pipe)
    try:
        assert server.stdout is not None
        while not (await server.stdout.readline()).startswith(b"listening on "):
            assert server.returncode is None
        yield server
    finally:
        if server.returncode is None:
            server.kill()
        await server.wait()


@asynccontextmanager
async def gated(arguments: Arguments, kind: str) -> AsyncIterator[Gate]:
    """A server behind a gate that listens at a socket of this kind."""
    folder = Path(arguments["cwd"]).parent
    async with serving(folder, arguments["env"]):
        gate = Gate(folder / "s.sock")
        if kind == "unix":
            listener = await asyncio.start_unix_server(gate.taken, str(folder / "gate.sock"))
            gate.address = f"unix://{folder / 'gate.sock'}"
        else:
            listener = await asyncio.start_server(gate.taken, "127.0.0.1", 0)
            gate.address = f"ws://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        try:
            yield gate
        finally:
            listener.close()
            gate.cut()


def agent_of(arguments: Arguments, address: str, **more: Any) -> AsyncAgent:
    return AsyncAgent(address=address, offline=True, model=arguments["model"], cwd=arguments["cwd"], **more)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(work(), 60)

    asyncio.run(limited())


async def begun(turn: AsyncTurn[str]) -> None:
    async for text in turn.text():
        if text:
            return


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_goes_on_after_losses_with_nothing_lost_or_doubled(scripted: Scripted, kind: str) -> None:
    arguments = scripted([message(LONG, chunk_chars=8, chunk_delay_ms=5), message("Next")])

    async def work() -> None:
        async with gated(arguments, kind) as gate, agent_of(arguments, gate.address) as agent:
            thread = await agent.thread()
            turn = await thread.turn("go")
            text = ""
            following = 300
            async for part in turn.text():
                text += part
                if len(text) > following:
                    following += 600
                    gate.cut()
            result = await turn.result()
            assert text == LONG and result.text == LONG
            assert [item["type"] for item in result.items] == ["userMessage", "agentMessage"]
            assert gate.connections >= 4
            # A thread that nobody followed is subscribed to when its next turn starts.
            lost = asyncio.ensure_future(agent.request("thread/list"))
            await asyncio.sleep(0)
            gate.cut()
            await asyncio.gather(lost, return_exceptions=True)
            assert (await thread.run("more")).text == "Next"

    run(work)



def test_threads_that_a_failed_attempt_resumed_are_resumed_again(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = scripted([message(LONG, chunk_chars=8, chunk_delay_ms=5)])
    resumed: list[str] = []

    async def work() -> None:
        async with gated(arguments, "unix") as gate, agent_of(arguments, gate.address) as agent:
            plain = Connection.request

            async def request(self: Connection, method: str, params: Any, *more: Any) -> Any:
                if method == "thread/resume":
                    resumed.append(params["threadId"])
                    if len(resumed) == 2:
                        gate.cut()
                return await plain(self, method, params, *more)

            monkeypatch.setattr(Connection, "request", request)
            turns = [await (await agent.thread()).turn("go") for _ in range(2)]
            for turn in turns:
                await begun(turn)
            gate.cut()
            results = await asyncio.gather(*(turn.result() for turn in turns))
            assert [result.text for result in results] == [LONG, LONG]
            assert sorted(resumed[:2]) == sorted(resumed[2:4]), "each is resumed in each attempt"

    run(work)


@pytest.mark.parametrize("kind", KINDS)
def test_an_approval_that_is_open_during_a_loss_is_asked_once(scripted: Scripted, kind: str) -> None:
    arguments = scripted([call("exec_command", **ESCALATED), message("Done")])
    asked: list[Approval] = []

    async def work() -> None:
        async with gated(arguments, kind) as gate:
            came_back = asyncio.Event()

            async def approve(approval: Approval) -> bool:
                asked.append(approval)
                gate.cut()
                await came_back.wait()
                return True

            async with agent_of(arguments, gate.address, approve=approve) as agent:
                thread = await agent.thread()
                turn = await thread.turn("go", approvalPolicy="onRequest")
                while not asked:
                    await asyncio.sleep(0.01)
                # A request is answered over the next connection only.
                while gate.connections < 2:
                    await asyncio.gather(agent.request("thread/loaded/list"), return_exceptions=True)
                await agent.request("thread/loaded/list")
                came_back.set()
                assert (await turn.result()).text == "Done"

    run(work)
    assert len(asked) == 1
    assert (arguments["cwd"] / "made").exists()


def test_a_server_that_was_killed_and_started_again_ends_its_turns(scripted: Scripted) -> None:
    arguments = scripted([IDLE, message("Next")])
    folder = arguments["cwd"].parent

    async def work() -> None:
        address = f"unix://{folder / 's.sock'}"
        async with serving(folder, arguments["env"]) as server:
            agent = agent_of(arguments, address)
            await agent.start()
            thread = await agent.thread()
            turn = await thread.turn("go")
            await begun(turn)
            server.send_signal(signal.SIGKILL)
            await server.wait()
        async with serving(folder, arguments["env"]):
            with pytest.raises(TurnInterrupted):
                await turn.result()
            assert (await thread.read())["thread"]["turns"][0]["status"] == "interrupted"
            await agent.close()

    run(work)


def test_a_turn_that_was_rolled_back_during_a_loss_ends(scripted: Scripted) -> None:
    arguments = scripted([IDLE])
    folder = arguments["cwd"].parent

    async def work() -> None:
        async with gated(arguments, "unix") as gate, agent_of(arguments, gate.address) as agent:
            async with agent_of(arguments, f"unix://{folder / 's.sock'}") as other:
                thread = await agent.thread()
                turn = await thread.turn("go")
                await begun(turn)
                await other.resume(thread.id)
                gate.refuses = True
                gate.cut()
                await other.request("turn/interrupt", {"threadId": thread.id, "turnId": turn.id})
                await other.request("thread/rollback", {"threadId": thread.id, "numTurns": 1})
                gate.refuses = False
                with pytest.raises(ConnectionLost, match="the turn is no longer part of its thread"):
                    await turn.result()

    run(work)


@pytest.mark.parametrize("timeout", [0, 0.3])
def test_a_server_that_does_not_come_back_is_given_up(scripted: Scripted, timeout: float) -> None:
    arguments = scripted([IDLE])

    async def work() -> None:
        async with gated(arguments, "ws") as gate:
            async with agent_of(arguments, gate.address, reconnect_timeout=timeout) as agent:
                turn = await (await agent.thread()).turn("go")
                await begun(turn)
                gate.refuses = True
                gate.cut()
                with pytest.raises(ConnectionLost, match="it was not made again" if timeout else "closed the connection|broke"):
                    await turn.result()
                with pytest.raises(ConnectionLost):
                    await agent.request("thread/list")

    run(work)


def test_closing_ends_an_attempt_to_come_back(scripted: Scripted) -> None:
    arguments = scripted([IDLE])

    async def work() -> None:
        async with gated(arguments, "ws") as gate:
            agent = agent_of(arguments, gate.address)
            await agent.start()
            turn = await (await agent.thread()).turn("go")
            await begun(turn)
            gate.refuses = True
            before = gate.connections
            gate.cut()
            while gate.connections == before:
                await asyncio.sleep(0.01)
            waiting = asyncio.ensure_future(agent.request("thread/list"))
            await asyncio.sleep(0)
            await agent.close()
            for wait in (waiting, turn.result()):
                with pytest.raises(ConnectionLost, match="the connection was closed"):
                    await wait

    run(work)


@pytest.mark.parametrize("version", ["0.0.9", "1.0.0"])
def test_another_version_that_comes_back_is_refused(version: str) -> None:
    async def work() -> None:
        async with FakeSocket("x/0.1.0 (linux)", f"x/{version} (linux)") as server:
            async with AsyncAgent(address=server.address) as agent:
                turn = await (await agent.thread()).turn("go")
                server.cut()
                with pytest.raises(VersionMismatch, match=f"version {version}, this package works with 0.1 and later"):
                    await turn.result()
                with pytest.raises(VersionMismatch):
                    await agent.request("thread/list")

    run(work)


@pytest.mark.parametrize("kind", KINDS)
def test_a_turn_waits_for_a_dropped_one_that_ended_during_a_loss(scripted: Scripted, kind: str) -> None:
    async def work() -> None:
        arguments = scripted([IDLE, message("Next")])
        async with gated(arguments, kind) as gate, agent_of(arguments, gate.address) as agent:
            direct = f"unix://{Path(arguments['cwd']).parent / 's.sock'}"
            thread = await agent.thread()
            turn = await thread.turn("go")
            async for text in turn.text():
                if text:
                    break
            turn_id = turn.id
            # Nobody reads it any more.
            del turn
            waiting = asyncio.create_task(thread.run("next"))
            await asyncio.sleep(0)
            gate.refuses = True
            gate.cut()
            async with agent_of(arguments, direct) as other:
                await other.resume(thread.id)
                await other.request("turn/interrupt", {"threadId": thread.id, "turnId": turn_id})
            assert not waiting.done()
            gate.refuses = False
            assert (await waiting).text == "Next"

    run(work)
