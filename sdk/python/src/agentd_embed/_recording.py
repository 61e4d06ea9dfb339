"""Recording a session with a server, and replaying it without one.

A recording is a file with one JSON object a line: `{"recording": 1, "isLasting": …}`, then `{"connection": n}` for each
connection, and `{"sent": message}` and `{"received": message}` in their order. Neither the token nor the environment of
the agent is in it: values of members such as `env` and `apiKey`, and texts that are the token or a secret of the
environment, are `***`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import IO, Any, Union

from ._transport import Transport
from .errors import ReplayMismatch

Path = Union[str, "os.PathLike[str]"]

HIDDEN = "***"
#: Members whose values are secrets, or may hold some.
_SECRET_MEMBERS = re.compile(r"^(env|environment|headers)$|(token|secret|password|api_?key)$", re.IGNORECASE)
_SECRET_VARIABLES = re.compile(r"token|secret|passw|key|credential", re.IGNORECASE)
#: Members that are so called but count tokens.
_COUNTS = re.compile(r"^(max|total|input|output)", re.IGNORECASE)


class Redactor:
    """Replaces secrets in messages."""

    def __init__(self, token: str | None, env: Mapping[str, str] | None) -> None:
        secrets = [value for name, value in (env or {}).items() if _SECRET_VARIABLES.search(name) and len(value) >= 8]
        if token:
            secrets.append(token)
        self._secrets = sorted(secrets, key=len, reverse=True)

    def __call__(self, message: Any) -> Any:
        if isinstance(message, str):
            for secret in self._secrets:
                message = message.replace(secret, HIDDEN)
            return message
        if isinstance(message, list):
            return [self(it) for it in message]
        if isinstance(message, dict):
            return {name: self._member(name, it) for name, it in message.items()}
        return message

    def _member(self, name: str, value: Any) -> Any:
        if not _SECRET_MEMBERS.search(name) or _COUNTS.search(name) or value is None or isinstance(value, (bool, int, float)):
            return self(value)
        return dict.fromkeys(value, HIDDEN) if isinstance(value, dict) else HIDDEN


class Recorder:
    """Writes what goes over the connections of an agent to a file."""

    def __init__(self, path: Path, redactor: Redactor, *, is_lasting: bool) -> None:
        self._file: IO[str] = open(path, "w", encoding="utf-8")
        self._redactor = redactor
        self._connections = 0
        self._write({"recording": 1, "isLasting": is_lasting})

    def wrap(self, transport: Transport) -> Transport:
        """Records a new connection."""
        self._write({"connection": self._connections})
        self._connections += 1
        return _Recorded(transport, self)

    def note(self, kind: str, message: str | bytes) -> None:
        """Writes a message. One that is no JSON is left out: it ends the connection."""
        try:
            self._write({kind: self._redactor(json.loads(message))})
        except ValueError:
            pass

    def close(self) -> None:
        """Completes the file."""
        self._file.close()

    def _write(self, entry: dict[str, Any]) -> None:
        if not self._file.closed:
            self._file.write(json.dumps(entry, separators=(",", ":")) + "\n")
            self._file.flush()


class _Recorded:
    """A transport whose messages are recorded."""

    def __init__(self, transport: Transport, recorder: Recorder) -> None:
        self._transport = transport
        self._recorder = recorder

    async def receive(self) -> bytes | str | None:
        message = await self._transport.receive()
        if message is not None:
            self._recorder.note("received", message)
        return message

    async def send(self, message: str) -> None:
        self._recorder.note("sent", message)
        await self._transport.send(message)

    async def close(self) -> None:
        await self._transport.close()

    def abort(self) -> None:
        self._transport.abort()


class Replay:
    """The connections of a recording."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self._path = os.fspath(path)
        self._redactor = redactor
        self._connections: list[list[tuple[int, str, Any]]] = []
        self.is_lasting = False
        with open(path, encoding="utf-8") as file:
            self._read(file)

    def next(self) -> Transport:
        """The next connection. Raises :class:`ReplayMismatch` when the recording has no further one."""
        if not self._connections:
            raise ReplayMismatch(f"{self._path} has no further connection", None, None)
        return _Replayed(self._path, self._connections.pop(0), self._redactor, is_last=not self._connections)

    def _read(self, lines: Iterable[str]) -> None:
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                (kind, value), *_ = entry.items()
            except (ValueError, AttributeError):
                raise ValueError(f"{self._path}:{number}: this is not a recording of a session") from None
            if kind == "recording":
                self.is_lasting = bool(entry.get("isLasting"))
            elif kind == "connection":
                self._connections.append([])
            elif kind in ("sent", "received") and self._connections:
                self._connections[-1].append((number, kind, value))
            else:
                raise ValueError(f"{self._path}:{number}: `{kind}` is no entry of a recording")


class _Replayed:
    """A transport that says what the server said, as long as it is sent what the server was sent."""

    def __init__(self, path: str, entries: list[tuple[int, str, Any]], redactor: Redactor, *, is_last: bool) -> None:
        self._path = path
        self._redactor = redactor
        self._is_last = is_last
        self._sent = [(number, value) for number, kind, value in entries if kind == "sent"]
        self._received = [(number, value) for number, kind, value in entries if kind == "received"]
        self._changed = asyncio.Event()
        self._failure: ReplayMismatch | None = None
        self._is_closed = False

    async def receive(self) -> bytes | str | None:
        while True:
            if self._failure is not None:
                raise self._failure
            if self._is_closed:
                return None
            # What the server said after a message waits until that is sent again.
            if self._received and (not self._sent or self._received[0][0] < self._sent[0][0]):
                return json.dumps(self._received.pop(0)[1])
            if not self._received and not self._sent and not self._is_last:
                raise ConnectionError("the recorded connection was lost here")
            self._changed.clear()
            await self._changed.wait()

    async def send(self, message: str) -> None:
        actual = self._redactor(json.loads(message))
        number, expected = self._sent[0] if self._sent else (None, None)
        if self._failure is None and _comparable(actual) != _comparable(expected):
            where = f"{self._path}:{number}" if number is not None else f"the end of {self._path}"
            self._failure = ReplayMismatch(where, expected, actual)
        self._changed.set()
        if self._failure is not None:
            raise self._failure
        self._sent.pop(0)

    async def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        self._is_closed = True
        self._changed.set()


def _comparable(message: Any) -> Any:
    """A message without the version of this package, which may be newer than the recording."""
    if not isinstance(message, dict) or message.get("method") != "initialize":
        return message
    params = message.get("params")
    client = params.get("clientInfo") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(client, dict):
        return message
    return {**message, "params": {**params, "clientInfo": {**client, "version": ""}}}
