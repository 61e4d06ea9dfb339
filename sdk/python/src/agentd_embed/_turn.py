"""A turn that is followed: its events, its texts and its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from ._event_types import Event
from ._events import AnyEvent
from ._feed import Feed, Signal
from ._input import Input, parts_of
from ._order import TurnEnd
from ._output import parsed
from ._params import of_type
from ._result import Result, TurnRecord
from .errors import (
    AgentdError,
    BudgetExceeded,
    ConnectionLost,
    InvalidOutput,
    TurnFailed,
    TurnInterrupted,
    TurnTimeout,
)

if TYPE_CHECKING:
    from ._thread import AsyncThread
    from .types import Turn

T = TypeVar("T")

#: Seconds that a server may take to confirm an interruption; the caller gets its error after them anyway.
INTERRUPTION = 5.0


class AsyncTurn(Generic[T]):
    """A turn in progress: an iterator over its events. Iterate or await its result, not both at once.

    A task that is cancelled while it waits for either interrupts the turn. Leaving an iteration early does not.
    Errors of the turn, and the :class:`asyncio.CancelledError` of a cancelled task, have `thread_id`, `turn_id`,
    `text`, `items`, `usage` and `cost`: how far it came.
    """

    def __init__(self, thread: AsyncThread, turn_id: str, feed: Feed, output: Any, end: TurnEnd | None = None) -> None:
        self.thread = thread
        self.id = turn_id
        self._feed = feed
        self._output = output
        self._end = end
        self._record = TurnRecord()
        self._has_begun = False
        #: Turns of other clients that it joined: their items are its own from then on.
        self._joined: set[Any] = set()
        self._ended: Turn | None = None
        #: What every later call raises: no event arrives any longer.
        self._failure: AgentdError | None = None

    async def __aiter__(self) -> AsyncIterator[Event]:
        while self._ended is None:
            if self._failure is not None:
                raise self._failure
            try:
                event = await self._feed.get()
            except asyncio.CancelledError as error:
                await asyncio.shield(self._give_up())
                self._attach(error)
                raise
            if isinstance(event, Signal):
                continue
            if isinstance(event, AgentdError):
                self._stop()
                self._failure = ConnectionLost(str(event)) if isinstance(event, ConnectionLost) else event
                raise self._attach(self._failure)
            if self._takes(event):
                self.thread._state.hand_out(event)
                yield cast(Event, event)

    async def text(self, *, commentary: bool = False) -> AsyncIterator[str]:
        """The answer as it is written; with `commentary` also what the agent says on the way, in its place."""
        async for text in self._texts({False, commentary}):
            yield text

    async def commentary(self) -> AsyncIterator[str]:
        """What the agent says on the way, as it is written, in place of :meth:`text`."""
        async for text in self._texts({True}):
            yield text

    async def result(self, timeout: float | None = None) -> Result[T]:
        """Awaits the end. Interrupts the turn after `timeout` seconds, and when this is cancelled."""
        of_type("timeout", timeout, float, int)
        return await self._result(timeout, timeout)

    async def steer(self, message: Input) -> None:
        """Adds a message to the turn."""
        await self.thread.agent.request(
            "turn/steer",
            {"threadId": self.thread.id, "expectedTurnId": self.id, "input": parts_of(message)},
        )

    async def interrupt(self) -> None:
        """Ends the turn."""
        await self.thread.agent.request("turn/interrupt", {"threadId": self.thread.id, "turnId": self.id})

    async def _texts(self, kinds: set[bool]) -> AsyncIterator[str]:
        written: dict[str, int] = {}
        async for event in self:
            for item, text in _texts_of(event, written):
                written[item] = written.get(item, 0) + len(text)
                if self._record.is_commentary(item) in kinds:
                    yield text

    async def _result(self, left: float | None, timeout: float | None) -> Result[T]:
        try:
            await asyncio.wait_for(self._drain(), left)
        except asyncio.TimeoutError as error:
            # With no time left the iteration is cancelled before it begins.
            failure = self._failure or await self._give_up()
            raise self._attach(TurnTimeout(f"the turn took longer than {timeout} seconds; {failure}")) from error
        except asyncio.CancelledError as error:
            self._attach(error)
            raise
        return self._finish()

    async def _drain(self) -> None:
        async for _ in self:
            pass

    async def _give_up(self) -> AgentdError:
        """Interrupts the turn, and returns what later calls raise. Takes a bounded time."""
        self._stop()
        self._failure = TurnInterrupted("the turn was interrupted")
        try:
            await asyncio.wait_for(self.interrupt(), INTERRUPTION)
        except (ConnectionLost, asyncio.TimeoutError) as error:
            why = str(error) or f"no answer within {INTERRUPTION} seconds"
            self._failure = TurnInterrupted(f"the server did not confirm that it interrupted the turn: {why}")
        except AgentdError:
            # The turn has ended meanwhile.
            pass
        self._attach(self._failure)
        return self._failure

    def _stop(self) -> None:
        self.thread._state.feeds.discard(self._feed)
        self._feed.close()

    def _attach(self, error: Any) -> Any:
        self._record.attach(error, self.thread.id, self.id)
        return error

    def _takes(self, event: AnyEvent) -> bool:
        if not self._concerns(event):
            return False
        if event.method == "item/completed":
            self._member(event, "item", "type")
        elif event.method == "thread/tokenUsage/updated":
            self._member(event, "tokenUsage", "total")
        elif event.method == "turn/completed":
            self._ended = cast("Turn", self._member(event, "turn", "status"))
        elif event.method == "turn/replaced":
            replaced = self._member(event, "turn", "status")
            if replaced["status"] != "inProgress":
                self._ended = cast("Turn", replaced)
        self._record.take(event)
        if self._ended is not None:
            self._stop()
        return True

    def _concerns(self, event: AnyEvent) -> bool:
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

    def _member(self, event: AnyEvent, name: str, needed: str) -> dict[str, Any]:
        value = event.params.get(name)
        if not isinstance(value, dict) or needed not in value:
            self._stop()
            self._failure = self.thread.agent._session.broken(
                f"the server wrote what is not the protocol: `{event.method}` has no `{name}` with a `{needed}`"
            )
            raise self._attach(self._failure)
        return value

    def _finish(self) -> Result[T]:
        assert self._ended is not None
        if self._end is not None and self._end.exceeded is not None:
            raise self._attach(BudgetExceeded(self._end.exceeded))
        if self._ended["status"] == "failed":
            raise self._attach(TurnFailed(self._ended.get("error")))
        if self._ended["status"] == "interrupted":
            raise self._attach(TurnInterrupted("the turn was interrupted"))
        try:
            output = parsed(self._output, self._record.text)
        except InvalidOutput as error:
            raise self._attach(error)
        return self._record.result(self._ended, output)


def _texts_of(event: AnyEvent, written: Mapping[str, int]) -> list[tuple[str, str]]:
    """What an event adds to the agent's messages, by the id of the item."""
    params = event.params
    if event.method == "item/agentMessage/delta":
        return [(str(params.get("itemId")), event.text)] if event.text else []
    # A replay holds a message that was completed meanwhile without its deltas.
    turn = params.get("turn")
    items = {
        "item/completed": [params.get("item")],
        "turn/replaced": turn.get("items") if isinstance(turn, dict) else [],
    }
    found = [
        (str(item.get("id")), str(item.get("text", ""))[written.get(str(item.get("id")), 0) :])
        for item in items.get(event.method) or []
        if isinstance(item, dict) and item.get("type") == "agentMessage"
    ]
    return [(item, text) for item, text in found if text]
