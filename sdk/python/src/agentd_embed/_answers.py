"""What answers the server: the functions of the caller, without holding up the connection. Without one,
everything is declined."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Union, cast

from ._callbacks import called
from ._connection import Connection, encoded
from .tools import Tool
from .types import McpServerElicitationRequestResponse, ToolRequestUserInputParams, ToolRequestUserInputResponse

#: An answer to an approval: one of these words, or an object of the protocol.
Decision = Union[Literal["accept", "acceptForSession", "decline", "cancel"], dict[str, Any]]


@dataclass(frozen=True)
class Approval:
    """What the agent asks to be allowed."""

    kind: Literal["command", "fileChange", "permissions"]
    #: The parameters of the request, in the shape of the protocol.
    params: dict[str, Any]

    @property
    def command(self) -> str | None:
        """The whole command, of the kind `command`."""
        return self.params.get("command")

    @property
    def reason(self) -> str | None:
        """Why, in the words of the server or the model."""
        return self.params.get("reason")


@dataclass
class Callbacks:
    """What answers the server. A function or a coroutine function each."""

    #: Allows what the agent asks for. Without it everything is declined.
    approve: Callable[[Approval], Any] | None = None
    #: Answers questions of the agent: texts by the id of the question. Without it every question is skipped.
    ask: Callable[[ToolRequestUserInputParams], Any] | None = None
    #: Answers an MCP server. Without it everything is declined.
    elicit: Callable[[dict[str, Any]], Any] | None = None
    tools: dict[str, Tool] = field(default_factory=dict)


_APPROVALS: dict[str, Literal["command", "fileChange", "permissions"]] = {
    "item/commandExecution/requestApproval": "command",
    "item/fileChange/requestApproval": "fileChange",
    "item/permissions/requestApproval": "permissions",
}


class _Refusal(Exception):
    """What the server is answered in place of a result."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _Question:
    """A question of the server, which it asks again on a new connection."""

    def __init__(self, text: str, connection: Connection) -> None:
        self.text = text
        self.connection = connection
        self.reply: dict[str, Any] | None = None


class Answerer:
    """Answers the server, each question once, over whichever connection it was asked last."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._questions: dict[Any, _Question] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def tools(self) -> dict[str, Tool]:
        """Functions that the model can call, by name."""
        return self._callbacks.tools

    def asked(self, connection: Connection, number: Any, method: str, params: dict[str, Any]) -> None:
        """Begins to answer a request, or takes it as the repetition of one."""
        text = json.dumps([method, params])
        known = self._questions.get(number)
        if known is not None and known.text == text:
            known.connection = connection
            if known.reply is not None:
                self._begin(connection.reply(number, known.reply))
            return
        question = self._questions[number] = _Question(text, connection)
        self._begin(self._answer(question, number, method, params))

    def resolved(self, number: Any) -> None:
        """The server has an answer, here or from another client."""
        if isinstance(number, (int, str)):
            self._questions.pop(number, None)

    async def close(self) -> None:
        """Gives up what is being answered."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, question: _Question, number: Any, method: str, params: dict[str, Any]) -> None:
        try:
            reply: dict[str, Any] = {"result": await self._result(method, params)}
            encoded(reply)  # An answer that JSON has no counterpart of is the callback's failure, too.
        except _Refusal as refusal:
            reply = {"error": {"code": refusal.code, "message": refusal.message}}
        except Exception as error:  # The server has to be answered whatever a callback raises.
            reply = {"error": {"code": -32603, "message": f"{type(error).__name__}: {error}"}}
        question.reply = reply
        await question.connection.reply(number, reply)

    async def _result(self, method: str, params: dict[str, Any]) -> Any:
        callbacks = self._callbacks
        if kind := _APPROVALS.get(method):
            return await self._approve(Approval(kind, params))
        if method == "item/tool/requestUserInput":
            if callbacks.ask is None:
                skipped: ToolRequestUserInputResponse = {"answers": {}}
                return skipped
            answers = await called(callbacks.ask, params)
            texts = {key: [it] if isinstance(it, str) else list(it) for key, it in answers.items()}
            return {"answers": {key: {"answers": it} for key, it in texts.items()}}
        if method == "mcpServer/elicitation/request":
            declined: McpServerElicitationRequestResponse = {"action": "decline"}
            return await called(callbacks.elicit, params) if callbacks.elicit else declined
        if method == "item/tool/call":
            tool = callbacks.tools.get(str(params.get("tool")))
            if tool is None:
                raise _Refusal(-32602, f"this client has no tool `{params.get('tool')}`")
            return await tool.answer(cast(Any, params))
        raise _Refusal(-32601, f"this client does not answer `{method}`")

    async def _approve(self, approval: Approval) -> Any:
        approve = self._callbacks.approve
        decision: Any = await called(approve, approval) if approve else "decline"
        if decision is True or decision is False:
            decision = "accept" if decision else "decline"
        if approval.kind != "permissions":
            return {"decision": decision}
        if isinstance(decision, dict):
            return decision
        granted = approval.params.get("permissions", {}) if decision in ("accept", "acceptForSession") else {}
        scope = "session" if decision == "acceptForSession" else "turn"
        return {"permissions": granted, "scope": scope}
