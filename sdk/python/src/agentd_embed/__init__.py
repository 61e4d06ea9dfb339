"""Embed a coding agent: the Python client of `agentd`.

    from agentd_embed import Agent

    with Agent() as agent:
        print(agent.run("What does this project do?").text)
"""

from ._asynchronous import Approval, AsyncAgent, AsyncThread, AsyncTurn, Event, Result
from ._package import VERSION as __version__
from ._synchronous import Agent, Thread, Turn
from .errors import (
    AgentdError,
    ConnectionLost,
    FolderNotFound,
    InternalError,
    InvalidOutput,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    Overloaded,
    ProgramNotFound,
    RequestError,
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
    "ConnectionLost",
    "Event",
    "FolderNotFound",
    "InternalError",
    "InvalidOutput",
    "InvalidParams",
    "InvalidRequest",
    "MethodNotFound",
    "Overloaded",
    "ProgramNotFound",
    "RequestError",
    "Result",
    "Thread",
    "Tool",
    "Turn",
    "TurnFailed",
    "TurnInterrupted",
    "TurnTimeout",
    "VersionMismatch",
    "__version__",
    "tool",
]
