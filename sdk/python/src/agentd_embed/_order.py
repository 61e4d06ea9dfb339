"""What runs in a thread, one after the other: a turn or a compaction begins when the one before it, of the same
agent, has ended. Without that, the input of a second turn would join the first, which then has both answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union

from .errors import AgentdError, ConnectionLost, TurnFailed, TurnInterrupted


@dataclass(frozen=True)
class Event:
    """A notification about a turn: `method` and `params` are those of the protocol."""

    method: str
    params: dict[str, Any]

    @property
    def text(self) -> str:
        """What the agent's message grows by; empty for every other event."""
        return str(self.params.get("delta", "")) if self.method == "item/agentMessage/delta" else ""

    @property
    def turn_id(self) -> Any:
        """The turn that it is about."""
        turn = self.params.get("turn")
        return turn.get("id") if isinstance(turn, dict) else self.params.get("turnId")


Entry = Union[Event, AgentdError]


class TurnEnd:
    """Learns of the end of a turn, whoever reads its events."""

    def __init__(self) -> None:
        #: The turn, once it has started.
        self.turn_id: str | None = None
        self._ended = asyncio.Event()

    def put_nowait(self, entry: Entry) -> None:
        """Takes an event of the thread, or why there are no more."""
        if isinstance(entry, AgentdError) or (self.turn_id is not None and _ends(entry, self.turn_id)):
            self._ended.set()

    async def wait(self) -> None:
        """Waits for the end."""
        await self._ended.wait()


class CompactionEnd:
    """Learns of the end of a compaction. The response to the request for it does not name its turn, which is told
    from those of other clients by what it begins with."""

    def __init__(self) -> None:
        self.turn_id: str | None = None
        #: Turns that began meanwhile, and of which no item says that they are something else.
        self._candidates: set[Any] = set()
        self._ended: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        # Who waits for it may be gone.
        self._ended.add_done_callback(lambda done: done.cancelled() or done.exception())

    def put_nowait(self, entry: Entry) -> None:
        """Takes an event of the thread, or why there are no more."""
        if self._ended.done():
            return
        if isinstance(entry, AgentdError):
            self._ended.set_exception(entry)
        elif entry.method == "turn/started":
            self._candidates.add(entry.turn_id)
        elif entry.method == "item/started":
            item = entry.params.get("item")
            if not isinstance(item, dict) or item.get("type") != "contextCompaction":
                self._candidates.discard(entry.turn_id)
            elif entry.turn_id in self._candidates:
                self.turn_id = entry.turn_id
        elif entry.turn_id in self._candidates and _ends(entry, entry.turn_id):
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


def _ends(event: Event, turn_id: str) -> bool:
    if event.turn_id != turn_id or event.method not in ("turn/completed", "turn/replaced"):
        return False
    turn = event.params.get("turn")
    return event.method == "turn/completed" or not isinstance(turn, dict) or turn.get("status") != "inProgress"
