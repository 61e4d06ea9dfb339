"""The connection of an agent over its whole life: the handshake, coming back to a server that still runs, and requests
that are sent again because the server had too much to do."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from ._connection import Connection, Taken
from ._events import AnyEvent, Notification, thread_of
from ._feed import REOPEN, Entry, Pace, Pressure
from ._package import VERSION
from .errors import AgentdError, ConnectionLost, Overloaded, VersionMismatch

if TYPE_CHECKING:
    from .types import InitializeResponse

#: The versions of the server that this package works with, as a text and as a check.
WANTED = "0.1 and later 0.x"
_VERSION = re.compile(r"/(\d+)\.(\d+)\.")
#: Seconds before the second attempt to come back; twice as many before each later one, up to the longest.
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 5.0


class Replay:
    """Events that the server sends again for one reader: so many of the next ones of the thread, up to a cursor."""

    def __init__(self, count: int, until: Any, put: Callable[[Entry], None], done: Callable[[], None]) -> None:
        self.left = count
        self.until = until
        self.put = put
        self.done = done
        #: Whether one of them has arrived.
        self.is_begun = False


class SessionListener(Protocol):
    """Takes what arrives over all connections."""

    def notified(self, event: AnyEvent) -> None:
        """A notification."""

    def received(self, event: AnyEvent) -> None:
        """A notification of any kind, also one that is sent again for one reader."""

    def interrupted(self) -> None:
        """The connection was lost, and may come back."""

    def still_open(self, thread: str, numbers: list[Any]) -> None:
        """The requests of a thread that are open on a new connection."""

    def asked(self, connection: Connection, number: Any, method: str, params: dict[str, Any]) -> None:
        """A request."""

    def lost(self, error: AgentdError) -> None:
        """No request is answered any longer."""

    def awaited(self) -> list[str]:
        """The threads whose events are awaited."""
        ...

    def replaced(self, thread: str, record: dict[str, Any]) -> None:
        """The events that were missed are not available: `record` is how things stand."""

    def missed(self, thread: str, record: dict[str, Any]) -> None:
        """The readers of a thread may have missed events: `record` is how things stand."""

    def gone(self, thread: str, error: AgentdError) -> None:
        """A thread is gone, and its events with it."""


class Session:
    """See the module. `open_connection` opens a connection; a lasting server outlives its connections."""

    def __init__(
        self,
        open_connection: Callable[[Connection], Awaitable[None]],
        listener: SessionListener,
        *,
        is_lasting: bool,
        client_name: str,
        start_timeout: float,
        reconnect_timeout: float,
        capabilities: Mapping[str, Any],
        overload_retries: int,
    ) -> None:
        self._open_connection = open_connection
        self._listener = listener
        self._is_lasting = is_lasting
        self._client_name = client_name
        self._start_timeout = start_timeout
        self._reconnect_timeout = reconnect_timeout
        self._capabilities = dict(capabilities)
        #: The server leaves out notifications, but counts them among those that it sends again.
        self._has_opt_outs = bool(self._capabilities.get("optOutNotificationMethods"))
        self._overload_retries = overload_retries
        self.pressure = Pressure()
        self.pace = Pace()
        #: The position of each thread among its events.
        self._cursors: dict[str, str] = {}
        #: How many events were received.
        self._order = 0
        #: What the server sends again, by thread.
        self._replays: dict[str, Replay] = {}
        #: Held by a replay of an unknown number of events. Made in the loop, to which Python before 3.10 binds it.
        self._bounding: asyncio.Lock | None = None
        #: Threads that this connection is not subscribed to, but the one before was.
        self._left: set[str] = set()
        self._connection: Connection | None = None
        self._returning: asyncio.Future[Connection] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._lost: AgentdError | None = None
        self.server: InitializeResponse | None = None

    async def start(self) -> None:
        """Connects, and completes the handshake."""
        try:
            self._connection = await self._connect(self._start_timeout)
        except AgentdError as error:
            self._lost = self._lost or error
            raise

    async def request(self, method: str, params: Any, taken: Taken | None = None) -> Any:
        """As `Connection.request`; while the session comes back, the request waits for that.

        One that the server refuses because it has too much to do is sent again, after a growing delay.
        """
        delay = _FIRST_DELAY
        for left in range(self._overload_retries, -1, -1):
            try:
                return await (await self._ready()).request(method, params, taken)
            except Overloaded:
                if left == 0:
                    raise
            # Partly random, so that clients do not come back all at once.
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, _LONGEST_DELAY)

    async def open(self, method: str, params: Any, opened: Callable[[str, Any], None]) -> str:
        """Opens a thread: a request whose result has it. `opened` gets its id and the result, before any later event."""
        ids: list[str] = []

        def taken(result: Any) -> None:
            ids.append(self.id_of("thread", method, result))
            self._keep_cursor(ids[0], result)
            self._left.discard(ids[0])
            opened(ids[0], result)

        await self.request(method, params, taken)
        return ids[0]

    async def follow(self, thread: str, cursor: str, put: Callable[[Entry], None], done: Callable[[], None]) -> None:
        """Has the events after a cursor sent again, for one reader. `done` is called before the first newer event.

        Where they are gone, `put` gets an event `replaced` in their place. It must not be cancelled: what the server
        sends after the answer would go to the other readers, which have it.
        """
        expected: list[Replay] = []

        def taken(result: Any) -> None:
            self.id_of("thread", "thread/resume", result)
            replay = result.get("eventReplay")
            kind = replay.get("type") if isinstance(replay, dict) else None
            if isinstance(replay, dict) and isinstance(replay.get("openRequestIds"), list):
                self._listener.still_open(thread, replay["openRequestIds"])
            if kind == "replayed" and isinstance(replay.get("events"), int):
                if replay["events"]:
                    expected.append(Replay(replay["events"], result.get("eventCursor"), put, done))
                    self._expect(thread, expected[0])
                else:
                    done()
            elif kind == "snapshot":
                put(self._replaced(thread, result, replay))
                done()
            else:
                raise AgentdError("the server sends no events again: it is older than this package")
            # All before it has arrived, or is sent again.
            self._keep_cursor(thread, result)
            self._left.discard(thread)

        params = {"threadId": thread, "eventCursor": cursor}
        if not self._has_opt_outs:
            await self.request("thread/resume", params, taken)
            return
        self._bounding = self._bounding or asyncio.Lock()
        async with self._bounding:
            await self.request("thread/resume", params, taken)
            for replay in expected:
                await self._bound(thread, replay)

    @property
    def is_over(self) -> bool:
        """Whether the connection is lost for good."""
        return self._lost is not None

    def position(self, thread: str) -> tuple[str | None, int]:
        """The newest cursor of a thread, and its place among the events."""
        return self._cursors.get(thread), self._order

    def _replaced(self, thread: str, result: Any, replay: Any) -> AnyEvent:
        params = {
            "threadId": thread,
            "reason": replay.get("reason"),
            "turns": result["thread"].get("turns") or [],
            "fromTurnId": replay.get("fromTurnId"),
            "isComplete": replay.get("isComplete", True),
        }
        return Notification("replaced", params, result.get("eventCursor"), 0, self._order)

    async def subscribe(self, thread: str) -> None:
        """Subscribes to a thread again, if a lost connection was."""
        connection = await self._ready()
        if thread in self._left:
            await self._resume(connection, thread)

    def id_of(self, what: str, method: str, result: Any) -> str:
        """The id in a result; without one, what the server writes is not the protocol."""
        named = result.get(what) if isinstance(result, dict) else None
        found = named.get("id") if isinstance(named, dict) else None
        if not isinstance(found, str):
            raise self.broken(
                f"the server wrote what is not the protocol: the result of `{method}` has no `{what}` with an id"
            )
        return found

    def broken(self, why: str) -> AgentdError:
        """Gives the server up, and returns the error for it."""
        self._end(ConnectionLost(why))
        if self._connection is not None:
            self._connection.broken(why)
        return self._error()

    def begin(self, work: Any) -> asyncio.Task[None]:
        """Does something at the same time, until the session is closed."""
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Ends the connection, and the server if it was started here."""
        self._end(ConnectionLost("the connection was closed"))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()

    def notified(self, method: str, params: dict[str, Any], cursor: str | None, size: int) -> None:
        """Of a connection."""
        thread = thread_of(params)
        self._order += 1
        replay = self._replays.get(thread) if thread is not None and cursor is not None else None
        if thread is not None and replay is not None:
            event: AnyEvent = Notification(method, params, cursor, size, self._order)
            self._listener.received(event)
            self._send_again(thread, replay, event)
            return
        if thread is not None:
            if cursor is not None:
                self._cursors[thread] = cursor
            else:
                # It has no position of its own: after it, events go on as after the one before.
                cursor = self._cursors.get(thread)
        event = Notification(method, params, cursor, size, self._order)
        self._listener.received(event)
        self._listener.notified(event)

    def _expect(self, thread: str, replay: Replay) -> None:
        """The next events of a thread are those of a replay."""
        earlier = self._replays.get(thread)
        if earlier is not None:
            # All of its events came before this answer.
            self._end_replay(thread, earlier)
        self._replays[thread] = replay

    def _send_again(self, thread: str, replay: Replay, event: AnyEvent) -> None:
        replay.put(event)
        replay.left -= 1
        replay.is_begun = True
        # Where some are left out, the last one that is counted may be a new one.
        if event.cursor == replay.until or (replay.left == 0 and not self._has_opt_outs):
            self._end_replay(thread, replay)

    def _end_replay(self, thread: str, replay: Replay) -> None:
        if self._replays.get(thread) is replay:
            del self._replays[thread]
            replay.done()

    async def _bound(self, thread: str, replay: Replay) -> None:
        """Ends a replay whose number of events is not known: what arrives after the answer to a later request is new.
        New events before that were given to its reader alone, so the others learn how things stand."""

        def taken(result: Any) -> None:
            if self._replays.get(thread) is replay:
                self.id_of("thread", "thread/resume", result)
                self._keep_cursor(thread, result)
                if replay.is_begun:
                    self._listener.missed(thread, result["thread"])
                self._end_replay(thread, replay)

        try:
            await self.request("thread/resume", {"threadId": thread}, taken)
        except AgentdError as error:
            if self._replays.get(thread) is replay:
                del self._replays[thread]
                replay.put(error)
                self._listener.gone(thread, error)

    def asked(self, connection: Connection, number: Any, method: str, params: dict[str, Any]) -> None:
        """Of a connection."""
        self._listener.asked(connection, number, method, params)

    def lost(self, connection: Connection, error: ConnectionLost) -> None:
        """Of a connection: comes back if that can help."""
        # Another one is an attempt, which fails by itself.
        if connection is not self._connection or self._lost is not None:
            return
        if not self._is_lasting or connection.is_garbage or self._reconnect_timeout <= 0:
            self._end(error)
            return
        self._end_replays(REOPEN)
        self._listener.interrupted()
        self._returning = asyncio.get_running_loop().create_future()
        # It may be that no call waits for it.
        self._returning.add_done_callback(lambda done: done.exception())
        self.begin(self._return(connection, error, self._returning))

    async def _ready(self) -> Connection:
        if self._lost is not None:
            raise self._error()
        if self._returning is not None:
            try:
                return await asyncio.shield(self._returning)
            except AgentdError:
                raise self._error() from None
        if self._connection is None:
            raise ConnectionLost("the connection is not open")
        return self._connection

    def _error(self) -> AgentdError:
        """Each call has an error of its own, with its own trace."""
        assert self._lost is not None
        return ConnectionLost(str(self._lost)) if isinstance(self._lost, ConnectionLost) else self._lost

    def _end(self, error: AgentdError) -> None:
        if self._lost is not None:
            return
        self._lost = error
        if self._returning is not None and not self._returning.done():
            self._returning.set_exception(error)
        self._end_replays(error)
        self._listener.lost(error)

    def _end_replays(self, entry: Entry) -> None:
        replays, self._replays = self._replays, {}
        for replay in replays.values():
            replay.put(entry)

    async def _connect(self, timeout: float) -> Connection:
        connection = Connection(self)

        async def work() -> None:
            await self._open_connection(connection)
            await self._shake_hands(connection)

        try:
            await asyncio.wait_for(work(), timeout)
        except asyncio.TimeoutError as error:
            lost = connection.broken(f"the handshake took longer than {timeout:g} seconds")
            await connection.abort()
            raise lost from error
        except asyncio.CancelledError:
            await connection.abort()
            raise
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _shake_hands(self, connection: Connection) -> None:
        server = await connection.request(
            "initialize",
            {
                "clientInfo": {"name": self._client_name, "title": None, "version": VERSION},
                "capabilities": self._capabilities,
            },
        )
        _check_version(str(server.get("userAgent", "")) if isinstance(server, dict) else "")
        self.server = cast("InitializeResponse", server)
        await connection.send({"method": "initialized"})

    async def _return(self, old: Connection, lost: ConnectionLost, returning: asyncio.Future[Connection]) -> None:
        """Connects again until it works or the time is over, and subscribes to the threads that are awaited."""
        await old.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._reconnect_timeout
        failure: AgentdError = lost
        delay = _FIRST_DELAY
        while self._lost is None:
            left = deadline - loop.time()
            if left <= 0:
                self._end(ConnectionLost(f"{lost}; it was not made again: {failure}"))
                return
            # Of each attempt: the threads that one resumed before it failed are not subscribed to on the next.
            self._left.update(self._cursors)
            try:
                connection = await self._return_once(min(left, self._start_timeout))
            except AgentdError as error:
                failure = error
                if isinstance(error, VersionMismatch):
                    self._end(error)
                    return
            else:
                self._connection = connection
                self._returning = None
                if not returning.done():
                    returning.set_result(connection)
                return
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, _LONGEST_DELAY)

    async def _return_once(self, timeout: float) -> Connection:
        connection = await self._connect(timeout)
        try:
            await self._resume_awaited(connection)
            if connection.is_lost:
                raise ConnectionLost("the connection was lost again")
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _resume_awaited(self, connection: Connection) -> None:
        for thread in self._listener.awaited():
            if thread not in self._left:
                continue
            try:
                await self._resume(connection, thread)
            except AgentdError as error:
                # A server that has too much to do is asked again on the next connection.
                if connection.is_lost or isinstance(error, Overloaded):
                    raise
                why = f"the thread could not be resumed on a new connection: {error}"
                self._listener.gone(thread, ConnectionLost(why))

    async def _resume(self, connection: Connection, thread: str) -> None:
        def taken(result: Any) -> None:
            self.id_of("thread", "thread/resume", result)
            replay = result.get("eventReplay")
            kind = replay.get("type") if isinstance(replay, dict) else None
            if isinstance(replay, dict) and isinstance(replay.get("openRequestIds"), list):
                self._listener.still_open(thread, replay["openRequestIds"])
            if kind == "snapshot":
                self._listener.replaced(thread, result["thread"])
            # With a replay, each event brings its own position.
            if kind != "replayed":
                self._keep_cursor(thread, result)
            self._left.discard(thread)

        params = {"threadId": thread, "eventCursor": self._cursors.get(thread)}
        await connection.request("thread/resume", params, taken)

    def _keep_cursor(self, thread: str, result: Any) -> None:
        cursor = result.get("eventCursor") if isinstance(result, dict) else None
        if isinstance(cursor, str):
            self._cursors[thread] = cursor


def _check_version(user_agent: str) -> None:
    found = _VERSION.search(user_agent)
    if found is None or found.group(1) != "0" or int(found.group(2)) < 1:
        version = user_agent.split(" ")[0].rpartition("/")[2]
        raise VersionMismatch(version, WANTED)
