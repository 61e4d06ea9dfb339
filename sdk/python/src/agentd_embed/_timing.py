"""Turns that run to their end within a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ._params import of_type
from ._result import Result
from ._turn import AsyncTurn
from .errors import TurnTimeout

T = TypeVar("T")


async def with_timeout(starting: Coroutine[Any, Any, AsyncTurn[T]], timeout: float | None) -> Result[T]:
    """Starts a turn and awaits its end, both together within `timeout` seconds."""
    try:
        of_type("timeout", timeout, float, int)
    except TypeError:
        starting.close()
        raise
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        turn = await asyncio.wait_for(starting, timeout)
    except asyncio.TimeoutError as error:
        raise TurnTimeout(
            f"the server did not start the turn within {timeout} seconds, or an earlier one of the thread still runs"
        ) from error
    left = None if timeout is None else max(0.0, timeout - (loop.time() - began))
    return await turn._result(left, timeout)
