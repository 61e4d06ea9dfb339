"""Threads and turns for programs without `asyncio`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ._event_types import Event
from ._input import Input
from ._params import ForkOptions, OnBusy, TurnOptions
from ._result import Result
from ._thread import AsyncThread
from ._turn import AsyncTurn
from ._usage import Amount, ThreadUsage

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._synchronous import Agent
    from .types import (
        QueuedSubmission,
        RestoredFiles,
        ReviewDelivery,
        ReviewTarget,
        ThreadGoal,
        ThreadGoalStatus,
        ThreadQueueListResponse,
        ThreadReadResponse,
        ThreadSearchOccurrence,
    )
    from .types import Thread as ThreadInfo

T = TypeVar("T")


class Thread:
    """A conversation with the agent: see :class:`AsyncThread`."""

    def __init__(self, agent: Agent, thread: AsyncThread) -> None:
        self.agent = agent
        self._thread = thread

    @property
    def id(self) -> str:
        """The thread's id."""
        return self._thread.id

    @property
    def cursor(self) -> str | None:
        """The newest cursor that was handed out."""
        return self._thread.cursor

    @overload
    def turn(
        self, message: Input, *, output: None = None, on_busy: OnBusy = ..., context: Any = ...,
        max_cost: Amount | None = ..., **params: Unpack[TurnOptions],
    ) -> Turn[str]: ...

    @overload
    def turn(
        self, message: Input, *, output: type[T], on_busy: OnBusy = ..., context: Any = ...,
        max_cost: Amount | None = ..., **params: Unpack[TurnOptions],
    ) -> Turn[T]: ...

    @overload
    def turn(
        self, message: Input, *, output: Mapping[str, Any], on_busy: OnBusy = ..., context: Any = ...,
        max_cost: Amount | None = ..., **params: Unpack[TurnOptions],
    ) -> Turn[Any]: ...

    def turn(self, message: Input, *, output: Any = None, **options: Any) -> Turn[Any]:
        """Starts a turn: see :meth:`AsyncThread.turn`."""
        return Turn(self.agent, self.agent._run(self._thread.turn(message, output=output, **options)))

    @overload
    def run(
        self, message: Input, *, output: None = None, timeout: float | None = ..., on_busy: OnBusy = ...,
        context: Any = ..., max_cost: Amount | None = ..., **params: Unpack[TurnOptions],
    ) -> Result[str]: ...

    @overload
    def run(
        self, message: Input, *, output: type[T], timeout: float | None = ..., on_busy: OnBusy = ...,
        context: Any = ..., max_cost: Amount | None = ..., **params: Unpack[TurnOptions],
    ) -> Result[T]: ...

    @overload
    def run(
        self, message: Input, *, output: Mapping[str, Any], timeout: float | None = ..., on_busy: OnBusy = ...,
        context: Any = ..., max_cost: Amount | None = ..., **params: Unpack[TurnOptions],
    ) -> Result[Any]: ...

    def run(self, message: Input, *, output: Any = None, **options: Any) -> Result[Any]:
        """Runs a turn to its end. It is interrupted after `timeout` seconds, and by Ctrl+C."""
        return self.agent._run(self._thread.run(message, output=output, **options))

    def running(self) -> Turn[str] | None:
        """The turn in progress, which any client may have started; None without one."""
        turn = self.agent._run(self._thread.running())
        return None if turn is None else Turn(self.agent, turn)

    def events(self, cursor: str | None = None) -> Iterator[Event]:
        """All events of the thread, of any turn of any client, without an end: see :meth:`AsyncThread.events`."""

        async def opened() -> AsyncIterator[Event]:
            return self._thread.events(cursor)

        return each_of(self.agent, self.agent._run(opened()))

    def usage(self) -> ThreadUsage | None:
        """Tokens and cost of the thread as they were reported last."""
        return self._thread.usage()

    def steer(self, message: Input) -> bool:
        """Adds a message to the turn in progress of any client. False when none runs."""
        return self.agent._run(self._thread.steer(message))

    def interrupt(self) -> bool:
        """Ends the turn in progress of any client. False when none runs."""
        return self.agent._run(self._thread.interrupt())

    def review(self, target: ReviewTarget | None = None, *, delivery: ReviewDelivery = "inline") -> Turn[str]:
        """Starts a review: see :meth:`AsyncThread.review`."""
        return Turn(self.agent, self.agent._run(self._thread.review(target, delivery=delivery)))

    def compact(self) -> None:
        """Summarizes the history, so that it takes less of the model's context, and waits for the end of that."""
        self.agent._run(self._thread.compact())

    def fork(self, *, context: Any = None, **params: Unpack[ForkOptions]) -> Thread:
        """Copies the thread, with its `context` unless another is given."""
        return Thread(self.agent, self.agent._run(self._thread.fork(context=context, **params)))

    def rollback(self, turns: int = 1) -> ThreadInfo:
        """Drops the last turns from the thread. Files stay as they are."""
        return self.agent._run(self._thread.rollback(turns))

    def undo(self, turns: int = 1, *, dry_run: bool = False, overwrite: bool = False) -> RestoredFiles:
        """Drops the last turns, and undoes what they changed in files: see :meth:`AsyncThread.undo`."""
        return self.agent._run(self._thread.undo(turns, dry_run=dry_run, overwrite=overwrite))

    def goal(self) -> ThreadGoal | None:
        """The goal of the thread; None without one."""
        return self.agent._run(self._thread.goal())

    def set_goal(
        self,
        objective: str | None = None,
        *,
        token_budget: int | None = None,
        status: ThreadGoalStatus | None = None,
    ) -> ThreadGoal:
        """Sets the goal, or what is given of it: see :meth:`AsyncThread.set_goal`."""
        return self.agent._run(self._thread.set_goal(objective, token_budget=token_budget, status=status))

    def clear_goal(self) -> bool:
        """Removes the goal. False when there was none."""
        return self.agent._run(self._thread.clear_goal())

    def queue(self, message: Input, *, client_id: str | None = None) -> QueuedSubmission:
        """Appends a message to the queue of the thread: see :meth:`AsyncThread.queue`."""
        return self.agent._run(self._thread.queue(message, client_id=client_id))

    def queued(self) -> ThreadQueueListResponse:
        """The queue: its messages in order are the `data`, and `pause` says why they wait while no turn runs."""
        return self.agent._run(self._thread.queued())

    def update_queued(self, queued_id: str, message: Input) -> QueuedSubmission:
        """Replaces a queued message, which keeps its place."""
        return self.agent._run(self._thread.update_queued(queued_id, message))

    def delete_queued(self, queued_id: str) -> bool:
        """Deletes a queued message. False when the queue has none of this id: its turn may have started."""
        return self.agent._run(self._thread.delete_queued(queued_id))

    def reorder_queue(self, queued_ids: Sequence[str]) -> None:
        """Sets the order of the queue: the id of each queued message once."""
        self.agent._run(self._thread.reorder_queue(queued_ids))

    def start_queue(self, queued_id: str | None = None) -> Turn[str]:
        """Starts the turn of a queued message: see :meth:`AsyncThread.start_queue`."""
        return Turn(self.agent, self.agent._run(self._thread.start_queue(queued_id)))

    def search(self, text: str, *, limit: int | None = None) -> Iterator[ThreadSearchOccurrence]:
        """The messages of the thread that contain a text, the newest first; at most `limit`."""
        return each_of(self.agent, self._thread.search(text, limit=limit))

    def archive(self) -> None:
        """Moves the thread out of the list."""
        self.agent._run(self._thread.archive())

    def unarchive(self) -> None:
        """Moves the thread back into the list."""
        self.agent._run(self._thread.unarchive())

    def rename(self, name: str) -> None:
        """Sets the thread's title."""
        self.agent._run(self._thread.rename(name))

    def read(self) -> ThreadReadResponse:
        """The stored thread with its turns: the result of `thread/read`."""
        return self.agent._run(self._thread.read())


class Turn(Generic[T]):
    """A turn in progress: an iterator over its events.

    Ctrl+C interrupts the turn while this waits for its events or its end. Leaving an iteration early does not.
    """

    def __init__(self, agent: Agent, turn: AsyncTurn[T]) -> None:
        self._agent = agent
        self._turn = turn

    @property
    def id(self) -> str:
        """The turn's id."""
        return self._turn.id

    @property
    def thread(self) -> Thread:
        """The thread that it runs in."""
        return Thread(self._agent, self._turn.thread)

    def __iter__(self) -> Iterator[Event]:
        return each_of(self._agent, self._turn.__aiter__(), self._interrupted)

    def text(self, *, commentary: bool = False) -> Iterator[str]:
        """The answer as it is written; with `commentary` also what the agent says on the way, in its place."""
        return each_of(self._agent, self._turn.text(commentary=commentary), self._interrupted)

    def commentary(self) -> Iterator[str]:
        """What the agent says on the way, as it is written, in place of :meth:`text`."""
        return each_of(self._agent, self._turn.commentary(), self._interrupted)

    def result(self, timeout: float | None = None) -> Result[T]:
        """Waits for the end."""
        return self._agent._run(self._turn.result(timeout))

    def steer(self, message: Input) -> None:
        """Adds a message to the turn."""
        self._agent._run(self._turn.steer(message))

    def interrupt(self) -> None:
        """Ends the turn."""
        self._agent._run(self._turn.interrupt())

    def _interrupted(self) -> None:
        # It can come between two waits, which then cancels nothing.
        if self._turn._failure is None:
            self._agent._run(self._turn._give_up())


def each_of(agent: Agent, items: AsyncIterator[T], interrupted: Callable[[], None] | None = None) -> Iterator[T]:
    """The items of an iterator of the loop. `interrupted` is called at Ctrl+C."""

    async def following() -> T:
        return await items.__anext__()

    while True:
        try:
            item = agent._run(following())
        except StopAsyncIteration:
            return
        except KeyboardInterrupt:
            if interrupted is not None:
                interrupted()
            raise
        yield item
