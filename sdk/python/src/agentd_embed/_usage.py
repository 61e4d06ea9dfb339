"""Tokens and cost of turns and threads."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Union, cast

if TYPE_CHECKING:
    from .types import ThreadTokenUsage, TokenUsageBreakdown

#: An amount of money, in the currency of the server: US dollars.
Amount = Union[Decimal, int, float, str]


@dataclass(frozen=True)
class Cost:
    """What a turn costs so far. An amount whose price is not known is None, never 0."""

    #: `USD`.
    currency: str
    #: Of the last model request.
    last: Decimal | None
    #: Of the turn, without its agents.
    turn: Decimal | None
    #: Of the turn with its agents.
    turn_with_agents: Decimal | None
    #: Of the whole thread, without its agents.
    thread: Decimal | None


@dataclass(frozen=True)
class ThreadUsage:
    """Tokens and cost of a thread, as the server reported them last."""

    tokens: ThreadTokenUsage
    #: None where the server does not report costs.
    cost: Cost | None


class UsageRecord:
    """The newest reports about a turn or a thread."""

    def __init__(self) -> None:
        self.tokens: ThreadTokenUsage | None = None
        self.cost: Cost | None = None
        self._before: dict[str, int] | None = None

    def take(self, usage: dict[str, Any]) -> None:
        """Takes the `tokenUsage` of a notification."""
        if self._before is None:
            total, last = _counts(usage.get("total")), _counts(usage.get("last"))
            self._before = {name: count - last.get(name, 0) for name, count in total.items()}
        self.tokens = cast("ThreadTokenUsage", usage)
        # One that is sent again after a reconnection has no cost.
        self.cost = cost_of(usage) or self.cost

    def since_first(self) -> TokenUsageBreakdown | None:
        """The tokens from the request of the first report on: those of a turn."""
        if self.tokens is None:
            return None
        before = self._before or {}
        counts = _counts(self.tokens.get("total"))
        return cast("TokenUsageBreakdown", {name: count - before.get(name, 0) for name, count in counts.items()})


def cost_of(usage: dict[str, Any]) -> Cost | None:
    """The cost in a `tokenUsage`."""
    cost = usage.get("cost")
    if not isinstance(cost, dict):
        return None
    names = ("last", "turn", "turnWithAgents", "thread")
    return Cost(str(cost.get("currency")), *(_decimal(cost.get(name)) for name in names))


def amount(name: str, given: Amount) -> Decimal:
    """An amount that a user gave. Raises :class:`TypeError` or :class:`ValueError` with the argument's name."""
    if isinstance(given, bool) or not isinstance(given, (Decimal, int, float, str)):
        raise TypeError(f"`{name}` is of the type {type(given).__name__}, and no number")
    try:
        found = Decimal(str(given))
    except InvalidOperation:
        raise ValueError(f"`{name}` is {given!r}, and no number") from None
    if not found.is_finite() or found < 0:
        raise ValueError(f"`{name}` is {given!r}, and no amount of 0 or more")
    return found


def _decimal(text: Any) -> Decimal | None:
    try:
        return Decimal(text) if isinstance(text, str) else None
    except InvalidOperation:
        return None


def _counts(breakdown: Any) -> dict[str, int]:
    return {name: it for name, it in breakdown.items() if isinstance(it, int)} if isinstance(breakdown, dict) else {}
