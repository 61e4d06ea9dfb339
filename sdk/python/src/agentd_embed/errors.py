"""What can go wrong, by kind. Everything that this package raises by itself is an :class:`AgentdError`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._usage import Cost
    from .types import ThreadItem, ThreadTokenUsage, TurnError


class AgentdError(Exception):
    """The base of all errors of this package.

    An error of a turn says how far the turn came; an :class:`asyncio.CancelledError` of a turn has the same
    attributes.
    """

    #: The thread of the turn; none when the error is not one of a turn.
    thread_id: str | None = None
    turn_id: str | None = None
    #: The answer as far as it was received.
    text: str = ""
    #: The items that were completed, in their order.
    items: list[ThreadItem]
    #: The tokens, as far as they were reported.
    usage: ThreadTokenUsage | None = None
    #: The cost, as far as it was reported.
    cost: Cost | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.items = []


class ProgramNotFound(AgentdError):
    """The program `agentd` is nowhere to be found."""


class FolderNotFound(AgentdError):
    """The working folder of the server that is to be started is not there."""


class ConnectionLost(AgentdError):
    """The server ended, or what it wrote is not the protocol. Every call in progress raises this."""


class ReplayMismatch(ConnectionLost):
    """In a replay, a message is another one than in the recording: `expected` and `actual`."""

    def __init__(self, where: str, expected: Any, actual: Any) -> None:
        if actual is None:
            super().__init__(where)
        else:
            was = "there is no further message" if expected is None else f"the recording has {json.dumps(expected)}"
            super().__init__(f"{where}: {was}, and this session sends {json.dumps(actual)}")
        self.expected: Any = expected
        self.actual: Any = actual


class VersionMismatch(AgentdError):
    """The server is older or newer than this package can work with."""

    def __init__(self, server: str, wanted: str) -> None:
        super().__init__(
            f"the server is version {server or 'unknown'}, this package works with {wanted}: "
            "update the older of the two"
        )
        self.server = server
        self.wanted = wanted


class RequestError(AgentdError):
    """The server refused a request."""

    def __init__(self, method: str, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{method}: {message}")
        self.method = method
        self.code = code
        self.message = message
        self.data = data


class InvalidRequest(RequestError):
    """The request cannot be answered in this state, or what it names does not exist."""


class MethodNotFound(RequestError):
    """The server has no such method, or it is experimental and was not enabled."""


class InvalidParams(RequestError):
    """The parameters have the wrong shape."""


class InternalError(RequestError):
    """The server failed: its log says more."""


class Overloaded(RequestError):
    """The server has too much to do, and had it after the retries, too: try again later."""


_KINDS: dict[int, type[RequestError]] = {
    -32600: InvalidRequest,
    -32601: MethodNotFound,
    -32602: InvalidParams,
    -32603: InternalError,
    -32001: Overloaded,
}


def request_error(method: str, error: Any) -> RequestError:
    """The error of a refused request, by its code."""
    code = error.get("code") if isinstance(error, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    code = code if isinstance(code, int) else 0
    kind = _KINDS.get(code, RequestError)
    data = error.get("data") if isinstance(error, dict) else None
    return kind(method, code, message if isinstance(message, str) else repr(error), data)


class TurnFailed(AgentdError):
    """A turn ended with an error. `error` is what the server said, `kind` its `agentErrorInfo`."""

    def __init__(self, error: TurnError | None) -> None:
        super().__init__(error["message"] if error else "the turn failed without a reason")
        self.error = error
        self.kind = error.get("agentErrorInfo") if error else None


class TurnInterrupted(AgentdError):
    """A turn was interrupted, here or by another client."""


class TurnTimeout(AgentdError):
    """A turn took longer than it may, and was interrupted."""


class BudgetExceeded(AgentdError):
    """A turn cost more than its `max_cost`, or an unknown amount, and was interrupted. `cost` says how much."""


class ThreadBusy(AgentdError):
    """Another turn or compaction runs in the thread, and `on_busy` is `error`."""


class InvalidOutput(AgentdError):
    """The answer of a turn does not have the shape that was asked for. `text` is the answer."""

    def __init__(self, why: str, text: str) -> None:
        super().__init__(f"the answer does not have the wanted shape: {why}")
        self.text = text


class TooManyCallbacks(AgentdError):
    """A callback was not called, because too many run."""


class CallbackCancelled(AgentdError):
    """Raised by :meth:`ToolContext.raise_if_cancelled`: the answer of the callback is no longer wanted."""


class ToolError(Exception):
    """Raise it in a tool to tell the model what went wrong: its text is the result of the call."""
