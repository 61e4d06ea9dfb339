"""The result of a turn, and how far a turn has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, cast

from ._events import AnyEvent
from ._usage import Cost, UsageRecord

if TYPE_CHECKING:
    from .types import ThreadItem, ThreadTokenUsage, TokenUsageBreakdown, Turn

T = TypeVar("T")


class _FindingRequired(TypedDict):
    title: str


class FindingLocation(TypedDict, total=False):
    """The lines that a finding is about."""

    path: str
    #: From 1.
    startLine: int
    endLine: int


class Finding(_FindingRequired, total=False):
    """A finding of a review."""

    body: str
    #: 0 is the most urgent, 3 the least.
    priority: int
    #: From 0 to 1.
    confidence: float
    location: FindingLocation


@dataclass(frozen=True)
class Result(Generic[T]):
    """A turn that has ended."""

    #: The answer: the agent's last message that is no commentary.
    text: str
    #: The same as it was asked for with `output`; the text without.
    output: T
    items: list[ThreadItem]
    #: The tokens of the thread (`total`) and of the last request (`last`).
    usage: ThreadTokenUsage | None
    turn: Turn
    #: What the agent said on the way, in its order.
    commentary: list[str]
    #: The tokens of this turn alone.
    turn_usage: TokenUsageBreakdown | None
    #: None where the server does not report costs.
    cost: Cost | None
    #: The text of a review; None of every other turn.
    review: str | None = None
    #: The findings of a review; None where the server does not report them apart from the text.
    findings: list[Finding] | None = None
    #: The review's own summary of its findings.
    explanation: str | None = None


class TurnRecord:
    """What is known of a turn: its items, its texts, its tokens and its cost."""

    def __init__(self) -> None:
        self.items: dict[str, ThreadItem] = {}
        self.usage = UsageRecord()
        #: The texts of messages that are not completed, by item.
        self._written: dict[str, list[str]] = {}
        self._commentary: set[str] = set()

    def take(self, event: AnyEvent) -> None:
        """Takes an event of the turn, whose content has the shape of the protocol."""
        params = event.params
        if event.method == "item/agentMessage/delta":
            self._written.setdefault(str(params.get("itemId")), []).append(event.text)
        elif event.method == "item/started":
            self.note_phase(params.get("item"))
        elif event.method == "item/completed":
            self._complete(params["item"])
        elif event.method == "thread/tokenUsage/updated":
            self.usage.take(params["tokenUsage"])
        elif event.method == "turn/replaced":
            is_running = params["turn"]["status"] == "inProgress"
            for item in params["turn"]["items"]:
                self._complete(item)
                if is_running and item.get("type") == "agentMessage":
                    # It may go on: its deltas continue from here.
                    self._written[str(item.get("id"))] = [str(item.get("text", ""))]

    def note_phase(self, item: Any) -> None:
        """Remembers whether a message is commentary."""
        if isinstance(item, dict) and item.get("type") == "agentMessage" and item.get("phase") == "commentary":
            self._commentary.add(str(item.get("id")))

    def is_commentary(self, item_id: str) -> bool:
        """Whether a message is commentary; known from its beginning on."""
        return item_id in self._commentary

    def messages(self, *, is_commentary: bool) -> list[str]:
        """The messages of one kind, in their order."""
        texts = {
            name: str(item.get("text", "")) for name, item in self.items.items() if item.get("type") == "agentMessage"
        }
        texts.update({name: "".join(parts) for name, parts in self._written.items()})
        return [text for name, text in texts.items() if self.is_commentary(name) == is_commentary]

    @property
    def text(self) -> str:
        """The answer so far."""
        messages = self.messages(is_commentary=False)
        return messages[-1] if messages else ""

    def attach(self, error: BaseException, thread_id: str, turn_id: str) -> None:
        """Gives an error what is known of the turn."""
        known: Any = error
        known.thread_id, known.turn_id = thread_id, turn_id
        known.text = self.text
        known.items = list(self.items.values())
        known.usage, known.cost = self.usage.tokens, self.usage.cost

    def result(self, turn: Turn, output: Any) -> Result[Any]:
        """The result, with the output that was made of the text."""
        ends: list[Any] = [it for it in self.items.values() if it.get("type") == "exitedReviewMode"]
        review: Mapping[str, Any] = ends[-1] if ends else {}
        return Result(
            text=self.text,
            output=output,
            items=list(self.items.values()),
            usage=self.usage.tokens,
            turn=turn,
            commentary=self.messages(is_commentary=True),
            turn_usage=self.usage.since_first(),
            cost=self.usage.cost,
            review=review.get("review"),
            findings=cast("list[Finding] | None", review.get("findings")),
            explanation=review.get("explanation"),
        )

    def _complete(self, item: Any) -> None:
        if not isinstance(item, dict):
            return
        self.note_phase(item)
        self._written.pop(str(item.get("id")), None)
        self.items[str(item.get("id"))] = cast("ThreadItem", item)
