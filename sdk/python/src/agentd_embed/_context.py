"""The context that callbacks and tools get: for whom they run, and whether their answer is still wanted."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

from .errors import CallbackCancelled


class ToolContext:
    """What a tool or another callback runs for. It gets one by a parameter with this annotation, under any name,
    which the model does not see."""

    def __init__(self, thread_id: str | None, turn_id: str | None, call_id: str | None, user: Any) -> None:
        #: The thread; of a sub-agent, its own.
        self.thread_id = thread_id
        #: The turn, which ends the callback with its own end.
        self.turn_id = turn_id
        #: The call of a tool, or the item that an approval or a question is about.
        self.call_id = call_id
        #: The application's own value: `context` of the turn, else of the thread; of a sub-agent, that of the turn that
        #: gave it its work.
        self.user = user
        self._cancelled = threading.Event()

    @property
    def is_cancelled(self) -> bool:
        """Whether the answer is no longer wanted: the turn has ended, or another client has answered."""
        return self._cancelled.is_set()

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """For functions in a thread: a pause of `timeout` seconds that cancellation cuts short. True if it did."""
        return self._cancelled.wait(timeout)

    def raise_if_cancelled(self) -> None:
        """Raises :class:`CallbackCancelled` when the answer is no longer wanted."""
        if self.is_cancelled:
            raise CallbackCancelled("the answer is no longer wanted: the turn has ended, or another client has answered")

    def cancel(self) -> None:
        """Sets :attr:`is_cancelled`."""
        self._cancelled.set()


def context_parameter(function: Callable[..., Any]) -> str | None:
    """The name of the parameter that takes the context, if there is one."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        # Some functions written in C.
        return None
    return next((name for name, it in parameters.items() if is_context(it.annotation)), None)


def is_context(annotation: Any) -> bool:
    """Whether an annotation, evaluated or not, is :class:`ToolContext`."""
    if isinstance(annotation, str):
        return annotation.strip("'\"").rpartition(".")[2] == ToolContext.__name__
    return annotation is ToolContext
