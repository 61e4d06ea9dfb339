"""The client for `asyncio`; :mod:`agentd_sdk._synchronous` is the same for programs without it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, Union, cast

from . import _schema
from ._callbacks import called
from ._connection import Connection, Refusal, find_program
from ._requests import AsyncRequests
from .errors import (
    AgentdError,
    ConnectionLost,
    InvalidOutput,
    TurnFailed,
    TurnInterrupted,
    TurnTimeout,
    VersionMismatch,
)
from .tools import Tool
from .types import (
    InitializeResponse,
    McpServerElicitationRequestResponse,
    ThreadItem,
    ThreadTokenUsage,
    ToolRequestUserInputParams,
    Turn,
    UserInput,
)

T = TypeVar("T")

#: The versions of the server that this package works with, as a text and as a check.
WANTED = "0.1 and later 0.x"
#: Seconds that a server may take to confirm an interruption; the caller gets its error after them anyway.
_INTERRUPTION = 5.0
_VERSION = re.compile(r"/(\d+)\.(\d+)\.")

#: What a message consists of: a text, or the parts of the protocol.
Input = Union[str, Sequence[UserInput]]
#: An answer to an approval: one of these words, or an object of the protocol.
Decision = Union[Literal["accept", "acceptForSession", "decline", "cancel"], dict[str, Any]]


@dataclass(frozen=True)
class Approval:
    """What the agent asks to be allowed."""

    kind: Literal["command", "fileChange", "permissions"]
    #: The parameters of the request, in the shape of the protocol.
    params: dict[str, Any]

    @property
    def command(self) -> str | None:
        """The whole command, of the kind `command`."""
        return self.params.get("command")

    @property
    def reason(self) -> str | None:
        """Why, in the words of the server or the model."""
        return self.params.get("reason")


@dataclass(frozen=True)
class Event:
    """A notification about a turn: `method` and `params` are those of the protocol."""

    method: str
    params: dict[str, Any]

    @property
    def text(self) -> str:
        """What the agent's message grows by; empty for every other event."""
        return str(self.params.get("delta", "")) if self.method == "item/agentMessage/delta" else ""


@dataclass(frozen=True)
class Result(Generic[T]):
    """A turn that has ended."""

    #: The agent's last message.
    text: str
    #: The same as it was asked for with `output`; the text without.
    output: T
    items: list[ThreadItem]
    usage: ThreadTokenUsage | None
    turn: Turn


@dataclass
class Callbacks:
    """What answers the server. A function or a coroutine function each."""

    #: Allows what the agent asks for. Without it everything is declined.
    approve: Callable[[Approval], Any] | None = None
    #: Answers questions of the agent: texts by the id of the question.
    ask: Callable[[ToolRequestUserInputParams], Any] | None = None
    #: Answers an MCP server. Without it everything is declined.
    elicit: Callable[[dict[str, Any]], Any] | None = None
    tools: dict[str, Tool] = field(default_factory=dict)


_APPROVALS: dict[str, Literal["command", "fileChange", "permissions"]] = {
    "item/commandExecution/requestApproval": "command",
    "item/fileChange/requestApproval": "fileChange",
    "item/permissions/requestApproval": "permissions",
}


class AsyncAgent:
    """A server and the connection to it.

    Without an address it starts a server of its own, which ends with it; with one, it needs the package
    `websockets`, and a `token` where the server wants one. `offline` uses the model that
    needs no key and no network, for tests. A server that does not complete the handshake within
    `start_timeout` seconds is given up. Use it with `async with`.
    """

    def __init__(
        self,
        *,
        address: str | None = None,
        token: str | None = None,
        program: str | os.PathLike[str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        model: str | None = None,
        offline: bool = False,
        approve: Callable[[Approval], Any] | None = None,
        ask: Callable[[ToolRequestUserInputParams], Any] | None = None,
        elicit: Callable[[dict[str, Any]], Any] | None = None,
        tools: Sequence[Tool] = (),
        client_name: str = "agentd-sdk-python",
        start_timeout: float = 60.0,
    ) -> None:
        if address is not None and not address.startswith(("unix:///", "ws://", "wss://")):
            raise ValueError(f"{address!r} is no address: unix:///PATH, ws://HOST:PORT or wss://HOST:PORT")
        self._address = address
        self._token = token
        self._program = program
        self._cwd = os.fspath(cwd) if cwd is not None else None
        self._env = dict(env) if env is not None else None
        self._config = dict(config or {})
        self._model = model or ("demo" if offline else None)
        self._provider = "offline" if offline else None
        self._client_name = client_name
        self._start_timeout = start_timeout
        self._is_started = False
        self._callbacks = Callbacks(approve, ask, elicit, {it.name: it for it in tools})
        self._connection = Connection(self._notified, self._asked)
        self._connection.on_lost = self._lost
        # Each belongs to a turn, and goes with it: a turn that its owner dropped collects no events.
        self._queues: dict[str, weakref.WeakSet[asyncio.Queue[Event | ConnectionLost]]] = {}
        #: What the server said about itself.
        self.server: InitializeResponse | None = None

    async def __aenter__(self) -> AsyncAgent:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Connects, and completes the handshake. An agent is started once."""
        if self._is_started:
            raise RuntimeError("the agent was started before: make another one")
        self._is_started = True
        if self._address is not None:
            await self._connection.connect(self._address, self._token)
        else:
            command = [find_program(self._program), "app-server"]
            for key, value in self._config.items():
                command += ["-c", f"{key}={json.dumps(value)}"]
            await self._connection.spawn(command, self._cwd, self._env)
        try:
            await asyncio.wait_for(self._shake_hands(), self._start_timeout)
        except asyncio.TimeoutError as error:
            lost = self._connection.broken(f"the handshake took longer than {self._start_timeout} seconds")
            await self._connection.close()
            raise lost from error
        except BaseException:
            await self._connection.close()
            raise

    async def _shake_hands(self) -> None:
        server = await self._connection.request(
            "initialize",
            {
                "clientInfo": {"name": self._client_name, "title": None, "version": "0.1.0"},
                "capabilities": {"experimentalApi": True},
            },
        )
        self.server = cast(InitializeResponse, server)
        _check_version(str(server.get("userAgent", "")) if isinstance(server, dict) else "")
        await self._connection.send({"method": "initialized"})

    async def close(self) -> None:
        """Ends the connection, and a server of its own."""
        await self._connection.close()

    @property
    def typed(self) -> AsyncRequests:
        """:meth:`request` with the types of each method."""
        return cast(AsyncRequests, self)

    async def request(self, method: str, params: Any = None) -> Any:
        """Sends any request of the protocol and awaits its result."""
        return await self._connection.request(method, {} if params is None else params)

    async def thread(self, **params: Any) -> AsyncThread:
        """Starts a thread. The parameters are those of `thread/start`, by their names in the protocol."""
        return await self._open("thread/start", params)

    async def resume(self, thread_id: str, **params: Any) -> AsyncThread:
        """Loads a stored thread."""
        return await self._open("thread/resume", {"threadId": thread_id, **params}, has_tools=False)

    async def fork(self, thread_id: str, **params: Any) -> AsyncThread:
        """Copies a stored thread."""
        return await self._open("thread/fork", {"threadId": thread_id, **params}, has_tools=False)

    async def run(self, message: Input, *, output: Any = str, timeout: float | None = None, **params: Any) -> Result[Any]:
        """Runs one turn in a new thread."""
        thread = await self.thread(**params)
        return await thread.run(message, output=output, timeout=timeout)

    async def _open(self, method: str, params: dict[str, Any], has_tools: bool = True) -> AsyncThread:
        defaults: dict[str, Any] = {"model": self._model, "modelProvider": self._provider, "cwd": self._cwd}
        if has_tools and self._callbacks.tools:
            defaults["dynamicTools"] = [it.spec() for it in self._callbacks.tools.values()]
        given = {name: value for name, value in {**defaults, **params}.items() if value is not None}
        opened = await self._connection.request(method, given)
        return AsyncThread(self, self._id_of("thread", method, opened))

    def _id_of(self, what: str, method: str, result: Any) -> str:
        named = result.get(what) if isinstance(result, dict) else None
        found = named.get("id") if isinstance(named, dict) else None
        if not isinstance(found, str):
            raise self._connection.broken(
                f"the server wrote what is not the protocol: the result of `{method}` has no `{what}` with an id"
            )
        return found

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        thread = params.get("threadId")
        for queue in list(self._queues.get(thread, ())) if isinstance(thread, str) else []:
            queue.put_nowait(Event(method, params))

    def _lost(self, why: ConnectionLost) -> None:
        for queues in self._queues.values():
            for queue in list(queues):
                queue.put_nowait(why)

    def _subscribe(self, thread: str) -> asyncio.Queue[Event | ConnectionLost]:
        queue: asyncio.Queue[Event | ConnectionLost] = asyncio.Queue()
        self._queues.setdefault(thread, weakref.WeakSet()).add(queue)
        return queue

    def _unsubscribe(self, thread: str, queue: asyncio.Queue[Event | ConnectionLost]) -> None:
        queues = self._queues.get(thread)
        if queues is None:
            return
        queues.discard(queue)
        if not queues:
            del self._queues[thread]

    async def _asked(self, method: str, params: dict[str, Any]) -> Any:
        callbacks = self._callbacks
        if kind := _APPROVALS.get(method):
            return await self._approve(Approval(kind, params))
        if method == "item/tool/requestUserInput":
            if callbacks.ask is None:
                raise Refusal(-32601, "this client answers no questions")
            answers = await called(callbacks.ask, params)
            texts = {key: [it] if isinstance(it, str) else list(it) for key, it in answers.items()}
            return {"answers": {key: {"answers": it} for key, it in texts.items()}}
        if method == "mcpServer/elicitation/request":
            declined: McpServerElicitationRequestResponse = {"action": "decline"}
            return await called(callbacks.elicit, params) if callbacks.elicit else declined
        if method == "item/tool/call":
            tool = callbacks.tools.get(str(params.get("tool")))
            if tool is None:
                raise Refusal(-32602, f"this client has no tool `{params.get('tool')}`")
            return await tool.answer(cast(Any, params))
        raise Refusal(-32601, f"this client does not answer `{method}`")

    async def _approve(self, approval: Approval) -> Any:
        approve = self._callbacks.approve
        decision: Any = await called(approve, approval) if approve else "decline"
        if decision is True or decision is False:
            decision = "accept" if decision else "decline"
        if approval.kind != "permissions":
            return {"decision": decision}
        if isinstance(decision, dict):
            return decision
        granted = approval.params.get("permissions", {}) if decision in ("accept", "acceptForSession") else {}
        scope = "session" if decision == "acceptForSession" else "turn"
        return {"permissions": granted, "scope": scope}


class AsyncThread:
    """A conversation with the agent."""

    def __init__(self, agent: AsyncAgent, thread_id: str) -> None:
        self.agent = agent
        self.id = thread_id

    async def turn(self, message: Input, *, output: Any = str, **params: Any) -> AsyncTurn:
        """Starts a turn. `output` is what the answer shall be: a dataclass, a pydantic model, or a schema."""
        if output is not str:
            params.setdefault("outputSchema", _schema_of(output))
        queue = self.agent._subscribe(self.id)
        try:
            begun = await self.agent.request(
                "turn/start", {"threadId": self.id, "input": _parts(message), **params}
            )
        except BaseException:
            self.agent._unsubscribe(self.id, queue)
            raise
        return AsyncTurn(self, self.agent._id_of("turn", "turn/start", begun), queue, output)

    async def run(
        self, message: Input, *, output: Any = str, timeout: float | None = None, **params: Any
    ) -> Result[Any]:
        """Runs a turn to its end. It is interrupted after `timeout` seconds, or when this is cancelled."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            turn = await asyncio.wait_for(self.turn(message, output=output, **params), timeout)
        except asyncio.TimeoutError as error:
            raise TurnTimeout(f"the server did not start the turn within {timeout} seconds") from error
        left = None if timeout is None else max(0.0, timeout - (loop.time() - began))
        return await turn._result(left, timeout)

    async def archive(self) -> None:
        """Moves the thread out of the list."""
        await self.agent.request("thread/archive", {"threadId": self.id})

    async def rename(self, name: str) -> None:
        """Sets the thread's title."""
        await self.agent.request("thread/name/set", {"threadId": self.id, "name": name})

    async def read(self) -> Any:
        """The stored thread with its turns: the result of `thread/read`."""
        return await self.agent.request("thread/read", {"threadId": self.id, "includeTurns": True})


class AsyncTurn:
    """A turn in progress: an iterator over its events. Iterate or await its result, not both at once.

    A task that is cancelled while it waits for either interrupts the turn. Leaving an iteration early does not.
    """

    def __init__(
        self, thread: AsyncThread, turn_id: str, queue: asyncio.Queue[Event | ConnectionLost], output: Any
    ) -> None:
        self.thread = thread
        self.id = turn_id
        self._queue = queue
        self._output = output
        self._items: list[ThreadItem] = []
        self._usage: ThreadTokenUsage | None = None
        self._ended: Turn | None = None
        #: What every later call raises: no event arrives any more.
        self._failure: AgentdError | None = None

    async def __aiter__(self) -> AsyncIterator[Event]:
        while self._ended is None:
            if self._failure is not None:
                raise self._failure
            try:
                event = await self._queue.get()
            except asyncio.CancelledError:
                await asyncio.shield(self._give_up())
                raise
            if isinstance(event, ConnectionLost):
                self._stop()
                self._failure = ConnectionLost(str(event))
                raise self._failure
            if self._takes(event):
                yield event

    async def text(self) -> AsyncIterator[str]:
        """The agent's message as it is written."""
        async for event in self:
            if event.text:
                yield event.text

    async def result(self, timeout: float | None = None) -> Result[Any]:
        """Awaits the end. Interrupts the turn after `timeout` seconds, and when this is cancelled."""
        return await self._result(timeout, timeout)

    async def _result(self, left: float | None, timeout: float | None) -> Result[Any]:
        try:
            await asyncio.wait_for(self._drain(), left)
        except asyncio.TimeoutError as error:
            # With no time left the iteration is cancelled before it begins.
            failure = self._failure or await self._give_up()
            raise TurnTimeout(f"the turn took longer than {timeout} seconds; {failure}") from error
        return self._finish()

    async def steer(self, message: Input) -> None:
        """Adds a message to the turn."""
        await self.thread.agent.request(
            "turn/steer",
            {"threadId": self.thread.id, "expectedTurnId": self.id, "input": _parts(message)},
        )

    async def interrupt(self) -> None:
        """Ends the turn."""
        await self.thread.agent.request("turn/interrupt", {"threadId": self.thread.id, "turnId": self.id})

    async def _drain(self) -> None:
        async for _ in self:
            pass

    async def _give_up(self) -> AgentdError:
        """Interrupts the turn, and returns what later calls raise. Takes a bounded time."""
        self._stop()
        self._failure = TurnInterrupted("the turn was interrupted")
        try:
            await asyncio.wait_for(self.interrupt(), _INTERRUPTION)
        except (ConnectionLost, asyncio.TimeoutError) as error:
            why = str(error) or f"no answer within {_INTERRUPTION} seconds"
            self._failure = TurnInterrupted(f"the server did not confirm that it interrupted the turn: {why}")
        except AgentdError:
            # The turn has ended meanwhile.
            pass
        return self._failure

    def _stop(self) -> None:
        self.thread.agent._unsubscribe(self.thread.id, self._queue)

    def _takes(self, event: Event) -> bool:
        params = event.params
        turn = params.get("turn")
        turn_id = turn.get("id") if isinstance(turn, dict) else params.get("turnId")
        if turn_id != self.id:
            return False
        if event.method == "item/completed":
            self._items.append(cast(ThreadItem, self._member(event, "item", "type")))
        elif event.method == "thread/tokenUsage/updated":
            self._usage = cast(ThreadTokenUsage, self._member(event, "tokenUsage", "total"))
        elif event.method == "turn/completed":
            self._ended = cast(Turn, self._member(event, "turn", "status"))
            self._stop()
        return True

    def _member(self, event: Event, name: str, needed: str) -> dict[str, Any]:
        value = event.params.get(name)
        if not isinstance(value, dict) or needed not in value:
            self._stop()
            self._failure = self.thread.agent._connection.broken(
                f"the server wrote what is not the protocol: `{event.method}` has no `{name}` with a `{needed}`"
            )
            raise self._failure
        return value

    def _finish(self) -> Result[Any]:
        assert self._ended is not None
        if self._ended["status"] == "failed":
            raise TurnFailed(self._ended.get("error"))
        if self._ended["status"] == "interrupted":
            raise TurnInterrupted("the turn was interrupted")
        texts = [item["text"] for item in self._items if item["type"] == "agentMessage"]
        text = texts[-1] if texts else ""
        return Result(text, _parsed(self._output, text), self._items, self._usage, self._ended)


def _parts(message: Input) -> list[UserInput]:
    if isinstance(message, str):
        return [{"type": "text", "text": message}]
    return list(message)


def _schema_of(output: Any) -> dict[str, Any]:
    return output if isinstance(output, dict) else _schema.of_type(output)


def _parsed(output: Any, text: str) -> Any:
    if output is str:
        return text
    try:
        value = json.loads(text)
        return value if isinstance(output, dict) else _schema.value_of(output, value)
    except ValueError as error:
        raise InvalidOutput(str(error), text) from error


def _check_version(user_agent: str) -> None:
    found = _VERSION.search(user_agent)
    if found is None or found.group(1) != "0" or int(found.group(2)) < 1:
        version = user_agent.split(" ")[0].rpartition("/")[2]
        raise VersionMismatch(version, WANTED)


__all__ = ["Approval", "AsyncAgent", "AsyncThread", "AsyncTurn", "Event", "Result"]
