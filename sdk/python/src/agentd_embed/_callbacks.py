"""Running the functions that users of this package give: coroutine functions in the loop, every other one in a
thread of its own, so that none waits for another."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any

from ._context import ToolContext, context_parameter
from .errors import TooManyCallbacks

#: Functions of an agent that may run in threads at once. A further one is not run: it fails with its name.
MAX_THREADS = 512


class CallbackThreads:
    """The threads of an agent's callbacks."""

    def __init__(self) -> None:
        self._running = 0

    async def call(self, function: Callable[..., Any], context: ToolContext | None, *args: Any, **kwargs: Any) -> Any:
        """Calls a function of either kind, with the context, if there is one and the function takes it.

        When the caller is cancelled, a coroutine is; a thread goes on, and nothing waits for it.
        """
        name = None if context is None else context_parameter(function)
        if name is not None:
            kwargs[name] = context
        if _is_coroutine_function(function):
            return await function(*args, **kwargs)
        result = await self._in_thread(function, args, kwargs)
        return await result if inspect.isawaitable(result) else result

    async def _in_thread(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = getattr(function, "__name__", type(function).__name__)
        if self._running >= MAX_THREADS:
            raise TooManyCallbacks(
                f"`{name}` was not called: {MAX_THREADS} callbacks of this agent run already; "
                "make those that wait coroutine functions, or let them end earlier"
            )
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        variables = contextvars.copy_context()

        def ended(result: Any, error: BaseException | None) -> None:
            self._running -= 1
            if done.done():
                return
            if error is None:
                done.set_result(result)
            elif isinstance(error, Exception) and not isinstance(error, StopIteration):
                done.set_exception(error)
            else:
                # A future takes no StopIteration, and the others would end the loop.
                failure = RuntimeError(f"`{name}` ended with {type(error).__name__}: {error}")
                failure.__cause__ = error
                done.set_exception(failure)

        def work() -> None:
            result, error = None, None
            try:
                result = variables.run(function, *args, **kwargs)
            except BaseException as raised:  # It is raised where the function is awaited.
                error = raised
            try:
                loop.call_soon_threadsafe(ended, result, error)
            except RuntimeError:
                # The loop was closed: nothing waits for the result.
                pass

        thread = threading.Thread(target=work, name=f"agentd-embed {name}", daemon=True)
        self._running += 1
        try:
            thread.start()
        except RuntimeError as error:
            self._running -= 1
            raise TooManyCallbacks(f"`{name}` was not called: the system gave no thread for it: {error}") from error
        return await done


def _is_coroutine_function(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))
