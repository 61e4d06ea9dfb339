"""The application's values for the callbacks of sub-agents: each has that of the turn that gave it its work last."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from ._events import AnyEvent
from ._state import SubAgent, ThreadState

#: Calls that give an agent work.
_ASSIGNING = {"spawnAgent", "sendInput", "resumeAgent"}
#: Sub-agents below a thread that are known. At the bound the one that got work the longest ago is forgotten.
MAX_KNOWN = 4096


class SubAgents:
    """The sub-agents of an agent's threads, which :class:`ThreadState` of the uppermost thread holds."""

    def __init__(self, states: Mapping[str, ThreadState]) -> None:
        self._states = states
        #: The uppermost thread of each sub-agent.
        self._roots: weakref.WeakValueDictionary[str, ThreadState] = weakref.WeakValueDictionary()

    def notified(self, event: AnyEvent) -> None:
        """Learns who started whom, and who works for whom."""
        if event.method == "thread/started":
            self._started(event.params.get("thread"))
        elif event.method in ("item/started", "item/completed"):
            self._assigned(event.params.get("item"), event.turn_id)

    def opened(self, turns: Any) -> None:
        """Learns it of the turns of a thread that was opened."""
        for turn in turns if isinstance(turns, list) else []:
            items = turn.get("items") if isinstance(turn, dict) else None
            for item in items if isinstance(items, list) else []:
                self._assigned(item, turn.get("id"))

    def user_of(self, thread_id: Any, turn_id: Any) -> Any:
        """The value for a turn of a thread."""
        state = self._states.get(thread_id)
        user = None if state is None else state.user_of(turn_id)
        root = self._roots.get(thread_id)
        return root.agents[thread_id].user if user is None and root is not None else user

    def _started(self, thread: Any) -> None:
        source = _member(_member(_member(thread, "source"), "subAgent"), "thread_spawn")
        parent, child = _member(source, "parent_thread_id"), _member(thread, "id")
        if isinstance(parent, str) and isinstance(child, str):
            state = self._states.get(parent)
            running = None if state is None or state.running is None else state.running.turn_id
            self._assign(parent, child, running, _member(source, "agent_nickname"))

    def _assigned(self, item: Any, turn_id: Any) -> None:
        if _member(item, "type") != "collabToolCall" or _member(item, "tool") not in _ASSIGNING:
            return
        sender, receivers = _member(item, "senderThreadId"), _member(item, "receiverThreadIds")
        root = self._root_of(sender)
        if root is None or not isinstance(receivers, list):
            return
        for name in receivers:
            # While the call runs, the agent may be named by its nickname.
            named = [each for each, agent in root.agents.items() if name in (each, agent.nickname)]
            child = named[-1] if named else name if _member(item, "status") == "completed" else None
            if isinstance(child, str):
                self._assign(sender, child, turn_id, None)

    def _assign(self, parent: str, child: str, turn_id: Any, nickname: Any) -> None:
        root = self._root_of(parent)
        if root is not None:
            user = self.user_of(parent, turn_id)
            known = root.agents.pop(child, None)
            root.agents[child] = SubAgent(nickname if known is None else nickname or known.nickname, user)
            self._roots[child] = root
            if len(root.agents) > MAX_KNOWN:
                oldest = next(iter(root.agents))
                del root.agents[oldest]
                del self._roots[oldest]

    def _root_of(self, thread_id: Any) -> ThreadState | None:
        return self._roots.get(thread_id) or self._states.get(thread_id)


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None
