"""Running what has a thread for itself, one after the other: turns, reviews and compactions."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ._feed import Feed
from ._order import CompactionEnd, TurnEnd
from ._state import ThreadState
from .errors import AgentdError, ConnectionLost

if TYPE_CHECKING:
    from ._agent import AsyncAgent


class Started:
    """A turn that has started: its thread, its id, its events, and its end."""

    def __init__(self, state: ThreadState, turn_id: str, feed: Feed, end: TurnEnd) -> None:
        self.state = state
        self.turn_id = turn_id
        self.feed = feed
        self.end = end


class Start:
    """A request that starts a turn in a thread, once what this agent runs there has ended."""

    def __init__(
        self,
        agent: AsyncAgent,
        state: ThreadState,
        method: str,
        params: dict[str, Any],
        *,
        end: TurnEnd,
        context: Any = None,
    ) -> None:
        self._agent = agent
        self._state = state
        self._method = method
        self._params = params
        self._end = end
        self._context = context
        #: The thread that the turn runs in: of a detached review another one.
        self._runs_in = state

    async def run(self) -> Started:
        """Starts it. The caller may be cancelled: until its end the turn is in the way of others."""
        await self._state.order.acquire()
        feed = self._agent._feed(self._state, is_of_turn=True)
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The turn object is the only one that holds the feed.
        occupy(self._agent, self._state, self._end, started, self._follow(weakref.ref(feed), started))
        try:
            await started
        except BaseException:
            self._runs_in.feeds.discard(feed)
            if self._end.turn_id is not None:
                self._abandon(self._end.turn_id)
            raise
        assert self._end.turn_id is not None
        return Started(self._runs_in, self._end.turn_id, feed, self._end)

    async def _follow(self, feed: weakref.ref[Feed], started: asyncio.Future[None]) -> None:
        session = self._agent._session

        def taken(result: Any) -> None:
            turn_id = self._end.turn_id = session.id_of("turn", self._method, result)
            self._move_to(result.get("reviewThreadId"), feed())
            reader = feed()
            if reader is not None:
                reader.turn_id = turn_id
            if self._context is not None:
                self._runs_in.turn_contexts[turn_id] = self._context
            # Its caller no longer waits for it.
            if started.cancelled():
                self._abandon(turn_id)

        await session.subscribe(self._state.id)
        try:
            await session.request(self._method, self._params, taken)
            if not started.done():
                started.set_result(None)
            await self._end.wait()
        finally:
            self._runs_in.turn_contexts.pop(self._end.turn_id or "", None)
            if self._runs_in.running is self._end:
                self._runs_in.running = None

    def _move_to(self, thread_id: Any, feed: Feed | None) -> None:
        """A detached review runs in a thread of its own."""
        if not isinstance(thread_id, str) or thread_id == self._state.id:
            return
        self._state.running = None
        self._runs_in = self._agent._state_of(thread_id)
        self._runs_in.running = self._end
        self._runs_in.context = self._state.context
        if feed is not None:
            self._state.feeds.discard(feed)
            self._runs_in.feeds.add(feed)

    def _abandon(self, turn_id: str) -> None:
        interrupt_later(self._agent, self._runs_in.id, turn_id)


def interrupt_later(agent: AsyncAgent, thread_id: str, turn_id: str) -> None:
    """Interrupts a turn that is no longer wanted, without waiting for it."""

    async def interrupt() -> None:
        try:
            await agent.request("turn/interrupt", {"threadId": thread_id, "turnId": turn_id})
        except AgentdError:
            # It has ended meanwhile, or its server has.
            pass

    agent._session.begin(interrupt())


async def compact(agent: AsyncAgent, state: ThreadState) -> None:
    """Runs a compaction to its end."""
    await state.order.acquire()
    end = CompactionEnd()
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await agent._session.subscribe(state.id)
        await agent._session.request("thread/compact/start", {"threadId": state.id})
        await end.wait(agent._session.broken)

    occupy(agent, state, end, done, work())
    await done


def occupy(
    agent: AsyncAgent,
    state: ThreadState,
    end: TurnEnd | CompactionEnd,
    done: asyncio.Future[None],
    work: Coroutine[Any, Any, None],
) -> None:
    """Does work that has the thread for itself, until it is over or the agent is closed. Its caller holds the order."""
    state.running = end

    def over(task: asyncio.Task[None]) -> None:
        if state.running is end:
            state.running = None
        state.order.release()
        error = ConnectionLost("the connection was closed") if task.cancelled() else task.exception()
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    agent._session.begin(work).add_done_callback(over)


