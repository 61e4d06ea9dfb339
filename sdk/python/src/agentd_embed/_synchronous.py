"""The client for programs without `asyncio`: the same, with a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar, cast

from ._asynchronous import AsyncAgent, AsyncThread, AsyncTurn, Event, Input, Result
from ._requests import Requests

T = TypeVar("T")


class _Loop:
    """A loop that runs in the background until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agentd-embed", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for work; when this is interrupted, the work is cancelled and its end awaited."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                concurrent.futures.wait([future], timeout=10)
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Agent:
    """A server and the connection to it: see :class:`AsyncAgent` for the arguments. Use it with `with`."""

    def __init__(self, **arguments: Any) -> None:
        self._agent = AsyncAgent(**arguments)
        self._loop: _Loop | None = None

    def __enter__(self) -> Agent:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Connects, and completes the handshake."""
        loop = _Loop()
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
    def typed(self) -> Requests:
        """:meth:`request` with the types of each method."""
        return cast(Requests, self)

    def request(self, method: str, params: Any = None) -> Any:
        """Sends any request of the protocol and waits for its result."""
        return self._run(self._agent.request(method, params))

    def thread(self, **params: Any) -> Thread:
        """Starts a thread. The parameters are those of `thread/start`, by their names in the protocol."""
        return Thread(self, self._run(self._agent.thread(**params)))

    def resume(self, thread_id: str, **params: Any) -> Thread:
        """Loads a stored thread."""
        return Thread(self, self._run(self._agent.resume(thread_id, **params)))

    def fork(self, thread_id: str, **params: Any) -> Thread:
        """Copies a stored thread."""
        return Thread(self, self._run(self._agent.fork(thread_id, **params)))

    def run(self, message: Input, *, output: Any = str, timeout: float | None = None, **params: Any) -> Result[Any]:
        """Runs one turn in a new thread."""
        return self._run(self._agent.run(message, output=output, timeout=timeout, **params))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise RuntimeError("the agent is not started: use it with `with`, or call `start`")
        return self._loop.run(work)


class Thread:
    """A conversation with the agent."""

    def __init__(self, agent: Agent, thread: AsyncThread) -> None:
        self.agent = agent
        self._thread = thread

    @property
    def id(self) -> str:
        """The thread's id."""
        return self._thread.id

    def turn(self, message: Input, *, output: Any = str, **params: Any) -> Turn:
        """Starts a turn, once the one that this agent started before it in the thread has ended."""
        return Turn(self.agent, self.agent._run(self._thread.turn(message, output=output, **params)))

    def run(self, message: Input, *, output: Any = str, timeout: float | None = None, **params: Any) -> Result[Any]:
        """Runs a turn to its end. It is interrupted after `timeout` seconds, and by Ctrl+C."""
        return self.agent._run(self._thread.run(message, output=output, timeout=timeout, **params))

    def archive(self) -> None:
        """Moves the thread out of the list."""
        self.agent._run(self._thread.archive())

    def rename(self, name: str) -> None:
        """Sets the thread's title."""
        self.agent._run(self._thread.rename(name))

    def compact(self) -> None:
        """Summarizes the history, so that it takes less of the model's context, and waits for the end of that."""
        self.agent._run(self._thread.compact())

    def read(self) -> Any:
        """The stored thread with its turns: the result of `thread/read`."""
        return self.agent._run(self._thread.read())


class Turn:
    """A turn in progress: an iterator over its events.

    Ctrl+C interrupts the turn while this waits for its events or its end. Leaving an iteration early does not.
    """

    def __init__(self, agent: Agent, turn: AsyncTurn) -> None:
        self._agent = agent
        self._turn = turn

    @property
    def id(self) -> str:
        """The turn's id."""
        return self._turn.id

    def __iter__(self) -> Iterator[Event]:
        return self._each(aiter(self._turn))

    def text(self) -> Iterator[str]:
        """The agent's message as it is written."""
        return self._each(self._turn.text())

    def result(self, timeout: float | None = None) -> Result[Any]:
        """Waits for the end."""
        return self._agent._run(self._turn.result(timeout))

    def steer(self, message: Input) -> None:
        """Adds a message to the turn."""
        self._agent._run(self._turn.steer(message))

    def interrupt(self) -> None:
        """Ends the turn."""
        self._agent._run(self._turn.interrupt())

    def _each(self, items: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> T:
            return await anext(items)

        while True:
            try:
                item = self._agent._run(following())
            except StopAsyncIteration:
                return
            except KeyboardInterrupt:
                # It can come between two waits, which then cancels nothing.
                if self._turn._failure is None:
                    self._agent._run(self._turn._give_up())
                raise
            yield item
