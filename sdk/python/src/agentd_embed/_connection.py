"""The connection to a server: JSON-RPC, one object a line over the pipes of a process, or one object a
message over a WebSocket, which may be that of a Unix socket."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ._package import PROGRAM, installed_program
from .errors import AgentdError, ConnectionLost, FolderNotFound, ProgramNotFound, request_error

#: A line may hold a whole turn.
_LONGEST_LINE = 64 << 20
#: Lines of the server's standard error that an error repeats.
_LAST_LINES = 20
#: Seconds that a server may take to end after its input was closed, and after it was told to.
_GRACE = 5.0

#: Seconds that the other side of a WebSocket may take to confirm its end.
_CLOSING = 2.0
#: Codes with which this side ends a WebSocket that is none (RFC 6455, section 7.4.1).
_VIOLATIONS = {1002, 1003, 1007, 1009}

#: Gets the result of a request before any later message is looked at.
Taken = Callable[[Any], None]


class Listener(Protocol):
    """Takes what the server says by itself."""

    def notified(self, method: str, params: dict[str, Any], cursor: str | None) -> None:
        """A notification, with its position among the events of its thread."""

    def asked(self, connection: Connection, number: Any, method: str, params: dict[str, Any]) -> None:
        """A request, to be answered with :meth:`Connection.reply`."""

    def lost(self, connection: Connection, error: ConnectionLost) -> None:
        """The connection has ended."""


def find_program(given: str | os.PathLike[str] | None) -> str:
    """The program: the one that is given, `AGENTD_PATH`, the one of the package with it, or the one in `PATH`."""
    for named, what in ((given, "`program`"), (os.environ.get("AGENTD_PATH"), "`AGENTD_PATH`")):
        if named:
            found = shutil.which(named)
            if found is None:
                raise ProgramNotFound(
                    f"{what} is {os.fspath(named)!r}, where there is no program: correct it, or leave it out to "
                    f"use the one of the package `{PROGRAM}` or in PATH"
                )
            return os.fspath(found)
    installed = installed_program()
    found = (installed and shutil.which(installed)) or shutil.which("agentd")
    if found is None:
        raise ProgramNotFound(
            "no program `agentd` was found: the argument `program` and the variable AGENTD_PATH are not set, "
            f"{sys.executable} has no package `{PROGRAM}` with it, and PATH has none. Install that package, or set "
            "one of the two to the program"
        )
    return found


def check_token(token: str) -> None:
    """Raises :class:`ValueError` for a token that no HTTP header can hold.

    A header holds visible ASCII only; a line break in it would begin another header.
    """
    at = next((at for at, it in enumerate(token) if not "!" <= it <= "~"), None)
    if at is None:
        return
    is_around = all("!" <= it <= "~" for it in token.strip())
    hint = (
        "remove the white space around it, such as the line break at the end of its file"
        if is_around
        else "a token is of visible ASCII characters"
    )
    raise ValueError(
        f"the token cannot be sent in an HTTP header: its character {at + 1} is none that may be in one; {hint}"
    )


class Transport(Protocol):
    """Carries messages both ways."""

    async def receive(self) -> bytes | str | None:
        """The next message; none at the end."""

    async def send(self, message: str) -> None:
        """Writes a message."""

    async def close(self) -> None:
        """Ends the way to the server."""

    def abort(self) -> None:
        """Ends it at once."""


class _Pipes:
    """A line each."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> bytes | None:
        return await self._reader.readline() or None

    async def send(self, message: str) -> None:
        self._writer.write(message.encode() + b"\n")
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()


class _Socket:
    """A message of a WebSocket each, by the package `websockets`."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    @staticmethod
    async def open(address: str, token: str | None) -> _Socket:
        try:
            from websockets.asyncio.client import connect, unix_connect
            from websockets.exceptions import WebSocketException
        except ImportError as error:
            raise ConnectionLost(f"{address} needs the package `websockets`: `pip install websockets`") from error
        headers = {"Authorization": f"Bearer {token}"} if token else None
        options: Any = {"max_size": _LONGEST_LINE, "additional_headers": headers, "close_timeout": _CLOSING}
        try:
            if address.startswith("unix://"):
                path = address.removeprefix("unix://")
                return _Socket(await unix_connect(path, uri="ws://localhost/", **options))
            return _Socket(await connect(address, **options))
        except (OSError, WebSocketException, asyncio.TimeoutError) as error:
            raise ConnectionLost(f"there is no server at {address}: {error}") from error

    async def receive(self) -> bytes | str | None:
        from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

        try:
            message: bytes | str = await self._socket.recv()
        except ConnectionClosedOK:
            return None
        except ConnectionClosed as error:
            if error.sent is not None and error.sent.code in _VIOLATIONS and not error.rcvd_then_sent:
                raise ValueError(f"{error.sent.reason or error} (code {error.sent.code})") from error
            raise ConnectionError(str(error)) from error
        return message

    async def send(self, message: str) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            await self._socket.send(message)
        except ConnectionClosed as error:
            raise ConnectionError(str(error)) from error

    async def close(self) -> None:
        await self._socket.close()

    def abort(self) -> None:
        self._socket.transport.abort()


class Connection:
    """Requests, their answers, and what the server says and asks by itself."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: Transport | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._errors: deque[str] = deque(maxlen=_LAST_LINES)
        self._waiting: dict[int, tuple[str, asyncio.Future[Any], Taken | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._next = 0
        self._lost: ConnectionLost | None = None
        #: The server wrote what is not the protocol: another connection would not help.
        self.is_garbage = False

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
                *command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env, limit=_LONGEST_LINE
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
        self._transport = _Pipes(process.stdout, process.stdin)
        self._begin(self._read_errors(process.stderr))
        self._begin(self._read())

    async def connect(self, address: str, token: str | None) -> None:
        """Speaks with a server that listens at `unix://PATH`, `ws://` or `wss://`."""
        self._transport = await _Socket.open(address, token)
        self._begin(self._read())

    async def request(self, method: str, params: Any, taken: Taken | None = None) -> Any:
        """Sends a request and awaits its result. Raises :class:`RequestError` or :class:`ConnectionLost`."""
        if self._lost:
            raise ConnectionLost(str(self._lost))
        number, self._next = self._next, self._next + 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (method, answer, taken)
        try:
            await self.send({"id": number, "method": method, "params": params})
            return await answer
        finally:
            self._waiting.pop(number, None)

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
        """Answers the server. On a connection that is lost, nobody waits for it."""
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
                self._take(message)
            await self._wait_for_end()
        except (ValueError, TypeError, RecursionError) as error:
            self.is_garbage = True
            self._fail(f"the server wrote what is not the protocol: {error}")
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
            self._listener.notified(method, _params(method, message), cursor if isinstance(cursor, str) else None)

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
