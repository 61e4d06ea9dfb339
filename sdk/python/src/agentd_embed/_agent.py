"""The agent for `asyncio`: a server, the connection to it, and its threads. :mod:`agentd_embed._synchronous` is the same
for programs without it."""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from ._answers import Answerer, Callbacks
from ._connection import Connection
from ._feed import Feed
from ._input import Input, parts_of
from ._options import capabilities_of, check_address, check_callbacks, check_tools, check_types, reports_costs
from ._output import schema_of
from ._params import ForkOptions, ListOptions, ResumeOptions, SearchOptions, ThreadOptions, checked, of_type
from ._program import check_token, find_program
from ._recording import Recorder, Redactor, Replay
from ._result import Result
from ._router import Handler, Router
from ._session import Session
from ._state import ThreadState
from ._subagents import SubAgents
from ._thread import AsyncThread
from ._toml import setting
from ._usage import Amount, amount
from .tools import Tool

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._requests import AsyncRequests
    from .types import InitializeCapabilities, InitializeResponse
    from .types import Thread as ThreadInfo
    from .types import ThreadSearchResult as Found

T = TypeVar("T")

#: Threads that one request of :meth:`AsyncAgent.list` or :meth:`AsyncAgent.search` asks for.
_PAGE = 100


class AsyncAgent:
    """A server and the connection to it.

    Without an address it starts a server of its own, which ends with it; with one, it needs the package
    `websockets`, and a `token` where the server wants one. `offline` uses the model that
    needs no key and no network, for tests. A server that does not complete the handshake within
    `start_timeout` seconds is given up. A lost connection to an address is made again for up to
    `reconnect_timeout` seconds. Use it with `async with`.

    `approve`, `ask`, `elicit` and the `tools` may be coroutine functions; others run in a thread each. What one raises
    is logged (`agentd_embed`), and given to `on_error` with its context; the model reads it only from a
    :class:`ToolError`, or with `send_tool_errors`. A request that the server refuses because it has too much to do is
    sent again up to `overload_retries` times. `capabilities` are those of `initialize`, in addition to the SDK's.

    `record` names a file for all messages of the session, without the token and `env`; `replay` names such a file, which
    takes the place of the server. The first message that differs from it raises :class:`ReplayMismatch`.
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
        approve: Callable[..., Any] | None = None,
        ask: Callable[..., Any] | None = None,
        elicit: Callable[..., Any] | None = None,
        tools: Sequence[Tool] = (),
        on_error: Callable[..., Any] | None = None,
        send_tool_errors: bool = False,
        client_name: str = "agentd-embed-python",
        start_timeout: float = 60.0,
        reconnect_timeout: float = 60.0,
        overload_retries: int = 5,
        capabilities: InitializeCapabilities | None = None,
        record: str | os.PathLike[str] | None = None,
        replay: str | os.PathLike[str] | None = None,
    ) -> None:
        check_address(address)
        check_types(
            env=env,
            paths={"program": program, "cwd": cwd, "record": record, "replay": replay},
            flags={"offline": offline, "send_tool_errors": send_tool_errors},
            numbers={"start_timeout": start_timeout, "reconnect_timeout": reconnect_timeout},
            texts={"token": token, "model": model, "client_name": client_name},
        )
        of_type("config", config, Mapping)
        if token is not None:
            check_token(token)
        check_callbacks(approve=approve, ask=ask, elicit=elicit, on_error=on_error)
        check_tools(tools)
        self._address = address
        self._token = token
        self._program = program
        self._cwd = os.fspath(cwd) if cwd is not None else None
        self._env = dict(env) if env is not None else None
        self._settings = [setting(key, value) for key, value in (config or {}).items()]
        self._model = model or ("demo" if offline else None)
        self._provider = "offline" if offline else None
        self._is_started = False
        self._states: weakref.WeakValueDictionary[str, ThreadState] = weakref.WeakValueDictionary()
        asked_for = capabilities_of(capabilities)
        self._reports_costs = reports_costs(asked_for)
        redactor = Redactor(token, self._env)
        self._replay = None if replay is None else Replay(replay, redactor)
        is_lasting = address is not None if self._replay is None else self._replay.is_lasting
        self._recorder = None if record is None else Recorder(record, redactor, is_lasting=is_lasting)
        self._sub_agents = SubAgents(self._states)
        self._answerer = Answerer(
            Callbacks(approve, ask, elicit, {it.name: it for it in tools}, on_error, send_tool_errors),
            self._sub_agents.user_of,
        )
        self._router = Router(self._states, self._sub_agents, self._answerer)
        self._session = self._router.session = Session(
            self._open_connection,
            self._router,
            is_lasting=is_lasting,
            client_name=client_name,
            start_timeout=start_timeout,
            reconnect_timeout=reconnect_timeout,
            capabilities=asked_for,
            overload_retries=of_type("overload_retries", overload_retries, int),
        )

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

    async def close(self) -> None:
        """Ends the connection, and a server of its own."""
        await self._answerer.close()
        await self._session.close()
        if self._recorder is not None:
            self._recorder.close()

    @property
    def typed(self) -> AsyncRequests:
        """:meth:`request` with the types of each method."""
        return cast("AsyncRequests", self)

    async def request(self, method: str, params: Any = None) -> Any:
        """Sends any request of the protocol and awaits its result."""
        of_type("method", method, str)
        return await self._session.request(method, {} if params is None else params)

    def on_notification(self, handler: Handler) -> Callable[[], None]:
        """Calls a function with each notification of the server, also those of no thread, as it is received.

        The function runs in the loop: it must return at once. Returns a function that removes it.
        """
        if not callable(handler) or inspect.iscoroutinefunction(handler):
            raise TypeError("`handler` is not a function that returns at once, or is a coroutine function")
        return self._router.add_handler(handler)

    async def thread(self, *, context: Any = None, **params: Unpack[ThreadOptions]) -> AsyncThread:
        """Starts a thread. The parameters are those of `thread/start`, by their names in the protocol.

        `context` is the application's own value, which callbacks and tools of this thread get.
        """
        given = checked(ThreadOptions, cast("dict[str, Any]", params), "thread")
        if self._answerer.tools:
            given.setdefault("dynamicTools", [it.spec() for it in self._answerer.tools.values()])
        return await self._open("thread/start", given, context)

    async def resume(self, thread_id: str, *, context: Any = None, **params: Unpack[ResumeOptions]) -> AsyncThread:
        """Loads a stored thread."""
        given = checked(ResumeOptions, cast("dict[str, Any]", params), "resume")
        return await self._open("thread/resume", {"threadId": _id(thread_id), **given}, context)

    async def fork(self, thread_id: str, *, context: Any = None, **params: Unpack[ForkOptions]) -> AsyncThread:
        """Copies a stored thread."""
        given = checked(ForkOptions, cast("dict[str, Any]", params), "fork")
        return await self._open("thread/fork", {"threadId": _id(thread_id), **given}, context)

    async def list(self, *, limit: int | None = None, **filters: Unpack[ListOptions]) -> AsyncIterator[ThreadInfo]:
        """The stored threads, the newest first, read page by page; at most `limit`. The filters are those of
        `thread/list`."""
        given = checked(ListOptions, cast("dict[str, Any]", filters), "list")
        async for record in self._rows("thread/list", given, limit):
            yield record

    async def search(self, text: str, *, limit: int | None = None, **filters: Unpack[SearchOptions]) -> AsyncIterator[Found]:
        """The stored threads in which all words of the text were said in one turn, the newest first; at most `limit`.

        Each has its newest turn that matches, and a snippet of it. The filters are those of `thread/search`.
        """
        of_type("text", text, str)
        given = checked(SearchOptions, cast("dict[str, Any]", filters), "search")
        async for found in self._rows("thread/search", {"searchTerm": text, **given}, limit):
            yield found

    async def _rows(self, method: str, params: dict[str, Any], limit: int | None) -> AsyncIterator[Any]:
        left = of_type("limit", limit, int)
        cursor: str | None = None
        while left is None or left > 0:
            size = _PAGE if left is None else min(left, _PAGE)
            page = await self.request(method, {**params, "limit": size, "cursor": cursor})
            for row in page["data"]:
                yield row
            left = None if left is None else left - len(page["data"])
            cursor = page.get("nextCursor")
            if cursor is None:
                return

    async def archive(self, thread_id: str) -> None:
        """Moves a thread out of the list."""
        await self.request("thread/archive", {"threadId": _id(thread_id)})

    async def unarchive(self, thread_id: str) -> None:
        """Moves a thread back into the list."""
        await self.request("thread/unarchive", {"threadId": _id(thread_id)})

    @overload
    async def run(
        self, message: Input, *, output: None = None, timeout: float | None = ..., context: Any = ...,
        max_cost: Amount | None = ..., **params: Unpack[ThreadOptions],
    ) -> Result[str]: ...

    @overload
    async def run(
        self, message: Input, *, output: type[T], timeout: float | None = ..., context: Any = ...,
        max_cost: Amount | None = ..., **params: Unpack[ThreadOptions],
    ) -> Result[T]: ...

    @overload
    async def run(
        self, message: Input, *, output: Mapping[str, Any], timeout: float | None = ..., context: Any = ...,
        max_cost: Amount | None = ..., **params: Unpack[ThreadOptions],
    ) -> Result[Any]: ...

    async def run(
        self,
        message: Input,
        *,
        output: Any = None,
        timeout: float | None = None,
        context: Any = None,
        max_cost: Amount | None = None,
        **params: Unpack[ThreadOptions],
    ) -> Result[Any]:
        """Runs one turn in a new thread."""
        # Before a thread is made for it.
        parts_of(message)
        schema_of(output)
        of_type("timeout", timeout, float, int)
        if max_cost is not None:
            amount("max_cost", max_cost)
        thread = await self.thread(context=context, **params)
        result: Result[Any] = await thread.run(message, output=output, timeout=timeout, max_cost=max_cost)
        return result

    def _state_of(self, thread_id: str) -> ThreadState:
        """What is known of a thread."""
        state = self._states.get(thread_id)
        if state is None:
            state = self._states[thread_id] = ThreadState(thread_id)
        return state

    def _feed(self, state: ThreadState | None, *, is_of_turn: bool) -> Feed:
        """A reader of events, which has those of a turn from now on."""
        feed = Feed(self._session.pressure, self._session.pace, is_of_turn=is_of_turn)
        if state is not None:
            state.feeds.add(feed)
        return feed

    async def _open(self, method: str, params: dict[str, Any], context: Any) -> AsyncThread:
        defaults: dict[str, Any] = {"model": self._model, "modelProvider": self._provider, "cwd": self._cwd}
        given = {name: value for name, value in {**defaults, **params}.items() if value is not None}
        states: list[ThreadState] = []

        def opened(thread_id: str, result: Any) -> None:
            state = self._state_of(thread_id)
            cursor = result.get("eventCursor")
            state.cursor = cursor if state.cursor is None and isinstance(cursor, str) else state.cursor
            state.context = state.context if context is None else context
            states.append(state)
            self._sub_agents.opened(result["thread"].get("turns"))

        await self._session.open(method, given, opened)
        return AsyncThread(self, states[0])

    async def _open_connection(self, connection: Connection) -> None:
        if self._recorder is not None:
            connection.record(self._recorder.wrap)
        if self._replay is not None:
            connection.attach(self._replay.next())
            return
        if self._address is not None:
            await connection.connect(self._address, self._token)
            return
        command = [find_program(self._program), "app-server"]
        for each in self._settings:
            command += ["-c", each]
        await connection.spawn(command, self._cwd, self._env)


def _id(thread_id: str) -> str:
    if not isinstance(thread_id, str):
        raise TypeError(f"`thread_id` is of the type {type(thread_id).__name__}, not str")
    return thread_id
