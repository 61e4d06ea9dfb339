"""The events of a thread over the life of an agent: opened at a cursor, and opened again after a lost connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

from ._event_types import Event
from ._events import AnyEvent, Notification
from ._feed import LAGGED, REOPEN, Signal
from .errors import AgentdError, ConnectionLost

if TYPE_CHECKING:
    from ._thread import AsyncThread


class ThreadEvents(AsyncIterator[Event]):
    """An iterator over all events of a thread, which does not end by itself."""

    def __init__(self, thread: AsyncThread, cursor: str | None) -> None:
        self._thread = thread
        self._session = thread.agent._session
        self._feed = thread.agent._feed(None, is_of_turn=False)
        self._cursor = cursor
        self._is_open = False
        #: The request for the events after the cursor, as long as it runs.
        self._opening: asyncio.Task[None] | None = None
        self._failure: AgentdError | None = None
        if cursor is None:
            # From now on.
            self._cursor, _ = self._session.position(thread.id)
            self._attach()
            self._is_open = True

    def __aiter__(self) -> ThreadEvents:
        return self

    async def __anext__(self) -> Event:
        while self._failure is None:
            if not self._is_open:
                await self._open()
            entry = await self._feed.get()
            if isinstance(entry, Notification):
                self._cursor = entry.cursor or self._cursor
                self._thread._state.hand_out(entry)
                return cast(Event, entry)
            if isinstance(entry, Signal):
                await self._mend(entry)
            else:
                self._failure = entry
        raise ConnectionLost(str(self._failure)) if isinstance(self._failure, ConnectionLost) else self._failure

    async def aclose(self) -> None:
        """Ends the iteration: no more events are kept for it."""
        self._thread._state.followers.discard(self._feed)
        self._feed.close()
        self._failure = AgentdError("the iteration was closed")

    def _attach(self) -> None:
        if self._failure is None:
            self._thread._state.followers.add(self._feed)

    async def _open(self) -> None:
        # It goes on when this is cancelled: the server sends the events again all the same, for this iteration alone.
        if self._opening is None:
            self._opening = self._session.begin(self._open_at_cursor())
            # It may be that nothing waits for it any longer.
            self._opening.add_done_callback(lambda done: done.cancelled() or done.exception())
        opening = self._opening
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():
                raise ConnectionLost("the connection was closed") from None
            raise
        finally:
            if opening.done():
                self._opening = None

    async def _open_at_cursor(self) -> None:
        if self._cursor is None:
            raise ConnectionLost("the connection was lost, and the server gave no cursor to go on from")
        while True:
            try:
                await self._session.follow(self._thread.id, self._cursor, self._feed.put_nowait, self._attach)
            except ConnectionLost:
                if self._session.is_over:
                    raise
                # The new connection was lost, too: the next attempt waits for another one.
                continue
            self._is_open = True
            return

    async def _mend(self, signal: Signal) -> None:
        if signal is REOPEN:
            self._is_open = False
        elif signal is LAGGED:
            try:
                await self._catch_up()
            except ConnectionLost:
                if self._session.is_over:
                    raise
                # The events are opened again, from before those that were dropped.
                self._feed.is_lagging = False

    async def _catch_up(self) -> None:
        """Reads the thread, in place of events that were dropped."""
        thread_id = self._thread.id

        def taken(result: Any) -> None:
            record = result.get("thread") if isinstance(result, dict) else None
            turns = record.get("turns") if isinstance(record, dict) else None
            cursor, order = self._session.position(thread_id)
            params = {"threadId": thread_id, "reason": "lagged", "turns": turns or [], "fromTurnId": None, "isComplete": True}
            event: AnyEvent = Notification("replaced", params, cursor, 0, order)
            self._feed.is_lagging = False
            self._feed.put_nowait(event)

        await self._session.request("thread/read", {"threadId": thread_id, "includeTurns": True}, taken)
