"""Calling what users of this package give: functions of either kind, without holding up the connection."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Awaits a coroutine function; runs another one in a thread, since it may take long."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    result = await asyncio.to_thread(function, *args, **kwargs)
    return await result if inspect.isawaitable(result) else result
