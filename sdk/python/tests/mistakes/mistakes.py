"""Deliberate mistakes, one in each line that ends with `# wrong`: `mypy --strict` and `pyright` must find every one, and
nothing in the other lines. This file is never run: see test_types.py."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from agentd_embed import Agent, Approval, AsyncAgent, AsyncThread, Event, Result, Thread, ToolContext, Turn, image, tool


@dataclass
class Plan:
    title: str


def handle(event: Event) -> None:
    if event.method == "turn/completed":
        print(event.params["turn"]["status"].upper())
        print(event.params["item"])  # wrong
    elif event.method == "item/agentMessage/delta":
        print(event.params["delta"] + event.params["itemId"])
        print(event.params["delta"] + 1)  # wrong
    elif event.method == "replaced":
        print(len(event.params["turns"]), event.cursor)
        print(event.params["turn"])  # wrong


def sync(agent: Agent, thread: Thread, turn: Turn[str]) -> None:
    Agent(offline="yes")  # wrong
    Agent(approval=lambda _: True)  # wrong
    Agent(start_timeout="60")  # wrong
    Agent(tools=[len])  # wrong
    agent.thread(sandbox="readonly")  # wrong
    agent.thread(approval_policy="never")  # wrong
    agent.resume(5)  # wrong
    thread.run("go", output=Plan).output.name  # wrong
    thread.run("go").output.name  # wrong
    thread.run(5)  # wrong
    thread.run("go", timeout="5")  # wrong
    thread.run("go", maxTotalTokens="many")  # wrong
    thread.turn("go", on_busy="never")  # wrong
    thread.turn("go", output=5)  # wrong
    thread.events(cursor=5)  # wrong
    thread.review("main")  # wrong
    thread.undo(dryrun=True)  # wrong
    thread.set_goal("win", token_budget="10")  # wrong
    thread.queue("go", client_id=5)  # wrong
    thread.reorder_queue(5)  # wrong
    print(thread.queued()["pauses"])  # wrong
    agent.search("go", limit="5")  # wrong
    image(5)  # wrong
    turn.results()  # wrong
    agent.on_notification(lambda event, more: None)  # wrong
    agent.typed.request("thread/list", {"limit": 5})["rows"]  # wrong

    plan: Plan = thread.run("go", output=Plan, timeout=5.0, effort="high").output
    text: str = thread.run([image(b""), "What is this?"], max_cost="0.1").output
    free: dict[str, Any] = thread.run("go", output={"type": "object"}).output
    numbers: list[int] = thread.run("go", output=list[int]).output
    print(plan.title, text, free, numbers)
    for event in thread.events():
        handle(event)
    for record in agent.list(archived=True):
        print(record["id"], record["nope"])  # wrong
    for found in agent.search("parser", cwd="/work"):
        print(found["snippet"], found["thread"]["id"], found["turn"])  # wrong
    running = thread.running()
    print(running.id)  # wrong


async def asynchronous(agent: AsyncAgent, thread: AsyncThread) -> None:
    result: Result[Plan] = await thread.run("go", output=Plan)
    print(result.cost.turn)  # wrong
    print(result.output.title if result.cost else None)
    other: Result[int] = await agent.run("go", output=Plan)  # wrong
    asyncio.run(thread.usage())  # wrong
    async for text in thread.running():  # wrong
        print(text)
    print(other)


@tool
def note(text: str, ctx: ToolContext) -> str:
    """Notes a text."""
    return ctx.users  # wrong


def approve(approval: Approval) -> bool:
    return approval.command  # wrong
