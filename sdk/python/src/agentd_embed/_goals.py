"""The goal of a thread, on which turns work by themselves until it is reached. Needs `features.goals`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ._params import of_type

if TYPE_CHECKING:
    from ._agent import AsyncAgent
    from .types import ThreadGoal, ThreadGoalStatus


class GoalMethods:
    """The part of a thread that is about its goal."""

    agent: AsyncAgent
    id: str

    async def goal(self) -> ThreadGoal | None:
        """The goal of the thread; None without one."""
        return cast("ThreadGoal | None", (await self._request("thread/goal/get", {}))["goal"])

    async def set_goal(
        self,
        objective: str | None = None,
        *,
        token_budget: int | None = None,
        status: ThreadGoalStatus | None = None,
    ) -> ThreadGoal:
        """Sets the goal, or what is given of it. A turn starts by itself: follow it with `events` or `running`.

        `token_budget` is how many tokens the work on it may use.
        """
        of_type("objective", objective, str)
        of_type("token_budget", token_budget, int)
        of_type("status", status, str)
        given = {"objective": objective, "tokenBudget": token_budget, "status": status}
        params = {name: value for name, value in given.items() if value is not None}
        return cast("ThreadGoal", (await self._request("thread/goal/set", params))["goal"])

    async def clear_goal(self) -> bool:
        """Removes the goal. False when there was none."""
        return bool((await self._request("thread/goal/clear", {})).get("cleared"))

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        return await self.agent.request(method, {"threadId": self.id, **params})
