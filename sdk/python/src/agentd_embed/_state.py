"""What an agent knows of a thread. All objects for the same thread share one."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass
from typing import Any, Union

from ._events import AnyEvent, Notification
from ._feed import Entry, Feed
from ._order import CompactionEnd, TurnEnd
from ._usage import UsageRecord

#: What takes the events of a thread.
Reader = Union[Feed, TurnEnd, CompactionEnd]


@dataclass(frozen=True)
class SubAgent:
    """A sub-agent below a thread."""

    nickname: str | None
    #: The application's value of the turn that gave it its work last.
    user: Any


class ThreadState:
    """It lives as long as a thread or turn object, or something that runs, holds it."""

    def __init__(self, thread_id: str) -> None:
        self.id = thread_id
        #: Held by what runs in the thread.
        self.order = asyncio.Lock()
        # Each belongs to a turn, and goes with it: a turn that its owner dropped collects no events.
        self.feeds: weakref.WeakSet[Feed] = weakref.WeakSet()
        #: Those of :meth:`AsyncThread.events`, which open themselves again on a new connection.
        self.followers: weakref.WeakSet[Feed] = weakref.WeakSet()
        #: What runs, whether it is read or not.
        self.running: TurnEnd | CompactionEnd | None = None
        self.usage = UsageRecord()
        #: The application's own values, of the thread and of its turns.
        self.context: Any = None
        self.turn_contexts: dict[str, Any] = {}
        #: All below it, by their threads.
        self.agents: dict[str, SubAgent] = {}
        #: The newest cursor that was handed out, and its place among the events.
        self.cursor: str | None = None
        self._cursor_order = 0

    def readers(self) -> list[Reader]:
        """Those that a lost connection holds up: turns and compactions."""
        return [*self.feeds, *([] if self.running is None else [self.running])]

    def put(self, entry: Entry) -> None:
        """Hands an event, or why there are no more, to all of them."""
        if isinstance(entry, Notification):
            self._note(entry)
        for reader in self.readers():
            reader.put_nowait(entry)
        for follower in list(self.followers):
            follower.put_nowait(entry)

    def user_of(self, turn_id: Any) -> Any:
        """The application's own value for a turn."""
        return self.turn_contexts.get(turn_id, self.context)

    def hand_out(self, event: AnyEvent) -> None:
        """Remembers the cursor of an event that the application got."""
        if event.cursor is not None and event.order >= self._cursor_order:
            self.cursor, self._cursor_order = event.cursor, event.order

    def detach_followers(self, entry: Entry) -> None:
        """Hands the followers an entry, after which they get no events."""
        for follower in list(self.followers):
            follower.put_nowait(entry)
        self.followers.clear()

    def _note(self, event: AnyEvent) -> None:
        if event.method == "thread/tokenUsage/updated" and isinstance(event.params.get("tokenUsage"), dict):
            self.usage.take(event.params["tokenUsage"])
