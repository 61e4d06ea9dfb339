"""The queue of a thread, whose messages wait on the server for turns of their own, and the search in the thread."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from ._input import Input, parts_of
from ._order import TurnEnd
from ._params import of_type
from ._run import Start
from ._state import ThreadState
from ._turn import AsyncTurn

if TYPE_CHECKING:
    from ._agent import AsyncAgent
    from ._thread import AsyncThread
    from .types import QueuedSubmission, ThreadQueueListResponse, ThreadSearchOccurrence

#: Occurrences that one request asks for.
_PAGE = 100


class QueueMethods:
    """The part of a thread that is about messages that wait, and about what was said."""

    agent: AsyncAgent
    id: str
    _state: ThreadState

    async def queue(self, message: Input, *, client_id: str | None = None) -> QueuedSubmission:
        """Appends a message to the queue of the thread. It gets a turn of its own once those before it have ended.

        The server keeps the queue: the turn follows even when this program has ended. `client_id` is the id of the
        turn's user message, by default a random one. The same id and message again, as after a lost connection, does
        not add a second message while the first one waits.
        """
        parts = parts_of(message)
        of_type("client_id", client_id, str)
        request = {"input": parts, "clientUserMessageId": str(uuid.uuid4()) if client_id is None else client_id}
        return cast("QueuedSubmission", (await self._ask("thread/queue/add", request))["queuedSubmission"])

    async def queued(self) -> ThreadQueueListResponse:
        """The queue: its messages in order are the `data`, and `pause` says why they wait while no turn runs."""
        return cast("ThreadQueueListResponse", await self._ask("thread/queue/list", {}))

    async def update_queued(self, queued_id: str, message: Input) -> QueuedSubmission:
        """Replaces a queued message, which keeps its place."""
        of_type("queued_id", queued_id, str)
        request = {"queuedSubmissionId": queued_id, "input": parts_of(message)}
        return cast("QueuedSubmission", (await self._ask("thread/queue/update", request))["queuedSubmission"])

    async def delete_queued(self, queued_id: str) -> bool:
        """Deletes a queued message. False when the queue has none of this id: its turn may have started."""
        of_type("queued_id", queued_id, str)
        return bool((await self._ask("thread/queue/delete", {"queuedSubmissionId": queued_id})).get("deleted"))

    async def reorder_queue(self, queued_ids: Sequence[str]) -> None:
        """Sets the order of the queue: the id of each queued message once."""
        if isinstance(queued_ids, str):
            raise TypeError("`queued_ids` is of the type str, not a sequence of ids")
        await self._ask("thread/queue/reorder", {"queuedSubmissionIds": list(queued_ids)})

    async def start_queue(self, queued_id: str | None = None) -> AsyncTurn[str]:
        """Starts the turn of a queued message, by default of the first one, and ends a pause of the queue.

        Like a turn, it begins once the one before it has ended.
        """
        of_type("queued_id", queued_id, str)
        request = {"threadId": self.id, **({} if queued_id is None else {"queuedSubmissionId": queued_id})}
        started = await Start(self.agent, self._state, "thread/queue/start", request, end=TurnEnd()).run()
        return AsyncTurn(cast("AsyncThread", self), started.turn_id, started.feed, None, started.end)

    async def search(self, text: str, *, limit: int | None = None) -> AsyncIterator[ThreadSearchOccurrence]:
        """The messages of the thread that contain a text, the newest first; at most `limit`."""
        of_type("text", text, str)
        left = of_type("limit", limit, int)
        cursor: str | None = None
        while left is None or left > 0:
            size = _PAGE if left is None else min(left, _PAGE)
            request = {"searchTerm": text, "limit": size, "cursor": cursor}
            page = await self._ask("thread/searchOccurrences", request)
            for occurrence in page["data"]:
                yield occurrence
            left = None if left is None else left - len(page["data"])
            cursor = page.get("nextCursor")
            if cursor is None:
                return

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        return await self.agent.request(method, {"threadId": self.id, **params})
