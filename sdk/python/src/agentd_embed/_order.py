"""The ends of what runs in a thread, one after the other: a turn or a compaction begins when the one before it, of the
same agent, has ended. Without that, the input of a second turn would join the first, which then has both answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ._events import AnyEvent, Notification
from ._feed import Entry
from ._usage import cost_of
from .errors import AgentdError, ConnectionLost, TurnFailed, TurnInterrupted


class TurnEnd:
    """Learns of the end of a turn, and of its exceeding its budget, whether its events are read or not."""

    def __init__(self, max_cost: Decimal | None = None, stop: Callable[[], None] | None = None) -> None:
        #: The turn, once it has started.
        self.turn_id: str | None = None
        self._max_cost = max_cost
        self._stop = stop
        #: Why the turn has no result, although it may have ended as any other.
        self.exceeded: str | None = None
        #: Reports without a cost, one after the other.
        self._unpriced = 0
        self._ended = asyncio.Event()

    def put_nowait(self, entry: Entry) -> None:
        """Takes an event of the thread, or why there are no more."""
        if isinstance(entry, Notification):
            if entry.method == "thread/tokenUsage/updated":
                self._check_cost(entry)
            if self.turn_id is None or not ends(entry, self.turn_id):
                return
        self._ended.set()

    async def wait(self) -> None:
        """Waits for the end."""
        await self._ended.wait()

    def _check_cost(self, event: AnyEvent) -> None:
        # A turn that joined another one is charged in that one: any of the thread counts.
        if self._max_cost is None or self.turn_id is None or self.exceeded is not None:
            return
        usage = event.params.get("tokenUsage")
        cost = cost_of(usage) if isinstance(usage, dict) else None
        if cost is None:
            # One that is sent again after a reconnection has none; a second is a server that reports none.
            self._unpriced += 1
            if self._unpriced < 2:
                return
            spent = None
        else:
            self._unpriced = 0
            spent = cost.turn if cost.turn_with_agents is None else cost.turn_with_agents
        if cost is None:
            self.exceeded = "the server reports no costs, so that `max_cost` cannot be held: it is older than this package"
        elif spent is None:
            self.exceeded = "the price of its model is not known, so that `max_cost` cannot be held: add it to the catalog of models"
        elif spent > self._max_cost:
            self.exceeded = f"the turn cost {spent} {cost.currency}, more than its `max_cost` of {self._max_cost}"
        if self.exceeded is not None and self._stop is not None:
            self._stop()


class CompactionEnd:
    """Learns of the end of a compaction. The response to the request for it does not name its turn, which is told
    from those of other clients by what it begins with."""

    def __init__(self) -> None:
        self.turn_id: str | None = None
        #: Turns that began meanwhile, and of which no item says that they are something else.
        self._candidates: set[Any] = set()
        self._ended: asyncio.Future[AnyEvent] = asyncio.get_running_loop().create_future()
        # Its waiter may be gone.
        self._ended.add_done_callback(lambda done: done.cancelled() or done.exception())

    def put_nowait(self, entry: Entry) -> None:
        """Takes an event of the thread, or why there are no more."""
        if self._ended.done():
            return
        if isinstance(entry, AgentdError):
            self._ended.set_exception(entry)
        elif not isinstance(entry, Notification):
            return
        elif entry.method == "turn/started":
            self._candidates.add(entry.turn_id)
        elif entry.method == "item/started":
            item = entry.params.get("item")
            if not isinstance(item, dict) or item.get("type") != "contextCompaction":
                self._candidates.discard(entry.turn_id)
            elif entry.turn_id in self._candidates:
                self.turn_id = entry.turn_id
        elif entry.turn_id in self._candidates and ends(entry, entry.turn_id):
            self._ended.set_result(entry)

    async def wait(self, broken: Callable[[str], AgentdError]) -> None:
        """Waits for the end, and raises what the compaction failed with."""
        event = await asyncio.shield(self._ended)
        status = event.params["turn"].get("status")
        if status == "failed":
            raise TurnFailed(event.params["turn"].get("error"))
        if status == "interrupted":
            raise TurnInterrupted("the compaction was interrupted")
        if status is None:
            raise broken(f"the server wrote what is not the protocol: `{event.method}` has no `turn` with a `status`")

    def lose_sight(self) -> None:
        """The events in between are gone before its turn was known."""
        self.put_nowait(ConnectionLost("the connection was lost, and whether the compaction has ended is unknown"))


def ends(event: AnyEvent, turn_id: str) -> bool:
    """Whether an event is the end of a turn."""
    if event.turn_id != turn_id or event.method not in ("turn/completed", "turn/replaced"):
        return False
    turn = event.params.get("turn")
    return event.method == "turn/completed" or not isinstance(turn, dict) or turn.get("status") != "inProgress"
