"""Events of a thread, whichever client runs its turns: none is lost or doubled, over losses and processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentd_embed import (
    Agent,
    AsyncAgent,
    ConnectionLost,
    Event,
    InvalidRequest,
    ThreadBusy,
    ThreadEvents,
    TurnInterrupted,
)
from conftest import FakeSocket, Scripted
from test_agent import message
from test_reconnect import IDLE, LONG, agent_of, gated, run, serving


async def until(events: ThreadEvents, method: str) -> list[Event]:
    """The events up to the first with this method."""
    taken: list[Event] = []
    async for event in events:
        taken.append(event)
        if event.method == method:
            break
    return taken


def text_of(events: list[Event]) -> str:
    """The answer, by its deltas or, where a replay has none, by its completed items."""
    written: dict[str, str] = {}
    for event in events:
        if event.method == "item/agentMessage/delta":
            written[event.params["itemId"]] = written.get(event.params["itemId"], "") + event.params["delta"]
        elif event.method == "item/completed" and event.params["item"]["type"] == "agentMessage":
            written[event.params["item"]["id"]] = event.params["item"]["text"]
    return "".join(written.values())


def test_events_of_another_client_s_turn_arrive(scripted: Scripted) -> None:
    arguments = scripted([message("Hello there", chunk_chars=4)])

    async def work() -> None:
        async with gated(arguments, "unix") as gate:
            async with agent_of(arguments, gate.address) as first, agent_of(arguments, gate.address) as second:
                thread = await first.thread()
                other = await second.resume(thread.id)
                seen, twice = other.events(), other.events()
                before = other.cursor
                await thread.run("go")
                events = await until(seen, "turn/completed")
                methods = [it.method for it in events]
                assert methods.count("turn/started") == methods.count("thread/tokenUsage/updated") == 1
                assert "thread/status/changed" in methods and text_of(events) == "Hello there"
                assert [it.cursor for it in await until(twice, "turn/completed")] == [it.cursor for it in events]
                cursors = [it.cursor for it in events]
                assert len(set(cursors)) == len(cursors) and None not in cursors
                assert other.cursor == cursors[-1] != before

    run(work)


def test_events_go_on_after_each_cursor_in_another_process(scripted: Scripted) -> None:
    arguments = scripted([message("Hello there", chunk_chars=4), message("Next")])

    async def work() -> None:
        async with gated(arguments, "unix") as gate:
            async with agent_of(arguments, gate.address) as first:
                thread = await first.thread()
                live = thread.events()
                await thread.run("go")
                events = await until(live, "turn/completed")
                for at in range(0, len(events), 3):
                    async with agent_of(arguments, gate.address) as second:
                        again = await second.resume(thread.id)
                        rest = again.events(events[at].cursor)
                        untouched = again.events()
                        replayed = await asyncio.wait_for(until(rest, "turn/completed"), 20)
                        assert text_of(events[: at + 1] + replayed).endswith("Hello there")
                        known = [it.cursor for it in events[at + 1 :]]
                        cursors = [it.cursor for it in replayed]
                        # Deltas of items that have ended, and statuses that have changed since, are left out.
                        assert cursors == [it for it in known if it in cursors] and cursors[-1] == known[-1]
                        assert again.cursor == cursors[-1]
                        # The events that were sent again are those of one iteration.
                        assert len(untouched._feed) <= 1
                async with agent_of(arguments, gate.address) as second:
                    again = await second.resume(thread.id)
                    both = [again.events(events[0].cursor), again.events(events[-1].cursor)]
                    await asyncio.gather(*(until(it, "thread/status/changed") for it in both))
                    await thread.run("more")
                    for each in both:
                        assert text_of(await until(each, "turn/completed")) == "Next"

    run(work)


@pytest.mark.parametrize("kind", ["unix", "ws"])
def test_events_go_on_after_losses(scripted: Scripted, kind: str) -> None:
    arguments = scripted([message(LONG, chunk_chars=8, chunk_delay_ms=3)])

    async def work() -> None:
        async with gated(arguments, kind) as gate:
            async with agent_of(arguments, gate.address) as agent:
                thread = await agent.thread()
                events, taken = thread.events(), list[Event]()
                turn = await thread.turn("go")
                async for event in events:
                    taken.append(event)
                    if len(taken) % 40 == 0 and gate.connections < 4:
                        gate.cut()
                    if event.method == "turn/completed":
                        break
                assert gate.connections == 4
                written = "".join(it.text for it in taken)
                assert LONG.startswith(written[:200]) and text_of(taken) == LONG
                assert (await turn.result()).text == LONG
                assert not [it for it in taken if it.method == "replaced"]
                cursors = [it.cursor for it in taken]
                assert len(set(cursors)) == len(cursors)

    run(work)


def test_a_server_that_was_killed_sends_one_event_for_what_is_gone(scripted: Scripted) -> None:
    arguments = scripted([message("One")])
    folder = Path(arguments["cwd"]).parent

    async def work() -> None:
        async with serving(folder, arguments["env"]) as server:
            async with agent_of(arguments, f"unix://{folder / 's.sock'}") as agent:
                thread = await agent.thread()
                events = thread.events()
                await thread.run("go")
                await until(events, "turn/completed")
                server.kill()
                await server.wait()
                (folder / "s.sock").unlink()
                async with serving(folder, arguments["env"]):
                    event = (await until(events, "replaced"))[-1]
                    assert event.method == "replaced"
                    assert event.params["reason"] == "reloaded"
                    assert [it["status"] for it in event.params["turns"]] == ["completed"]
                    await thread.run("more")
                    # The model of the new process begins its script again.
                    assert text_of(await until(events, "turn/completed")) == "One"

    run(work)


def test_a_running_turn_is_followed_from_the_middle(scripted: Scripted) -> None:
    arguments = scripted([message(LONG, chunk_chars=8, chunk_delay_ms=3)])

    async def work() -> None:
        async with gated(arguments, "unix") as gate:
            async with agent_of(arguments, gate.address) as first, agent_of(arguments, gate.address) as second:
                thread = await first.thread()
                other = await second.resume(thread.id)
                assert await other.running() is None
                turn = await thread.turn("go")
                texts = turn.text()
                assert await texts.__anext__()
                followed = await other.running()
                assert followed is not None and followed.id == turn.id
                assert "".join([it async for it in followed.text()]) == LONG
                assert (await followed.result()).text == LONG
                assert LONG.endswith("".join([it async for it in texts]))

    run(work)


def test_a_busy_thread_is_joined_or_refused(scripted: Scripted) -> None:
    arguments = scripted([IDLE, message("Next"), message("Last")])

    async def work() -> None:
        async with gated(arguments, "unix") as gate:
            async with agent_of(arguments, gate.address) as first, agent_of(arguments, gate.address) as second:
                thread = await first.thread()
                other = await second.resume(thread.id)
                turn = await thread.turn("go")
                async for _ in turn.text():
                    break
                for each in (thread, other):
                    with pytest.raises(ThreadBusy):
                        await each.turn("more", on_busy="error")
                    with pytest.raises(ThreadBusy, match="takes nothing but the message"):
                        await each.turn("more", on_busy="join", output={"type": "object"})
                    joined = await each.turn("and this", on_busy="join")
                    assert joined.id == turn.id
                assert await other.interrupt() is True
                assert await other.interrupt() is False
                assert await other.steer("too late") is False
                ended = (await thread.read())["thread"]["turns"][0]
                texts = [it["content"][0] for it in ended["items"] if it["type"] == "userMessage"]
                assert len(texts) == 3
                # Nothing runs: both begin a turn.
                assert (await other.run("next", on_busy="error")).text == "Next"
                assert (await other.run("last", on_busy="join")).text == "Last"
                with pytest.raises(ValueError, match="`on_busy` is 'never'"):
                    await other.turn("x", on_busy="never")  # type: ignore[call-overload]

    run(work)


def test_a_review_is_not_joined(scripted: Scripted) -> None:
    async def work() -> None:
        async with AsyncAgent(**scripted([{"steps": ["idle"]}])) as agent:
            thread = await agent.thread()
            review = await thread.review({"type": "custom", "instructions": "Look"})
            with pytest.raises(InvalidRequest):
                await thread.turn("and this", on_busy="join")
            await review.interrupt()

    run(work)


def test_every_notification_is_handed_to_handlers(scripted: Scripted) -> None:
    seen: list[str] = []

    def broken(_: Event) -> None:
        raise RuntimeError("no reason to lose events")

    async def work() -> None:
        async with AsyncAgent(**scripted([message("Hi"), message("Again")])) as agent:
            untyped: Any = agent
            with pytest.raises(TypeError, match="`handler`"):
                untyped.on_notification(5)
            agent.on_notification(broken)
            remove = agent.on_notification(lambda event: seen.append(event.method))
            thread = await agent.thread()
            await thread.run("go")
            assert {"thread/started", "turn/started", "item/completed", "turn/completed"} <= set(seen)
            remove()
            remove()
            seen.clear()
            assert (await thread.run("more")).text == "Again" and not seen

    run(work)


def test_programs_without_asyncio_have_the_same_events(scripted: Scripted) -> None:
    with Agent(**scripted([message("Hi", chunk_chars=1), IDLE])) as agent:
        thread = agent.thread()
        events = thread.events()
        thread.run("go")
        taken: list[Event] = []
        for event in events:
            taken.append(event)
            if event.method == "turn/completed":
                break
        assert text_of(taken) == "Hi" and thread.cursor == taken[-1].cursor
        again = thread.events(taken[2].cursor)
        assert next(again).cursor in [it.cursor for it in taken[3:]]
        turn = thread.turn("more")
        next(turn.text())
        running = thread.running()
        assert running is not None and running.id == turn.id
        assert thread.steer("and this") and thread.interrupt()
        with pytest.raises(TurnInterrupted):
            running.result()
        assert thread.running() is None


def test_events_end_with_a_connection_that_is_given_up() -> None:
    async def work() -> None:
        async with FakeSocket() as server:
            async with AsyncAgent(address=server.address, reconnect_timeout=0) as agent:
                events = (await agent.thread()).events()
                server.cut()
                for _ in range(2):
                    with pytest.raises(ConnectionLost):
                        await asyncio.wait_for(events.__anext__(), 10)

    run(work)
