"""The agent for programs without `asyncio`: the same, with a loop in a thread of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from ._agent import AsyncAgent
from ._input import Input
from ._loop import BackgroundLoop
from ._params import ForkOptions, ListOptions, ResumeOptions, SearchOptions, ThreadOptions
from ._result import Result
from ._synchronous_thread import Thread, each_of
from ._usage import Amount

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._agent_options import AgentOptions
    from ._requests import Requests
    from ._router import Handler
    from .types import InitializeResponse
    from .types import Thread as ThreadInfo
    from .types import ThreadSearchResult as Found

T = TypeVar("T")


class Agent:
    """A server and the connection to it: see :class:`AsyncAgent` for the arguments. Use it with `with`."""

    def __init__(self, **arguments: Unpack[AgentOptions]) -> None:
        self._agent = AsyncAgent(**arguments)
        self._loop: BackgroundLoop | None = None

    def __enter__(self) -> Agent:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Connects, and completes the handshake."""
        loop = BackgroundLoop()
        try:
            loop.run(self._agent.start())
        except BaseException:
            loop.close()
            raise
        self._loop = loop

    def close(self) -> None:
        """Ends the connection, and a server of its own."""
        if self._loop is not None:
            loop, self._loop = self._loop, None
            try:
                loop.run(self._agent.close())
            finally:
                loop.close()

    @property
    def server(self) -> InitializeResponse | None:
        """What the server said about itself."""
        return self._agent.server

    @property
    def typed(self) -> Requests:
        """:meth:`request` with the types of each method."""
        return cast("Requests", self)

    def request(self, method: str, params: Any = None) -> Any:
        """Sends any request of the protocol and waits for its result."""
        return self._run(self._agent.request(method, params))

    def on_notification(self, handler: Handler) -> Callable[[], None]:
        """Calls a function with each notification of the server, also those of no thread, in the agent's own thread.

        It must return at once, and cannot call the agent. Returns a function that removes it.
        """
        return self._agent.on_notification(handler)

    def thread(self, *, context: Any = None, **params: Unpack[ThreadOptions]) -> Thread:
        """Starts a thread. The parameters are those of `thread/start`, by their names in the protocol.

        `context` is the application's own value, which callbacks and tools of this thread get.
        """
        return Thread(self, self._run(self._agent.thread(context=context, **params)))

    def resume(self, thread_id: str, *, context: Any = None, **params: Unpack[ResumeOptions]) -> Thread:
        """Loads a stored thread."""
        return Thread(self, self._run(self._agent.resume(thread_id, context=context, **params)))

    def fork(self, thread_id: str, *, context: Any = None, **params: Unpack[ForkOptions]) -> Thread:
        """Copies a stored thread."""
        return Thread(self, self._run(self._agent.fork(thread_id, context=context, **params)))

    def list(self, *, limit: int | None = None, **filters: Unpack[ListOptions]) -> Iterator[ThreadInfo]:
        """The stored threads, the newest first, read page by page; at most `limit`."""
        return each_of(self, self._agent.list(limit=limit, **filters))

    def search(self, text: str, *, limit: int | None = None, **filters: Unpack[SearchOptions]) -> Iterator[Found]:
        """The stored threads in which a text was said, the newest first; at most `limit`: see :meth:`AsyncAgent.search`."""
        return each_of(self, self._agent.search(text, limit=limit, **filters))

    def archive(self, thread_id: str) -> None:
        """Moves a thread out of the list."""
        self._run(self._agent.archive(thread_id))

    def unarchive(self, thread_id: str) -> None:
        """Moves a thread back into the list."""
        self._run(self._agent.unarchive(thread_id))

    @overload
    def run(
        self, message: Input, *, output: None = None, timeout: float | None = ..., context: Any = ...,
        max_cost: Amount | None = ..., **params: Unpack[ThreadOptions],
    ) -> Result[str]: ...

    @overload
    def run(
        self, message: Input, *, output: type[T], timeout: float | None = ..., context: Any = ...,
        max_cost: Amount | None = ..., **params: Unpack[ThreadOptions],
    ) -> Result[T]: ...

    @overload
    def run(
        self, message: Input, *, output: Mapping[str, Any], timeout: float | None = ..., context: Any = ...,
        max_cost: Amount | None = ..., **params: Unpack[ThreadOptions],
    ) -> Result[Any]: ...

    def run(self, message: Input, *, output: Any = None, **options: Any) -> Result[Any]:
        """Runs one turn in a new thread."""
        return self._run(self._agent.run(message, output=output, **options))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise RuntimeError("the agent is not started: use it with `with`, or call `start`")
        return self._loop.run(work)


# For `help` and editors, which show the names of the arguments.
Agent.__init__.__signature__ = inspect.signature(AsyncAgent.__init__)  # type: ignore[attr-defined]
