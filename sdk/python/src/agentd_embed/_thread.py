"""A thread: what runs in it, what happens in it, and what is done with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from ._events import AnyEvent, Notification
from ._follow import ThreadEvents
from ._goals import GoalMethods
from ._input import Input, parts_of
from ._order import TurnEnd
from ._output import schema_of
from ._params import ForkOptions, OnBusy, TurnOptions, checked, of_type
from ._queue import QueueMethods
from ._result import Result
from ._run import Start, compact, interrupt_later
from ._state import ThreadState
from ._timing import with_timeout
from ._turn import AsyncTurn
from ._usage import Amount, ThreadUsage, amount
from .errors import InvalidRequest, ThreadBusy

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._agent import AsyncAgent
    from .types import RestoredFiles, ReviewDelivery, ReviewTarget, ThreadReadResponse
    from .types import Thread as ThreadInfo

T = TypeVar("T")

#: Attempts to steer a turn that ends at that moment, before one is started.
_STEERING = 3


class AsyncThread(GoalMethods, QueueMethods):
    """A conversation with the agent."""

    def __init__(self, agent: AsyncAgent, state: ThreadState) -> None:
        self.agent = agent
        self.id = state.id
        #: Shared by all objects for the thread.
        self._state = state

    @property
    def cursor(self) -> str | None:
        """The newest cursor that was handed out, by :meth:`events` or a turn; at first that of the thread's opening."""
        return self._state.cursor

    @overload
    async def turn(
        self, message: Input, *, output: None = None, on_busy: OnBusy = ..., context: Any = ...,
        max_cost: Amount | None = ..., **params: Unpack[TurnOptions],
    ) -> AsyncTurn[str]: ...

    @overload
    async def turn(
        self, message: Input, *, output: type[T], on_busy: OnBusy = ..., context: Any = ...,
        max_cost: Amount | None = ..., **params: Unpack[TurnOptions],
    ) -> AsyncTurn[T]: ...

    @overload
    async def turn(
        self, message: Input, *, output: Mapping[str, Any], on_busy: OnBusy = ..., context: Any = ...,
        max_cost: Amount | None = ..., **params: Unpack[TurnOptions],
    ) -> AsyncTurn[Any]: ...

    async def turn(
        self,
        message: Input,
        *,
        output: Any = None,
        on_busy: OnBusy = "wait",
        context: Any = None,
        max_cost: Amount | None = None,
        **params: Unpack[TurnOptions],
    ) -> AsyncTurn[Any]:
        """Starts a turn. `output` is what the answer shall be: a dataclass, a pydantic model, or a schema.

        `on_busy` says what happens while another turn runs in the thread. With `wait` it begins once the turn or
        compaction that this agent started before it has ended, even when that one is not read. A function of the
        agent that the running turn waits for, such as a tool, must not wait so for a turn of the same thread. A turn
        of another client is not waited for: the new turn joins it, and has its events from then on. With `join` the
        message is added to the running turn of any client, which is followed. With `error` :class:`ThreadBusy` is
        raised at once.

        `context` is the application's own value for the callbacks of this turn. When the turn costs more than
        `max_cost` US dollars, it is interrupted, and its result raises :class:`BudgetExceeded`.
        """
        given = checked(TurnOptions, cast("dict[str, Any]", params), "turn")
        parts = parts_of(message)
        limit = None if max_cost is None else amount("max_cost", max_cost)
        if limit is not None and not self.agent._reports_costs:
            raise ValueError("`max_cost` needs `tokenCost` and `thread/tokenUsage/updated`, which `capabilities` left out")
        schema = schema_of(output)
        if schema is not None:
            given.setdefault("outputSchema", schema)
        if on_busy == "join":
            joined = await self._join(message, has_options=bool(given) or context is not None or limit is not None)
            if joined is not None:
                return joined
        elif on_busy == "error":
            await self._refuse_if_busy()
        elif on_busy != "wait":
            raise ValueError(f"`on_busy` is {on_busy!r}, not 'wait', 'join' or 'error'")

        def stop() -> None:
            assert end.turn_id is not None
            interrupt_later(self.agent, self.id, end.turn_id)

        end = TurnEnd(limit, stop)
        request = {"threadId": self.id, "input": parts, **given}
        started = await Start(self.agent, self._state, "turn/start", request, end=end, context=context).run()
        return AsyncTurn(self, started.turn_id, started.feed, output, end)

    @overload
    async def run(
        self, message: Input, *, output: None = None, timeout: float | None = ..., on_busy: OnBusy = ...,
        context: Any = ..., max_cost: Amount | None = ..., **params: Unpack[TurnOptions],
    ) -> Result[str]: ...

    @overload
    async def run(
        self, message: Input, *, output: type[T], timeout: float | None = ..., on_busy: OnBusy = ...,
        context: Any = ..., max_cost: Amount | None = ..., **params: Unpack[TurnOptions],
    ) -> Result[T]: ...

    @overload
    async def run(
        self, message: Input, *, output: Mapping[str, Any], timeout: float | None = ..., on_busy: OnBusy = ...,
        context: Any = ..., max_cost: Amount | None = ..., **params: Unpack[TurnOptions],
    ) -> Result[Any]: ...

    async def run(
        self,
        message: Input,
        *,
        output: Any = None,
        timeout: float | None = None,
        on_busy: OnBusy = "wait",
        context: Any = None,
        max_cost: Amount | None = None,
        **params: Unpack[TurnOptions],
    ) -> Result[Any]:
        """Runs a turn to its end: see :meth:`turn`. It is interrupted after `timeout` seconds, or when this is cancelled."""
        starting = self.turn(message, output=output, on_busy=on_busy, context=context, max_cost=max_cost, **params)
        return await with_timeout(starting, timeout)

    async def running(self) -> AsyncTurn[str] | None:
        """The turn in progress, which any client may have started, from here on followed to its end; None without one.

        It begins with the event `turn/replaced`, which holds the items so far.
        """
        found: list[AsyncTurn[str]] = []

        def opened(_: str, result: Any) -> None:
            turns = result["thread"].get("turns")
            for turn in turns if isinstance(turns, list) else []:
                if not isinstance(turn, dict) or turn.get("status") != "inProgress" or not isinstance(turn.get("id"), str):
                    continue
                feed = self.agent._feed(self._state, is_of_turn=True)
                feed.turn_id = turn["id"]
                event: AnyEvent = Notification("turn/replaced", {"threadId": self.id, "turn": turn}, result.get("eventCursor"))
                feed.put_nowait(event)
                found.append(AsyncTurn(self, turn["id"], feed, None))
                return

        await self.agent._session.open("thread/resume", {"threadId": self.id}, opened)
        return found[0] if found else None

    def events(self, cursor: str | None = None) -> ThreadEvents:
        """All events of the thread, of any turn of any client, without an end.

        Without a cursor they begin now. With the cursor of an event, also of another process, they go on after it; a
        lost connection is mended in the same way. Where the events in between are gone, one event `replaced` holds
        the turns as they are.
        """
        of_type("cursor", cursor, str)
        return ThreadEvents(self, cursor)

    def usage(self) -> ThreadUsage | None:
        """Tokens and cost of the thread as they were reported last; None before a turn has used any in this process."""
        usage = self._state.usage
        return None if usage.tokens is None else ThreadUsage(usage.tokens, usage.cost)

    async def steer(self, message: Input) -> bool:
        """Adds a message to the turn in progress of any client. False when none runs."""
        parts_of(message)
        return await self._steer_running(message) is not None

    async def interrupt(self) -> bool:
        """Ends the turn in progress of any client. False when none runs."""
        turn = await self.running()
        if turn is None:
            return False
        try:
            await turn.interrupt()
        except InvalidRequest:
            # It has ended meanwhile.
            return False
        return True

    async def review(self, target: ReviewTarget | None = None, *, delivery: ReviewDelivery = "inline") -> AsyncTurn[str]:
        """Starts a review of `target`, by default of the changes that are not committed. Like a turn, it begins once the
        one before it has ended.

        Its result has the `review` and, from servers that report them, the `findings`. With the delivery `detached` it
        runs in a fork: `turn.thread` of what this returns.
        """
        of_type("target", target, Mapping)
        request = {"threadId": self.id, "target": target or {"type": "uncommittedChanges"}, "delivery": delivery}
        started = await Start(self.agent, self._state, "review/start", request, end=TurnEnd()).run()
        thread = self if started.state is self._state else AsyncThread(self.agent, started.state)
        return AsyncTurn(thread, started.turn_id, started.feed, None, started.end)

    async def compact(self) -> None:
        """Summarizes the history, so that it takes less of the model's context, in a turn of its own.

        Waits for the end of that turn. Like a turn, it begins once the one before it has ended.
        """
        await compact(self.agent, self._state)

    async def fork(self, *, context: Any = None, **params: Unpack[ForkOptions]) -> AsyncThread:
        """Copies the thread, with its `context` unless another is given."""
        return await self.agent.fork(self.id, context=self._state.context if context is None else context, **params)

    async def rollback(self, turns: int = 1) -> ThreadInfo:
        """Drops the last turns from the thread, and returns the thread with the others. Files stay as they are."""
        return cast("ThreadInfo", (await self._roll_back(turns, {}))["thread"])

    async def undo(self, turns: int = 1, *, dry_run: bool = False, overwrite: bool = False) -> RestoredFiles:
        """Drops the last turns, and undoes what they changed in files. Needs `features.undo` from before the turns on.

        With `dry_run` nothing changes, and the result says what would. Files that something else has changed since are
        `conflicts`, for which nothing at all is done, unless `overwrite` is set.
        """
        of_type("dry_run", dry_run, bool)
        of_type("overwrite", overwrite, bool)
        options = {"restoreFiles": True, "dryRun": dry_run, "overwriteChanges": overwrite}
        return cast("RestoredFiles", (await self._roll_back(turns, options))["files"])

    async def archive(self) -> None:
        """Moves the thread out of the list."""
        await self.agent.request("thread/archive", {"threadId": self.id})

    async def unarchive(self) -> None:
        """Moves the thread back into the list."""
        await self.agent.request("thread/unarchive", {"threadId": self.id})

    async def rename(self, name: str) -> None:
        """Sets the thread's title."""
        of_type("name", name, str)
        await self.agent.request("thread/name/set", {"threadId": self.id, "name": name})

    async def read(self) -> ThreadReadResponse:
        """The stored thread with its turns: the result of `thread/read`."""
        return cast("ThreadReadResponse", await self.agent.request("thread/read", {"threadId": self.id, "includeTurns": True}))

    async def _roll_back(self, turns: int, options: dict[str, Any]) -> Any:
        of_type("turns", turns, int)
        return await self.agent.request("thread/rollback", {"threadId": self.id, "numTurns": turns, **options})

    async def _refuse_if_busy(self) -> None:
        busy = ThreadBusy("a turn or a compaction runs in the thread: wait for its end, or give `on_busy=\"join\"`")
        if self._state.order.locked():
            raise busy
        read = await self.agent.request("thread/read", {"threadId": self.id})
        # Another call of this agent may have begun meanwhile.
        if read["thread"]["status"].get("type") == "active" or self._state.order.locked():
            raise busy

    async def _join(self, message: Input, *, has_options: bool) -> AsyncTurn[Any] | None:
        if not has_options:
            return await self._steer_running(message)
        if await self.running() is not None:
            raise ThreadBusy(
                "a turn runs in the thread, and takes nothing but the message: leave `output`, `context`, `max_cost` and "
                "the parameters of a turn out, or wait for its end"
            )
        return None

    async def _steer_running(self, message: Input) -> AsyncTurn[str] | None:
        for left in range(_STEERING, 0, -1):
            turn = await self.running()
            if turn is None:
                return None
            try:
                await turn.steer(message)
                return turn
            except InvalidRequest as error:
                # It has ended meanwhile, unless it is a review or a compaction, which take no message.
                turn._stop()
                if left == 1 or "ActiveTurnNotSteerable" in str(error.data):
                    raise
        return None
