"""A bot for many users, each with a thread: python3 bot.py ADDRESS DATABASE

The database stands for the chat: it holds each user's messages, and gets their answers and what they cost. The bot and its
server may be killed at any moment: each message has one answer, and the turns that ran meanwhile are not run again.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from dataclasses import dataclass
from typing import Any

from agentd_embed import Approval, AsyncAgent, AsyncThread, AsyncTurn, ConnectionLost, ToolContext, TurnFailed, TurnInterrupted, tool

TABLES = """
    CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, thread TEXT, turn TEXT, cost TEXT);
    CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, user TEXT, text TEXT, is_answered INTEGER DEFAULT 0);
    CREATE TABLE IF NOT EXISTS answers (message INTEGER, text TEXT);
"""
#: Seconds that a user has to allow a command.
PATIENCE = 60.0


@dataclass
class Reply:
    """What the model answers with."""

    text: str


@tool
def account(ctx: ToolContext) -> dict[str, str]:
    """The user's account."""
    return {"name": ctx.user}


async def approve(approval: Approval, ctx: ToolContext) -> bool:
    try:
        return await asyncio.wait_for(allowed(ctx.user, approval.command or approval.kind), PATIENCE)
    except asyncio.TimeoutError:
        return False


async def allowed(user: str, what: str) -> bool:
    """Asks the user, in the chat."""
    return True


class Bot:
    def __init__(self, agent: AsyncAgent, database: sqlite3.Connection) -> None:
        self.agent = agent
        self.database = database
        self.busy: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        while True:
            for (user,) in self.database.execute("SELECT DISTINCT user FROM messages WHERE NOT is_answered").fetchall():
                task = self.busy.get(user)
                if task is None or task.done():
                    error = None if task is None else task.exception()
                    # The server was killed, which ends what ran: this round sees how far it came.
                    if error is not None and not isinstance(error, (ConnectionLost, TurnInterrupted)):
                        raise error
                    self.busy[user] = asyncio.ensure_future(self.answer(user))
            await asyncio.sleep(0.05)

    async def answer(self, user: str) -> None:
        thread = await self.thread(user)
        unanswered = "SELECT id, text FROM messages WHERE user = ? AND NOT is_answered ORDER BY id"
        for message, text in self.database.execute(unanswered, [user]).fetchall():
            turn, reply = await self.reply(thread, user, text)
            usage = thread.usage()
            with self.database:
                self.database.execute("INSERT INTO answers VALUES (?, ?)", [message, reply.text])
                self.database.execute("UPDATE messages SET is_answered = 1 WHERE id = ?", [message])
                self.database.execute("UPDATE users SET turn = ? WHERE name = ?", [turn, user])
                if usage is not None and usage.cost is not None:
                    self.database.execute("UPDATE users SET cost = ? WHERE name = ?", [str(usage.cost.thread), user])

    async def thread(self, user: str) -> AsyncThread:
        row = self.database.execute("SELECT thread FROM users WHERE name = ?", [user]).fetchone()
        if row is not None:
            return await self.agent.resume(row[0], context=user)
        thread = await self.agent.thread(context=user, sandbox="readOnly", approvalPolicy="onRequest")
        with self.database:
            self.database.execute("INSERT INTO users VALUES (?, ?, NULL, NULL)", [user, thread.id])
        return thread

    async def reply(self, thread: AsyncThread, user: str, text: str) -> tuple[str, Reply]:
        """The answer of the turn that answers it, which may have begun or ended before the bot was killed."""
        (answered,) = self.database.execute("SELECT turn FROM users WHERE name = ?", [user]).fetchone()
        # In this order: a turn that runs now may have ended in the next moment.
        turn: AsyncTurn[Any] | None = await thread.running()
        if turn is None:
            for last in (await thread.read())["thread"]["turns"][-1:]:
                if last["id"] != answered and last["status"] == "completed":
                    says = [item["text"] for item in last["items"] if item["type"] == "agentMessage"]
                    return last["id"], Reply(**json.loads(says[-1]))
            turn = await thread.turn(text, output=Reply)
        try:
            return turn.id, Reply(**json.loads((await turn.result()).text))
        except TurnFailed as error:
            return turn.id, Reply(f"There is no answer: {error}")


async def main() -> None:
    _, address, path = sys.argv
    database = sqlite3.connect(path, timeout=60)
    database.executescript(TABLES)
    # A server that is away is waited for.
    options: Any = {"reconnect_timeout": float("inf"), "start_timeout": float("inf")}
    async with AsyncAgent(address=address, tools=[account], approve=approve, **options) as agent:
        await Bot(agent, database).run()


if __name__ == "__main__":
    asyncio.run(main())
