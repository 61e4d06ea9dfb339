"""Hands what the server says to the threads, turns and callbacks that it is for."""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from typing import Any, cast

from ._answers import Answerer
from ._connection import Connection
from ._event_types import Event
from ._events import AnyEvent, Notification, thread_of
from ._feed import REOPEN
from ._order import CompactionEnd
from ._session import Session
from ._state import Reader, ThreadState
from ._subagents import SubAgents
from .errors import AgentdError, ConnectionLost

#: Learns of a notification.
Handler = Callable[[Event], object]

_log = logging.getLogger("agentd_embed")


class Router:
    """Takes everything of a session."""

    session: Session

    def __init__(self, states: MutableMapping[str, ThreadState], sub_agents: SubAgents, answerer: Answerer) -> None:
        self._states = states
        self._sub_agents = sub_agents
        self._answerer = answerer
        self._handlers: list[Handler] = []

    def add_handler(self, handler: Handler) -> Callable[[], None]:
        """Adds what learns of every notification, and returns what removes it."""
        entry: Handler = lambda event: handler(event)  # noqa: E731 One function may be added twice.
        self._handlers.append(entry)

        def remove() -> None:
            if entry in self._handlers:
                self._handlers.remove(entry)

        return remove

    def received(self, event: AnyEvent) -> None:
        """A notification of any kind, before any filter."""
        for handler in list(self._handlers):
            try:
                handler(cast(Event, event))
            except Exception:  # What it raises is no reason to lose events.
                _log.exception("a handler of notifications failed at `%s`", event.method)

    def notified(self, event: AnyEvent) -> None:
        """A new notification: for the readers of its thread."""
        thread = thread_of(event.params)
        if event.method == "serverRequest/resolved":
            self._answerer.resolved(event.params.get("requestId"))
        elif event.method == "turn/completed":
            self._answerer.ended(thread, event.turn_id)
        self._sub_agents.notified(event)
        state = None if thread is None else self._states.get(thread)
        if state is not None:
            state.put(event)

    def asked(self, connection: Connection, number: Any, method: str, params: dict[str, Any]) -> None:
        """A request of the server."""
        self._answerer.asked(connection, number, method, params)

    def still_open(self, thread: str, numbers: list[Any]) -> None:
        """The requests of a thread that are open on a new connection."""
        self._answerer.still_open(thread, numbers)

    def interrupted(self) -> None:
        """The connection was lost, and may come back."""
        for state in list(self._states.values()):
            state.detach_followers(REOPEN)

    def lost(self, error: AgentdError) -> None:
        """The connection is lost for good: ends every turn."""
        self._answerer.lost()
        for state in list(self._states.values()):
            state.put(error)

    def awaited(self) -> list[str]:
        """The threads with a turn whose events or whose end is awaited."""
        return [state.id for state in list(self._states.values()) if state.readers()]

    def gone(self, thread: str, error: AgentdError) -> None:
        """Ends the turns of a thread."""
        state = self._states.get(thread)
        if state is not None:
            state.put(error)

    def replaced(self, thread: str, record: dict[str, Any]) -> None:
        """Tells the turns of a thread how they stand, when the events in between are gone."""
        state = self._states.get(thread)
        missing = [] if state is None else [it for it in state.readers() if not _replace(it, thread, record)]
        if missing:
            # The snapshot may hold the newest turns only.
            self.session.begin(self._replace_from_whole(thread, missing))

    def missed(self, thread: str, record: dict[str, Any]) -> None:
        """The readers of a thread may have missed events: `record` is how things stand."""
        state = self._states.get(thread)
        if state is not None:
            state.detach_followers(REOPEN)
        self.replaced(thread, record)

    async def _replace_from_whole(self, thread: str, missing: list[Reader]) -> None:
        def taken(result: Any) -> None:
            whole = result.get("thread") if isinstance(result, dict) else None
            for reader in missing:
                if not isinstance(whole, dict) or not _replace(reader, thread, whole):
                    reader.put_nowait(ConnectionLost("the turn is no longer part of its thread"))

        try:
            await self.session.request("thread/read", {"threadId": thread, "includeTurns": True}, taken)
        except AgentdError as error:
            for reader in missing:
                reader.put_nowait(ConnectionLost(f"the turn could not be read on a new connection: {error}"))


def _replace(reader: Reader, thread: str, record: dict[str, Any]) -> bool:
    """Says how the turn of a reader stands; false when the thread does not have it."""
    if reader.turn_id is None:
        # Its turn has not started: the request failed with the connection.
        if isinstance(reader, CompactionEnd):
            reader.lose_sight()
        return True
    turns = record.get("turns")
    for turn in turns if isinstance(turns, list) else []:
        if isinstance(turn, dict) and turn.get("id") == reader.turn_id and isinstance(turn.get("items"), list):
            event: AnyEvent = Notification("turn/replaced", {"threadId": thread, "turn": turn})
            reader.put_nowait(event)
            return True
    return False
