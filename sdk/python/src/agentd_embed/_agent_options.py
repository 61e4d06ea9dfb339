"""The arguments of an agent, by their names. A test compares them with :class:`AsyncAgent`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, TypedDict, Union

from .tools import Tool

if TYPE_CHECKING:
    from .types import InitializeCapabilities


class AgentOptions(TypedDict, total=False):
    """See :class:`AsyncAgent`."""

    address: Optional[str]
    token: Optional[str]
    program: Union[str, "os.PathLike[str]", None]
    cwd: Union[str, "os.PathLike[str]", None]
    env: Optional[Mapping[str, str]]
    config: Optional[Mapping[str, Any]]
    model: Optional[str]
    offline: bool
    approve: Optional[Callable[..., Any]]
    ask: Optional[Callable[..., Any]]
    elicit: Optional[Callable[..., Any]]
    tools: Sequence[Tool]
    on_error: Optional[Callable[..., Any]]
    send_tool_errors: bool
    client_name: str
    start_timeout: float
    reconnect_timeout: float
    overload_retries: int
    capabilities: Optional[InitializeCapabilities]
    record: Union[str, "os.PathLike[str]", None]
    replay: Union[str, "os.PathLike[str]", None]
