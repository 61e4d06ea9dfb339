"""The client for `asyncio`; :mod:`agentd_embed._synchronous` is the same for programs without it."""

from __future__ import annotations

import asyncio
import json
import os
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Union, cast

from . import _schema
from ._answers import Answerer, Approval, Callbacks
from ._connection import Connection, check_token, find_program
from ._order import CompactionEnd, Event, TurnEnd
from ._requests import AsyncRequests
from ._session import Session
from ._toml import setting
from .errors import AgentdError, ConnectionLost, InvalidOutput, TurnFailed, TurnInterrupted, TurnTimeout
from .tools import Tool
from .types import (
    InitializeResponse,
    ThreadItem,
    ThreadTokenUsage,
    ToolRequestUserInputParams,
    Turn,
    UserInput,
)

T = TypeVar("T")

#: Seconds that a server may take to confirm an interruption; the caller gets its error after them anyway.
_INTERRUPTION = 5.0

#: What a message consists of: a text, or the parts of the protocol.
Input = Union[str, Sequence[UserInput]]


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


class EventQueue(asyncio.Queue["Event | AgentdError"]):
    """The events of one thread, from the start of a turn on."""

    #: The turn that is read from it, once it has started.
    turn_id: str | None = None


#: What takes the events of a thread.
Reader = Union[EventQueue, TurnEnd, CompactionEnd]


class AsyncAgent:
    """A server and the connection to it.

    Without an address it starts a server of its own, which ends with it; with one, it needs the package
    `websockets`, and a `token` where the server wants one. `offline` uses the model that
    needs no key and no network, for tests. A server that does not complete the handshake within
    `start_timeout` seconds is given up. A lost connection to an address is made again for up to
    `reconnect_timeout` seconds. Use it with `async with`.
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
        client_name: str = "agentd-embed-python",
        start_timeout: float = 60.0,
        reconnect_timeout: float = 60.0,
    ) -> None:
        if address is not None and not address.startswith(("unix:///", "ws://", "wss://")):
            raise ValueError(f"{address!r} is no address: unix:///PATH, ws://HOST:PORT or wss://HOST:PORT")
        if token is not None:
            check_token(token)
        self._address = address
        self._token = token
        self._program = program
        self._cwd = os.fspath(cwd) if cwd is not None else None
        self._env = dict(env) if env is not None else None
        self._settings = [setting(key, value) for key, value in (config or {}).items()]
        self._model = model or ("demo" if offline else None)
        self._provider = "offline" if offline else None
        self._is_started = False
        self._answerer = Answerer(Callbacks(approve, ask, elicit, {it.name: it for it in tools}))
        self._session = Session(
            self._open_connection,
            self,
            is_lasting=address is not None,
            client_name=client_name,
            start_timeout=start_timeout,
            reconnect_timeout=reconnect_timeout,
        )
        # Each belongs to a turn, and goes with it: a turn that its owner dropped collects no events.
        self._queues: dict[str, weakref.WeakSet[EventQueue]] = {}
        # What runs, whoever reads it.
        self._running: dict[str, TurnEnd | CompactionEnd] = {}
        # Held by what runs in a thread. All objects for the same thread share one.
        self._orders: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    @property
    def server(self) -> InitializeResponse | None:
        """What the server said about itself."""
        return self._session.server

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
        await self._session.start()

    async def _open_connection(self, connection: Connection) -> None:
        if self._address is not None:
            await connection.connect(self._address, self._token)
            return
        command = [find_program(self._program), "app-server"]
        for each in self._settings:
            command += ["-c", each]
        await connection.spawn(command, self._cwd, self._env)

    async def close(self) -> None:
        """Ends the connection, and a server of its own."""
        await self._answerer.close()
        await self._session.close()

    @property
    def typed(self) -> AsyncRequests:
        """:meth:`request` with the types of each method."""
        return cast(AsyncRequests, self)

    async def request(self, method: str, params: Any = None) -> Any:
        """Sends any request of the protocol and awaits its result."""
        return await self._session.request(method, {} if params is None else params)

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
        if has_tools and self._answerer.tools:
            defaults["dynamicTools"] = [it.spec() for it in self._answerer.tools.values()]
        given = {name: value for name, value in {**defaults, **params}.items() if value is not None}
        return AsyncThread(self, await self._session.open(method, given))

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Of the session: hands a notification to the turns of its thread."""
        if method == "serverRequest/resolved":
            self._answerer.resolved(params.get("requestId"))
        thread = params.get("threadId")
        if isinstance(thread, str):
            for queue in self._queues_of(thread):
                queue.put_nowait(Event(method, params))

    def asked(self, connection: Connection, number: Any, method: str, params: dict[str, Any]) -> None:
        """Of the session: answers the server."""
        self._answerer.asked(connection, number, method, params)

    def lost(self, error: AgentdError) -> None:
        """Of the session: ends every turn."""
        for thread in {*self._queues, *self._running}:
            self.gone(thread, error)

    def awaited(self) -> list[str]:
        """Of the session: the threads with a turn that somebody may read, or whose end is awaited."""
        return [thread for thread in {*self._queues, *self._running} if self._queues_of(thread)]

    def gone(self, thread: str, error: AgentdError) -> None:
        """Of the session: ends the turns of a thread."""
        for queue in self._queues_of(thread):
            queue.put_nowait(error)

    def replaced(self, thread: str, record: dict[str, Any]) -> None:
        """Of the session: tells the turns of a thread how they stand, when the events in between are gone."""
        missing = [queue for queue in self._queues_of(thread) if not _replace(queue, thread, record)]
        if missing:
            # The snapshot may hold the newest turns only.
            self._session.begin(self._replace_from_whole(thread, missing))

    async def _replace_from_whole(self, thread: str, missing: list[Reader]) -> None:
        def taken(result: Any) -> None:
            whole = result.get("thread") if isinstance(result, dict) else None
            for queue in missing:
                if not isinstance(whole, dict) or not _replace(queue, thread, whole):
                    queue.put_nowait(ConnectionLost("the turn is no longer part of its thread"))

        try:
            await self._session.request("thread/read", {"threadId": thread, "includeTurns": True}, taken)
        except AgentdError as error:
            for queue in missing:
                queue.put_nowait(ConnectionLost(f"the turn could not be read on a new connection: {error}"))

    def _queues_of(self, thread: str) -> list[Reader]:
        running = self._running.get(thread)
        return [*self._queues.get(thread, ()), *([] if running is None else [running])]

    def _order_of(self, thread: str) -> asyncio.Lock:
        order = self._orders.get(thread)
        if order is None:
            order = self._orders[thread] = asyncio.Lock()
        return order

    def _subscribe(self, thread: str) -> EventQueue:
        queue = EventQueue()
        self._queues.setdefault(thread, weakref.WeakSet()).add(queue)
        return queue

    def _unsubscribe(self, thread: str, queue: EventQueue) -> None:
        queues = self._queues.get(thread)
        if queues is None:
            return
        queues.discard(queue)
        if not queues:
            del self._queues[thread]


class AsyncThread:
    """A conversation with the agent."""

    def __init__(self, agent: AsyncAgent, thread_id: str) -> None:
        self.agent = agent
        self.id = thread_id
        self._order = agent._order_of(thread_id)

    async def turn(self, message: Input, *, output: Any = str, **params: Any) -> AsyncTurn:
        """Starts a turn. `output` is what the answer shall be: a dataclass, a pydantic model, or a schema.

        It begins once the turn or compaction that this agent started before it in the thread has ended, also when
        nobody reads that one; :meth:`AsyncTurn.steer` adds to a turn that runs. A function of the agent that the
        running turn waits for, such as a tool, must not wait for a turn of the same thread. A turn that another
        client runs in the thread is not waited for: the new turn joins it, and has its events from then on.
        """
        if output is not str:
            params.setdefault("outputSchema", _schema_of(output))
        params = {"threadId": self.id, "input": _parts(message), **params}
        await self._order.acquire()
        queue = self.agent._subscribe(self.id)
        end, started = TurnEnd(), asyncio.get_running_loop().create_future()
        # Beside this, which may be cancelled: until its end the turn is in the way of others.
        self._occupy(end, started, self._run_turn(params, weakref.ref(queue), end, started))
        try:
            await started
        except BaseException:
            self.agent._unsubscribe(self.id, queue)
            if end.turn_id is not None:
                self._abandon(end.turn_id)
            raise
        assert end.turn_id is not None
        return AsyncTurn(self, end.turn_id, queue, output)

    def _occupy(self, end: TurnEnd | CompactionEnd, done: asyncio.Future[None], work: Coroutine[Any, Any, None]) -> None:
        """Does work that has the thread for itself, until it is over or the agent is closed."""
        self.agent._running[self.id] = end

        def over(task: asyncio.Task[None]) -> None:
            self.agent._running.pop(self.id, None)
            self._order.release()
            error = ConnectionLost("the connection was closed") if task.cancelled() else task.exception()
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self.agent._session.begin(work).add_done_callback(over)

    async def _run_turn(
        self,
        params: dict[str, Any],
        # The turn's own is the only one that holds it.
        queue: weakref.ref[EventQueue],
        end: TurnEnd,
        started: asyncio.Future[None],
    ) -> None:
        session = self.agent._session

        def taken(result: Any) -> None:
            end.turn_id = session.id_of("turn", "turn/start", result)
            reader = queue()
            if reader is not None:
                reader.turn_id = end.turn_id
            # Nobody waits for it any more.
            if started.cancelled():
                self._abandon(end.turn_id)

        await session.subscribe(self.id)
        await session.request("turn/start", params, taken)
        if not started.done():
            started.set_result(None)
        await end.wait()

    def _abandon(self, turn_id: str) -> None:
        async def interrupt() -> None:
            try:
                await self.agent.request("turn/interrupt", {"threadId": self.id, "turnId": turn_id})
            except AgentdError:
                # It has ended meanwhile, or its server has.
                pass

        self.agent._session.begin(interrupt())

    async def run(
        self, message: Input, *, output: Any = str, timeout: float | None = None, **params: Any
    ) -> Result[Any]:
        """Runs a turn to its end. It is interrupted after `timeout` seconds, or when this is cancelled."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            turn = await asyncio.wait_for(self.turn(message, output=output, **params), timeout)
        except asyncio.TimeoutError as error:
            raise TurnTimeout(
                f"the server did not start the turn within {timeout} seconds, or an earlier one of the thread still runs"
            ) from error
        left = None if timeout is None else max(0.0, timeout - (loop.time() - began))
        return await turn._result(left, timeout)

    async def archive(self) -> None:
        """Moves the thread out of the list."""
        await self.agent.request("thread/archive", {"threadId": self.id})

    async def rename(self, name: str) -> None:
        """Sets the thread's title."""
        await self.agent.request("thread/name/set", {"threadId": self.id, "name": name})

    async def compact(self) -> None:
        """Summarizes the history, so that it takes less of the model's context, in a turn of its own.

        Waits for the end of that turn. Like a turn, it begins once the one before it has ended.
        """
        await self._order.acquire()
        end, done = CompactionEnd(), asyncio.get_running_loop().create_future()
        self._occupy(end, done, self._run_compaction(end))
        await done

    async def _run_compaction(self, end: CompactionEnd) -> None:
        session = self.agent._session
        await session.subscribe(self.id)
        await session.request("thread/compact/start", {"threadId": self.id})
        await end.wait(session.broken)

    async def read(self) -> Any:
        """The stored thread with its turns: the result of `thread/read`."""
        return await self.agent.request("thread/read", {"threadId": self.id, "includeTurns": True})


class AsyncTurn:
    """A turn in progress: an iterator over its events. Iterate or await its result, not both at once.

    A task that is cancelled while it waits for either interrupts the turn. Leaving an iteration early does not.
    """

    def __init__(
        self, thread: AsyncThread, turn_id: str, queue: EventQueue, output: Any
    ) -> None:
        self.thread = thread
        self.id = turn_id
        self._queue = queue
        self._output = output
        self._items: dict[str, ThreadItem] = {}
        self._usage: ThreadTokenUsage | None = None
        self._has_begun = False
        #: Turns of other clients that it joined: their items are its own from then on.
        self._joined: set[Any] = set()
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
            if isinstance(event, AgentdError):
                self._stop()
                self._failure = ConnectionLost(str(event)) if isinstance(event, ConnectionLost) else event
                raise self._failure
            if self._takes(event):
                yield event

    async def text(self) -> AsyncIterator[str]:
        """The agent's message as it is written."""
        written: dict[str, int] = {}
        async for event in self:
            for item, text in _texts_of(event, written):
                written[item] = written.get(item, 0) + len(text)
                yield text

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
        if not self._concerns(event):
            return False
        if event.method == "item/completed":
            item = self._member(event, "item", "type")
            self._items[str(item.get("id"))] = cast(ThreadItem, item)
        elif event.method == "thread/tokenUsage/updated":
            self._usage = cast(ThreadTokenUsage, self._member(event, "tokenUsage", "total"))
        elif event.method == "turn/completed":
            self._ended = cast(Turn, self._member(event, "turn", "status"))
            self._stop()
        elif event.method == "turn/replaced":
            replaced = self._member(event, "turn", "status")
            self._items |= {str(item.get("id")): item for item in replaced["items"]}
            if replaced["status"] != "inProgress":
                self._ended = cast(Turn, replaced)
                self._stop()
        return True

    def _concerns(self, event: Event) -> bool:
        """Whether an event is one of this turn, or of a turn that it joined, after it did."""
        turn_id = event.turn_id
        if turn_id == self.id:
            self._has_begun |= event.method in ("turn/started", "turn/replaced")
            return True
        if not isinstance(turn_id, str) or event.method in ("turn/started", "turn/completed", "turn/replaced"):
            return False
        # A thread runs one turn: what begins now in another one is the answer to both.
        if self._has_begun and event.method in ("item/started", "item/agentMessage/delta"):
            self._joined.add(turn_id)
        return turn_id in self._joined

    def _member(self, event: Event, name: str, needed: str) -> dict[str, Any]:
        value = event.params.get(name)
        if not isinstance(value, dict) or needed not in value:
            self._stop()
            self._failure = self.thread.agent._session.broken(
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
        items = list(self._items.values())
        texts = [item["text"] for item in items if item["type"] == "agentMessage"]
        text = texts[-1] if texts else ""
        return Result(text, _parsed(self._output, text), items, self._usage, self._ended)


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


def _replace(queue: Reader, thread: str, record: dict[str, Any]) -> bool:
    """Says how the turn of a queue stands; false when the thread does not have it."""
    if queue.turn_id is None:
        # Its turn has not started: the request failed with the connection.
        if isinstance(queue, CompactionEnd):
            queue.lose_sight()
        return True
    turns = record.get("turns")
    for turn in turns if isinstance(turns, list) else []:
        if isinstance(turn, dict) and turn.get("id") == queue.turn_id and isinstance(turn.get("items"), list):
            queue.put_nowait(Event("turn/replaced", {"threadId": thread, "turn": turn}))
            return True
    return False


def _texts_of(event: Event, written: Mapping[str, int]) -> list[tuple[str, str]]:
    """What an event adds to the agent's messages, by the id of the item."""
    params = event.params
    if event.method == "item/agentMessage/delta":
        return [(str(params.get("itemId")), event.text)] if event.text else []
    # A replay holds a message that was completed meanwhile without its deltas.
    items = {"item/completed": [params.get("item")], "turn/replaced": params.get("turn", {}).get("items")}
    found = [
        (str(item.get("id")), str(item.get("text", ""))[written.get(str(item.get("id")), 0) :])
        for item in items.get(event.method) or []
        if isinstance(item, dict) and item.get("type") == "agentMessage"
    ]
    return [(item, text) for item, text in found if text]


__all__ = ["Approval", "AsyncAgent", "AsyncThread", "AsyncTurn", "Event", "Result"]
