"""The connection to a server: JSON-RPC over a transport, with requests, their answers, and what the server says and asks
by itself."""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ._feed import Pace, Pressure
from ._transport import READ_AHEAD, Pipes, Socket, Transport
from .errors import AgentdError, ConnectionLost, FolderNotFound, ProgramNotFound, ReplayMismatch, request_error

#: Lines of the server's standard error that an error repeats.
_LAST_LINES = 20
#: Seconds that a server may take to end after its input was closed, and after it was told to.
_GRACE = 5.0

#: Gets the result of a request before any later message is looked at.
Taken = Callable[[Any], None]


class Listener(Protocol):
    """Takes what the server says by itself."""

    #: Pauses the reading.
    pressure: Pressure
    #: Shares the loop with other tasks.
    pace: Pace

    def notified(self, method: str, params: dict[str, Any], cursor: str | None, size: int) -> None:
        """A notification, with its position among the events of its thread, and its length in bytes."""

    def asked(self, connection: Connection, number: Any, method: str, params: dict[str, Any]) -> None:
        """A request, to be answered with :meth:`Connection.reply`."""

    def lost(self, connection: Connection, error: ConnectionLost) -> None:
        """The connection has ended."""


class Connection:
    """Requests, their answers, and what the server says and asks by itself."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        #: Records what goes over the transport.
        self._wrap: Callable[[Transport], Transport] | None = None
        self._transport: Transport | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._errors: deque[str] = deque(maxlen=_LAST_LINES)
        self._waiting: dict[int, tuple[str, asyncio.Future[Any], Taken | None]] = {}
        #: Whatever arrives is dropped: a server that cannot write would not end.
        self._is_closing = False
        #: Set while a request waits for its answer.
        self._is_awaited = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._next = 0
        self._lost: ConnectionLost | None = None
        #: The server wrote what is not the protocol: another connection would not help.
        self.is_garbage = False

    def record(self, wrap: Callable[[Transport], Transport]) -> None:
        """Has the transport wrapped that is opened next."""
        self._wrap = wrap

    @property
    def is_lost(self) -> bool:
        """Whether it has ended."""
        return self._lost is not None

    async def spawn(
        self, command: Sequence[str], cwd: str | None, env: Mapping[str, str] | None
    ) -> None:
        """Starts a server and speaks with it over its pipes."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env, limit=READ_AHEAD
            )
        except OSError as error:
            # The system's error is the same as for a program that is missing.
            if cwd is not None and not os.path.isdir(cwd):
                raise FolderNotFound(
                    f"the working folder {cwd} is not there, or is not a folder: create it, or give another `cwd`"
                ) from error
            raise ProgramNotFound(f"{command[0]} cannot be started: {error}") from error
        self._process = process
        assert process.stdin and process.stdout and process.stderr
        self._begin(self._read_errors(process.stderr))
        self.attach(Pipes(process.stdout, process.stdin))

    async def connect(self, address: str, token: str | None) -> None:
        """Speaks with a server that listens at `unix://PATH`, `ws://` or `wss://`."""
        self.attach(await Socket.open(address, token))

    def attach(self, transport: Transport) -> None:
        """Speaks over a transport."""
        self._transport = transport if self._wrap is None else self._wrap(transport)
        self._begin(self._read())

    async def request(self, method: str, params: Any, taken: Taken | None = None) -> Any:
        """Sends a request and awaits its result. Raises :class:`RequestError` or :class:`ConnectionLost`."""
        if self._lost:
            raise ConnectionLost(str(self._lost))
        number, self._next = self._next, self._next + 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (method, answer, taken)
        self._is_awaited.set()
        self._listener.pressure.wake()
        try:
            await self.send({"id": number, "method": method, "params": params})
            return await answer
        finally:
            self._waiting.pop(number, None)
            if not self._waiting and not self._is_closing:
                self._is_awaited.clear()

    async def send(self, message: dict[str, Any]) -> None:
        """Writes a message."""
        transport = self._transport
        if transport is None or self._lost:
            raise ConnectionLost(str(self._lost or "the connection is not open"))
        text = encoded(message)
        try:
            await transport.send(text)
        except (ConnectionError, BrokenPipeError) as error:
            await self._wait_for_end()
            raise ConnectionLost(str(self._lost or error)) from error

    async def reply(self, number: Any, reply: dict[str, Any]) -> None:
        """Answers the server. On a connection that is lost, nothing waits for it."""
        try:
            await self.send({"id": number, **reply})
        except ConnectionLost:
            pass

    async def abort(self) -> None:
        """As :meth:`close`, without giving the server time to end by itself."""
        if self._transport is not None:
            self._transport.abort()
        if self._process is not None:
            try:
                self._process.kill()
            except ProcessLookupError:
                pass
        await self.close()

    async def close(self) -> None:
        """Ends the connection, and the server if it was started here."""
        self._is_closing = True
        self._is_awaited.set()
        self._listener.pressure.wake()
        if self._transport is not None:
            await self._transport.close()
        process = self._process
        if process is not None:
            for end in (None, process.terminate, process.kill):
                if end is not None:
                    try:
                        end()
                    except ProcessLookupError:
                        pass
                try:
                    await asyncio.wait_for(process.wait(), _GRACE)
                    break
                except asyncio.TimeoutError:
                    continue
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._fail("the connection was closed")

    def broken(self, why: str) -> ConnectionLost:
        """Gives the connection up, and returns the error for it."""
        self._fail(why)
        return ConnectionLost(str(self._lost))

    def _begin(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self) -> None:
        assert self._transport is not None
        try:
            while (message := await self._transport.receive()) is not None:
                if not self._is_closing:
                    self._take(message)
                await self._listener.pace.breathe()
                if self._listener.pressure.is_on:
                    await self._listener.pressure.hold(self._is_awaited)
            await self._wait_for_end()
        except (ValueError, TypeError, RecursionError) as error:
            self.is_garbage = True
            self._fail(f"the server wrote what is not the protocol: {error}")
        except ReplayMismatch as error:
            self.is_garbage = True
            self._fail(str(error))
        except (ConnectionError, OSError) as error:
            self._fail(f"the connection broke: {error}")

    async def _wait_for_end(self) -> None:
        """Says why a server is gone, with its last words."""
        why = "the server closed the connection"
        if self._process is not None:
            try:
                code = await asyncio.wait_for(self._process.wait(), _GRACE)
                # What it wrote last is read in the next turns of the loop.
                await asyncio.sleep(0.05)
                why = f"the server ended with {code}"
            except asyncio.TimeoutError:
                why = "the server closed its output"
        self._fail(why)

    def _fail(self, why: str) -> None:
        if self._lost:
            return
        said = "".join(f"\n  {line}" for line in self._errors)
        self._lost = ConnectionLost(why + (f"; it said:{said}" if said else ""))
        for _, answer, _taken in self._waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionLost(str(self._lost)))
        self._listener.lost(self, self._lost)

    async def _read_errors(self, reader: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                # A line longer than any that helps.
                continue
            if not line:
                return
            self._errors.append(line.decode(errors="replace").rstrip()[:2000])

    def _take(self, text: bytes | str) -> None:
        if self._lost:
            return
        message = json.loads(text)
        if not isinstance(message, dict):
            raise ValueError(f"a message is of the type {type(message).__name__}, and no object")
        method = message.get("method")
        if method is None:
            self._answered(message)
        elif not isinstance(method, str):
            raise ValueError("`method` is no text")
        elif "id" in message:
            number = message["id"]
            if isinstance(number, bool) or not isinstance(number, (int, str)):
                raise ValueError(f"the id of `{method}` is of the type {type(number).__name__}")
            self._listener.asked(self, number, method, _params(method, message))
        else:
            cursor = message.get("eventCursor")
            cursor = cursor if isinstance(cursor, str) else None
            self._listener.notified(method, _params(method, message), cursor, len(text))

    def _answered(self, message: dict[str, Any]) -> None:
        waiting = self._waiting.get(message.get("id", -1))
        # The answer to a call that was given up.
        if waiting is None or waiting[1].done():
            return
        method, answer, taken = waiting
        if "error" in message:
            answer.set_exception(request_error(method, message["error"]))
            return
        result = message.get("result")
        try:
            if taken is not None:
                taken(result)
        except AgentdError as error:
            if not answer.done():
                answer.set_exception(error)
            return
        answer.set_result(result)


def encoded(message: dict[str, Any]) -> str:
    """A message as JSON. Raises :class:`TypeError` or :class:`ValueError` for what JSON cannot express."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False)


def _params(method: str, message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise ValueError(f"`params` of `{method}` are of the type {type(params).__name__}, and no object")
    return params
