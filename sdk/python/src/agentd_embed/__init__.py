"""Embed a coding agent: the Python client of `agentd`.

    from agentd_embed import Agent

    with Agent() as agent:
        print(agent.run("What does this project do?").text)
"""

from ._agent import AsyncAgent
from ._answers import Approval
from ._context import ToolContext
from ._event_types import Event
from ._follow import ThreadEvents
from ._input import image
from ._package import VERSION as __version__
from ._result import Finding, Result
from ._synchronous import Agent
from ._synchronous_thread import Thread, Turn
from ._thread import AsyncThread
from ._turn import AsyncTurn
from ._usage import Cost, ThreadUsage
from .errors import (
    AgentdError,
    BudgetExceeded,
    CallbackCancelled,
    ConnectionLost,
    FolderNotFound,
    InternalError,
    InvalidOutput,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    Overloaded,
    ProgramNotFound,
    ReplayMismatch,
    RequestError,
    ThreadBusy,
    TooManyCallbacks,
    ToolError,
    TurnFailed,
    TurnInterrupted,
    TurnTimeout,
    VersionMismatch,
)
from .tools import Tool, tool

__all__ = [
    "Agent",
    "AgentdError",
    "Approval",
    "AsyncAgent",
    "AsyncThread",
    "AsyncTurn",
    "BudgetExceeded",
    "CallbackCancelled",
    "ConnectionLost",
    "Cost",
    "Event",
    "Finding",
    "FolderNotFound",
    "InternalError",
    "InvalidOutput",
    "InvalidParams",
    "InvalidRequest",
    "MethodNotFound",
    "Overloaded",
    "ProgramNotFound",
    "ReplayMismatch",
    "RequestError",
    "Result",
    "Thread",
    "ThreadBusy",
    "ThreadEvents",
    "ThreadUsage",
    "TooManyCallbacks",
    "Tool",
    "ToolContext",
    "ToolError",
    "Turn",
    "TurnFailed",
    "TurnInterrupted",
    "TurnTimeout",
    "VersionMismatch",
    "__version__",
    "image",
    "tool",
]
