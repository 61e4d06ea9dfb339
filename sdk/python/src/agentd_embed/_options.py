"""The check of an agent's arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ._params import of_type
from .tools import Tool

#: Notifications without which turns have no end or no result.
_NEEDED = {"item/completed", "item/started", "serverRequest/resolved", "turn/completed", "turn/started"}


def check_address(address: str | None) -> None:
    """Raises :class:`ValueError` if the text is not the address of a server."""
    of_type("address", address, str)
    if address is not None and not address.startswith(("unix:///", "ws://", "wss://")):
        raise ValueError(f"{address!r} is not an address: unix:///PATH, ws://HOST:PORT or wss://HOST:PORT")


def check_types(*, env: Any, paths: Mapping[str, Any], flags: Mapping[str, Any], numbers: Mapping[str, Any], texts: Mapping[str, Any]) -> None:
    """Raises :class:`TypeError` that names the argument of another type than it may have."""
    of_type("env", env, Mapping)
    for name, value in (env or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"`env[{name!r}]` is of the type {type(value).__name__}, not str")
    for name, value in paths.items():
        of_type(name, value, str, os.PathLike)
    for name, value in flags.items():
        of_type(name, value, bool)
    for name, value in numbers.items():
        of_type(name, value, float, int)
    for name, value in texts.items():
        of_type(name, value, str)


def check_callbacks(**callbacks: Any) -> None:
    """Raises :class:`TypeError` that names what is no function."""
    for name, callback in callbacks.items():
        if callback is not None and not callable(callback):
            raise TypeError(f"`{name}` is of the type {type(callback).__name__}, and no function")


def check_tools(tools: Any) -> None:
    """Raises :class:`TypeError` for what is no tool, and :class:`ValueError` for two of one name."""
    if isinstance(tools, (str, Mapping)) or not isinstance(tools, Sequence):
        raise TypeError(f"`tools` is of the type {type(tools).__name__}, not a list of functions with `@tool`")
    names: set[str] = set()
    for at, each in enumerate(tools):
        if not isinstance(each, Tool):
            raise TypeError(f"`tools[{at}]` is of the type {type(each).__name__}: put `@tool` before the function")
        if each.name in names:
            raise ValueError(f"`tools[{at}]` is a second tool with the name `{each.name}`")
        names.add(each.name)


def capabilities_of(given: Any) -> dict[str, Any]:
    """The capabilities of `initialize`: the SDK's, and those that are given.

    Raises :class:`ValueError` for an opt-out of notifications that turns need.
    """
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"`capabilities` is of the type {type(given).__name__}, not a mapping")
    capabilities = {"experimentalApi": True, "eventCursor": True, "tokenCost": True, **(given or {})}
    missing = _NEEDED.intersection(capabilities.get("optOutNotificationMethods") or ())
    if missing:
        raise ValueError(f"`capabilities` opts out of `{min(missing)}`, without which turns have no end or no result")
    return capabilities


def reports_costs(capabilities: Mapping[str, Any]) -> bool:
    """Whether a server with these capabilities is asked to report costs."""
    return bool(capabilities["tokenCost"]) and "thread/tokenUsage/updated" not in (
        capabilities.get("optOutNotificationMethods") or ()
    )
