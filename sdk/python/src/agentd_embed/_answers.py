"""What answers the server: the functions of the caller, without holding up the connection. Without one,
everything is declined."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Union

from ._callbacks import CallbackThreads
from ._connection import Connection, encoded
from ._context import ToolContext
from .errors import ToolError
from .tools import Tool

if TYPE_CHECKING:
    from .types import (
        DynamicToolCallResponse,
        McpServerElicitationRequestResponse,
        ToolRequestUserInputParams,
    )

#: An answer to an approval: one of these words, or an object of the protocol.
Decision = Union[Literal["accept", "acceptForSession", "decline", "cancel"], dict[str, Any]]

_log = logging.getLogger("agentd_embed")


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
    approve: Callable[..., Any] | None = None
    #: Answers questions of the agent: texts by the id of the question. Without it every question is skipped.
    ask: Callable[..., Any] | None = None
    #: Answers an MCP server. Without it everything is declined.
    elicit: Callable[..., Any] | None = None
    tools: dict[str, Tool] = field(default_factory=dict)
    #: Learns of what a callback raised, with the context of the callback.
    on_error: Callable[..., Any] | None = None
    #: The model reads what tools raise, whatever it is.
    sends_errors: bool = False


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

    def __init__(self, text: str, connection: Connection, context: ToolContext) -> None:
        self.text = text
        self.connection = connection
        self.context = context
        self.reply: dict[str, Any] | None = None
        self.task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """Ends the callback: its answer is no longer wanted."""
        self.context.cancel()
        if self.reply is None and self.task is not None:
            self.task.cancel()


class Answerer:
    """Answers the requests of the server. `user_of` has the application's value for a thread and a turn."""

    def __init__(self, callbacks: Callbacks, user_of: Callable[[Any, Any], Any]) -> None:
        self._callbacks = callbacks
        self._user_of = user_of
        self._threads = CallbackThreads()
        self._tasks: set[asyncio.Task[None]] = set()
        #: By the id that the server gave them, until they are resolved or their turn ends.
        self._questions: dict[Any, _Question] = {}

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
        thread, turn = _text(params, "threadId"), _text(params, "turnId")
        call = _text(params, "callId") or _text(params, "itemId")
        context = ToolContext(thread, turn, call, self._user_of(thread, turn))
        question = self._questions[number] = _Question(text, connection, context)
        question.task = self._begin(self._answer(question, number, method, params))

    def resolved(self, number: Any) -> None:
        """The server has an answer, here or from another client."""
        if isinstance(number, (int, str)):
            question = self._questions.pop(number, None)
            if question is not None:
                question.cancel()

    def ended(self, thread: Any, turn: Any) -> None:
        """A turn has ended: its questions are obsolete."""
        for number, question in list(self._questions.items()):
            if question.context.turn_id is not None and (question.context.thread_id, question.context.turn_id) == (thread, turn):
                self.resolved(number)

    def still_open(self, thread: str, numbers: list[Any]) -> None:
        """The questions of a thread that are open on a new connection: every other one has been resolved."""
        for number, question in list(self._questions.items()):
            if question.context.thread_id == thread and number not in numbers:
                self.resolved(number)

    def lost(self) -> None:
        """No answer can be given any longer."""
        for number in list(self._questions):
            self.resolved(number)

    async def close(self) -> None:
        """Gives up what is being answered."""
        self.lost()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _answer(self, question: _Question, number: Any, method: str, params: dict[str, Any]) -> None:
        try:
            reply: dict[str, Any] = {"result": await self._result(method, params, question.context)}
            try:
                encoded(reply)
            except (TypeError, ValueError) as error:
                raise _WrongAnswer(f"the answer of the client's callback is no JSON: {error}") from error
        except _Refusal as refusal:
            reply = {"error": {"code": refusal.code, "message": refusal.message}}
        except Exception as error:  # The server has to be answered whatever a callback raises.
            self._report(f"the callback for `{method}`", error, question.context)
            # Its text may reach the model.
            is_shape = isinstance(error, _WrongAnswer)
            reply = {"error": {"code": -32603, "message": str(error) if is_shape else "the client's callback failed"}}
        question.reply = reply
        await question.connection.reply(number, reply)

    def _report(self, what: str, error: Exception, context: ToolContext) -> None:
        _log.error("%s failed (thread %s, turn %s)", what, context.thread_id, context.turn_id, exc_info=error)
        if self._callbacks.on_error is not None:
            # The answer does not wait for it.
            self._begin(self._call_on_error(self._callbacks.on_error, error, context))

    async def _call_on_error(self, on_error: Callable[..., Any], error: Exception, context: ToolContext) -> None:
        try:
            await self._threads.call(on_error, None, error, context)
        except Exception:  # It is the last place that could learn of it.
            _log.exception("`on_error` failed")

    async def _result(self, method: str, params: dict[str, Any], context: ToolContext) -> Any:
        callbacks, call = self._callbacks, self._threads.call
        if kind := _APPROVALS.get(method):
            return await self._approve(Approval(kind, params), context)
        if method == "item/tool/requestUserInput":
            if callbacks.ask is None:
                # The server leaves the question to other clients, or has the model decide.
                raise _Refusal(-32601, "this client has no `ask`")
            return _answers(await call(callbacks.ask, context, params))
        if method == "mcpServer/elicitation/request":
            declined: McpServerElicitationRequestResponse = {"action": "decline"}
            return await call(callbacks.elicit, context, params) if callbacks.elicit else declined
        if method == "item/tool/call":
            tool = callbacks.tools.get(str(params.get("tool")))
            if tool is None:
                raise _Refusal(-32602, f"this client has no tool `{params.get('tool')}`")
            return await self._call_tool(tool, params, context)
        raise _Refusal(-32601, f"this client does not answer `{method}`")

    async def _call_tool(self, tool: Tool, params: dict[str, Any], context: ToolContext) -> DynamicToolCallResponse:
        try:
            try:
                arguments = tool.arguments(params.get("arguments"))
            except ValueError as error:
                # The mistake is the model's, which can mend it.
                return _tool_result(f"{type(error).__name__}: {error}", False)
            return _tool_result(tool.text_of(await self._threads.call(tool.function, context, **arguments)), True)
        except ToolError as error:
            return _tool_result(str(error), False)
        except Exception as error:  # The model has to learn that there is no result, and decides what to do.
            self._report(f"the tool `{tool.name}`", error, context)
            is_sent = self._callbacks.sends_errors
            return _tool_result(f"{type(error).__name__}: {error}" if is_sent else "The tool failed.", False)

    async def _approve(self, approval: Approval, context: ToolContext) -> Any:
        approve = self._callbacks.approve
        decision: Any = await self._threads.call(approve, context, approval) if approve else "decline"
        if decision is True or decision is False:
            decision = "accept" if decision else "decline"
        if not isinstance(decision, (str, dict)):
            raise _WrongAnswer(f"`approve` returned {type(decision).__name__}, not a bool, a decision or an object")
        if approval.kind != "permissions":
            return {"decision": decision}
        if isinstance(decision, dict):
            return decision
        granted = approval.params.get("permissions", {}) if decision in ("accept", "acceptForSession") else {}
        scope = "session" if decision == "acceptForSession" else "turn"
        return {"permissions": granted, "scope": scope}


class _WrongAnswer(TypeError):
    """A callback returned what cannot be sent: its text holds nothing of the application's."""


def _answers(answers: Any) -> dict[str, Any]:
    if not isinstance(answers, Mapping):
        raise _WrongAnswer(f"`ask` returned {type(answers).__name__}, not texts by the id of the question")
    texts = {key: [it] if isinstance(it, str) else list(it) for key, it in answers.items()}
    return {"answers": {key: {"answers": it} for key, it in texts.items()}}


def _text(params: dict[str, Any], name: str) -> str | None:
    value = params.get(name)
    return value if isinstance(value, str) else None


def _tool_result(text: str, success: bool) -> DynamicToolCallResponse:
    return {"contentItems": [{"type": "inputText", "text": text}], "success": success}
