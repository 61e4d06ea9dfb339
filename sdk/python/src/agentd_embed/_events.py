"""Events: the notifications of the server, with their position in their thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

M = TypeVar("M", covariant=True)
P = TypeVar("P", covariant=True)

#: Events that only show progress: the item that they are about holds all of it when it is completed.
_DELTAS = {
    "item/agentMessage/delta",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/plan/delta",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
}
_PROGRESS = _DELTAS | {
    "item/commandExecution/running",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
    "item/reasoning/summaryPartAdded",
    "turn/diff/updated",
    "turn/plan/updated",
}


@dataclass(frozen=True)
class Notification(Generic[M, P]):
    """A notification: `method` and `params` are those of the protocol. :data:`Event` is the union of all of them.

    Two methods are this package's own. `turn/replaced` stands for events of a turn that are gone: its `turn` holds
    the items so far. `replaced` stands for events of a thread that are gone: see :class:`ReplacedParams`.
    """

    method: M
    params: P
    #: The position after this event: :meth:`AsyncThread.events` goes on from there.
    cursor: str | None = None
    #: Bytes of the message.
    size: int = field(default=0, repr=False, compare=False)
    #: How many events of the thread were received before, to find the newest cursor.
    order: int = field(default=0, repr=False, compare=False)

    @property
    def text(self) -> str:
        """What a message of the agent grows by; empty for every other event."""
        return str(_params(self).get("delta", "")) if self.method == "item/agentMessage/delta" else ""

    @property
    def turn_id(self) -> Any:
        """The turn that it is about."""
        turn = _params(self).get("turn")
        return turn.get("id") if isinstance(turn, dict) else _params(self).get("turnId")


#: An event whose type is not known.
AnyEvent = Notification[Any, Any]


def thread_of(params: dict[str, Any]) -> str | None:
    """The thread that a notification is about."""
    thread = params.get("threadId")
    if thread is None and isinstance(params.get("thread"), dict):
        thread = params["thread"].get("id")
    return thread if isinstance(thread, str) else None


def is_progress(event: AnyEvent) -> bool:
    """Whether later events hold all that this one says."""
    return event.method in _PROGRESS


def stream_of(event: AnyEvent) -> tuple[Any, ...] | None:
    """The stream of text that a delta continues; None for other events."""
    params = event.params
    if event.method not in _DELTAS or not isinstance(params.get("delta"), str):
        return None
    return (event.method, *(params.get(name) for name in ("turnId", "itemId", "contentIndex", "summaryIndex")))


def _params(event: AnyEvent) -> dict[str, Any]:
    params: dict[str, Any] = event.params
    return params
