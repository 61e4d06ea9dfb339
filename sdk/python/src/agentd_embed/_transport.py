"""Carriers of messages: the pipes of a process, with one object a line, and a WebSocket, with one a message, which may
be that of a Unix socket."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from .errors import ConnectionLost

#: A line or a message may hold a whole turn.
LONGEST_LINE = 64 << 20
#: Bytes of a pipe that are read ahead: the rest waits with the server.
READ_AHEAD = 256 << 10
#: Seconds that the other side of a WebSocket may take to confirm its end.
_CLOSING = 2.0
#: Codes with which this side ends a WebSocket that is none (RFC 6455, section 7.4.1).
_VIOLATIONS = {1002, 1003, 1007, 1009}


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


class Pipes:
    """A line each."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> bytes | None:
        parts: list[bytes] = []
        size = 0
        while True:
            try:
                parts.append(await self._reader.readuntil(b"\n"))
                return b"".join(parts)
            except asyncio.IncompleteReadError as error:
                parts.append(error.partial)
                return b"".join(parts) or None
            except asyncio.LimitOverrunError as error:
                # A long line, of which a part is there.
                parts.append(await self._reader.readexactly(error.consumed))
                size += error.consumed
                if size > LONGEST_LINE:
                    raise ValueError(f"a line is longer than {LONGEST_LINE} bytes") from None

    async def send(self, message: str) -> None:
        self._writer.write(message.encode() + b"\n")
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()


class Socket:
    """A message of a WebSocket each, by the package `websockets`."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    @staticmethod
    async def open(address: str, token: str | None) -> Socket:
        try:
            from websockets.asyncio.client import connect, unix_connect
            from websockets.exceptions import WebSocketException
        except ImportError as error:
            raise ConnectionLost(f"{address} needs the package `websockets`: `pip install websockets`") from error
        headers = {"Authorization": f"Bearer {token}"} if token else None
        options: Any = {"max_size": LONGEST_LINE, "additional_headers": headers, "close_timeout": _CLOSING}
        try:
            if address.startswith("unix://"):
                path = address.removeprefix("unix://")
                return Socket(await unix_connect(path, uri="ws://localhost/", **options))
            return Socket(await connect(address, **options))
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
