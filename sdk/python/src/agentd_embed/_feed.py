"""Events that wait for their reader, within bounds.

Adjacent deltas of one text are merged once many events wait. When more than :data:`MAX_EVENTS` events or
:data:`MAX_BYTES` wait for one reader, the connection is not read until the reader has taken some, so that the server
holds back. So that one reader does not hold up the others forever, reading goes on

- while a request of this agent waits for its answer, up to twice the bound, and
- when the reader has taken nothing for :data:`STALL` seconds.

In either case what waits is reduced first. A turn's reader loses events that only show progress, which the completed
items repeat; the reader of a thread's events loses all that wait, and gets one event `replaced` for them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
import weakref
from collections import deque
from typing import Union

from ._events import AnyEvent, Notification, is_progress, stream_of
from .errors import AgentdError

MAX_EVENTS = 4096
MAX_BYTES = 8 << 20
#: Seconds without progress of a reader, after which it no longer holds up the connection.
STALL = 2.0
#: Events that wait before deltas are merged: a reader that keeps up gets each as it comes.
_UNMERGED = 64
#: Seconds of work on events before other tasks of the loop get a turn.
_SLICE = 0.005


class Signal:
    """What a feed says to its reader besides events."""


#: The connection was lost: open the events again from the last cursor.
REOPEN = Signal()
#: The events that waited were dropped: read the thread.
LAGGED = Signal()

Entry = Union[AnyEvent, AgentdError, Signal]


class Pace:
    """Gives other tasks of the loop a turn, often enough that no timer is late."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    async def breathe(self) -> None:
        """Yields to the loop when the slice is over."""
        if time.monotonic() - self._since > _SLICE:
            await asyncio.sleep(0)
            self._since = time.monotonic()


class Pressure:
    """The feeds of an agent that are full, which pause the reading of its connection."""

    def __init__(self) -> None:
        self._full: weakref.WeakSet[Feed] = weakref.WeakSet()
        self._changed: asyncio.Event | None = None

    @property
    def is_on(self) -> bool:
        """Whether a feed is full."""
        return len(self._full) > 0

    def changed(self, feed: Feed) -> None:
        """A feed became full, or is no longer."""
        if feed.is_full:
            self._full.add(feed)
        else:
            self._full.discard(feed)
            self.wake()

    def wake(self) -> None:
        """Lets :meth:`hold` look again."""
        if self._changed is not None:
            self._changed.set()

    async def hold(self, is_awaited: asyncio.Event) -> None:
        """Waits until no feed is full, for a bounded time, or until a request waits for its answer."""
        while self._full and not is_awaited.is_set():
            now = time.monotonic()
            for feed in [it for it in self._full if now - it.taken_at >= STALL]:
                feed.reduce()
            left = min((it.taken_at + STALL - now for it in self._full), default=0.0)
            if left <= 0:
                continue
            # The reader of a connection that was lost may hold at the same time.
            changed = self._changed = self._changed or asyncio.Event()
            changed.clear()
            try:
                await asyncio.wait_for(changed.wait(), left)
            except asyncio.TimeoutError:
                pass


class Feed:
    """The events of one thread for one reader, from now on. `is_of_turn` says what the reader can do without."""

    def __init__(self, pressure: Pressure, pace: Pace, *, is_of_turn: bool) -> None:
        self._pressure = pressure
        self._pace = pace
        self._is_of_turn = is_of_turn
        self._entries: deque[Entry] = deque()
        #: The texts of the last entry, when it is a merged delta.
        self._parts: list[str] | None = None
        self._stream: tuple[object, ...] | None = None
        self._bytes = 0
        self._arrived = asyncio.Event()
        #: What is left after a reduction may be more than the bound: the items of a turn, which its result holds.
        self._is_reduced = False
        #: Items with deltas that were dropped: without them, later ones would continue another text.
        self._cut: set[object] = set()
        #: Events are dropped until the thread was read.
        self.is_lagging = False
        self._is_closed = False
        #: The time at which the reader took something, or had nothing to take.
        self.taken_at = time.monotonic()
        #: The turn that is read from it, once it has started.
        self.turn_id: str | None = None

    @property
    def is_full(self) -> bool:
        """Whether more waits than may."""
        return not self._is_reduced and self._is_beyond(1)

    def __len__(self) -> int:
        return len(self._entries)

    def put_nowait(self, entry: Entry) -> None:
        """Takes an event, or why there are no more."""
        if self._is_closed:
            return
        if isinstance(entry, Notification):
            if self.is_lagging or self._is_dropped(entry):
                return
            if not self._entries:
                self.taken_at = time.monotonic()
            self._bytes += entry.size
            if not self._merge(entry):
                self._append(entry)
            if self._is_beyond(2):
                self.reduce()
            elif self.is_full:
                self._pressure.changed(self)
        else:
            self._append(entry)
        self._arrived.set()

    async def get(self) -> Entry:
        """The next entry."""
        await self._pace.breathe()
        while not self._entries:
            self._arrived.clear()
            await self._arrived.wait()
        self.taken_at = time.monotonic()
        was_full = self.is_full
        entry = self._entries.popleft()
        if not self._entries:
            entry = self._whole(entry)
        if isinstance(entry, Notification):
            self._bytes -= entry.size
        if self._is_reduced and not self._is_beyond(1):
            self._is_reduced = False
        if was_full and not self.is_full:
            self._pressure.changed(self)
        return entry

    def reduce(self) -> None:
        """Drops what the reader can do without, so that it is no longer full."""
        self._close_stream()
        if self._is_of_turn:
            self._is_reduced = True
            self._entries = deque(it for it in self._entries if not isinstance(it, Notification) or not self._is_dropped(it))
            self._bytes = sum(it.size for it in self._entries if isinstance(it, Notification))
        elif not self.is_lagging:
            self._entries = deque(it for it in self._entries if not isinstance(it, Notification))
            self._entries.append(LAGGED)
            self._bytes = 0
            self.is_lagging = True
        self._pressure.changed(self)

    def close(self) -> None:
        """Nothing is read from it any longer."""
        self._is_closed = True
        self._entries.clear()
        self._bytes = 0
        self._pressure.changed(self)

    def _is_dropped(self, event: AnyEvent) -> bool:
        """Whether the reader of a turn does without an event. The completed item has the whole text."""
        if event.method == "item/completed":
            item = event.params.get("item")
            self._cut.discard(item.get("id") if isinstance(item, dict) else None)
            return False
        if stream_of(event) is None:
            return self._is_reduced and is_progress(event)
        item_id = event.params.get("itemId")
        if self._is_reduced and isinstance(item_id, str):
            self._cut.add(item_id)
        return item_id in self._cut if isinstance(item_id, str) else self._is_reduced

    def _is_beyond(self, times: int) -> bool:
        return len(self._entries) > MAX_EVENTS * times or self._bytes > MAX_BYTES * times

    def _append(self, entry: Entry) -> None:
        self._close_stream()
        if isinstance(entry, Notification) and len(self._entries) >= _UNMERGED:
            self._stream = stream_of(entry)
            self._parts = None if self._stream is None else [entry.params["delta"]]
        self._entries.append(entry)

    def _merge(self, event: AnyEvent) -> bool:
        """Adds a delta to the last entry, when that is one of the same text."""
        if self._parts is None or stream_of(event) != self._stream:
            return False
        last = self._entries[-1]
        assert isinstance(last, Notification)
        self._parts.append(event.params["delta"])
        # The texts are joined once, when the entry is whole.
        self._entries[-1] = dataclasses.replace(event, size=last.size + event.size)
        return True

    def _close_stream(self) -> None:
        if self._parts is not None and self._entries:
            self._entries[-1] = self._whole(self._entries[-1])
        self._stream = self._parts = None

    def _whole(self, entry: Entry) -> Entry:
        parts, self._stream, self._parts = self._parts, None, None
        if parts is None or not isinstance(entry, Notification):
            return entry
        return dataclasses.replace(entry, params={**entry.params, "delta": "".join(parts)})
