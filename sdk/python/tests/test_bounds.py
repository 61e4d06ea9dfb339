"""Events that are not read: bounded memory, a loop that stays responsive, and answers that still arrive."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from agentd_embed import AsyncAgent, ConnectionLost, Event
from agentd_embed._feed import MAX_BYTES, MAX_EVENTS
from conftest import Fake, Scripted
from test_agent import call, message

TURN = (
    "hello()\n"
    "send(id=receive()['id'], result={'thread': {'id': 't'}, 'eventCursor': '0'})\n"
    "send(id=receive()['id'], result={'turn': {'id': 'u'}})\n"
)
ENDED = "send(method='turn/completed', params={'threadId': 't', 'turn': {'id': 'u', 'status': 'completed', 'items': []}})\n"


def many(count: int, method: str, params: str, cursor: str = "str(n)") -> str:
    """A body that sends so many events fast; `n` is the number of each."""
    return (
        f"for n in range({count}):\n"
        f"    line = json.dumps({{'method': '{method}', 'params': {{'threadId': 't', 'turnId': 'u', **{params}}}, 'eventCursor': {cursor}}})\n"
        "    sys.stdout.write(line + '\\n')\n"
        "sys.stdout.flush()\n"
    )


PROGRESS = many(200_000, "item/mcpToolCall/progress", "{'itemId': str(n), 'message': 'x'}")


async def latest_timer(until: asyncio.Event) -> float:
    """The most that a timer was late because this process worked, in seconds: other processes may hold it up, too."""
    worst = 0.0
    while not until.is_set():
        began = time.process_time()
        await asyncio.sleep(0.01)
        worst = max(worst, time.process_time() - began - 0.01)
    return worst


@pytest.mark.parametrize("is_read", [False, True])
def test_no_timer_is_late_with_200000_events(fake: Fake, is_read: bool) -> None:
    async def work() -> float:
        done = asyncio.Event()
        async with AsyncAgent(**fake(TURN + PROGRESS + ENDED + "sys.stdin.read()\n")) as agent:
            timer = asyncio.ensure_future(latest_timer(done))
            turn = await (await agent.thread()).turn("go")
            if is_read:
                count = sum([1 async for _ in turn])
                assert count == 200_001
            else:
                ended = agent.on_notification(lambda event: done.set() if event.method == "turn/completed" else None)
                await asyncio.wait_for(done.wait(), 60)
                ended()
            done.set()
            late = await timer
            print(f"read: {is_read}, timer late by {late * 1000:.1f} ms, {len(turn._feed)} events kept")
            assert len(turn._feed) <= 2 * MAX_EVENTS
            assert (await turn.result()).text == ""
            return late

    # A machine with other work holds single timers up: late in each of several runs is late.
    late = [asyncio.run(work())]
    while late[-1] >= 0.05 and len(late) < 5:
        late.append(asyncio.run(work()))
    assert min(late) < 0.05, late


def test_unread_events_hold_the_server_back(fake: Fake) -> None:
    """The server of the pipe stops in its writing while nothing is taken, and a reader that takes gets everything."""
    body = TURN + many(20_000, "item/mcpToolCall/progress", "{'itemId': str(n), 'message': 'x' * 2000}") + ENDED + "sys.stdin.read()\n"
    received = 0

    def count(_: Event) -> None:
        nonlocal received
        received += 1

    async def work() -> None:
        async with AsyncAgent(**fake(body)) as agent:
            agent.on_notification(count)
            turn = await (await agent.thread()).turn("go")
            taken = 0
            async for _ in turn:
                taken += 1
                if taken % 500 == 0:
                    await asyncio.sleep(0.02)
                assert received - taken <= MAX_EVENTS + 2
            assert taken == 20_001

    asyncio.run(work())


def test_requests_and_questions_are_answered_in_front_of_unread_events(fake: Fake) -> None:
    body = (
        TURN + PROGRESS
        + "send(id='q', method='item/fileChange/requestApproval', params={'threadId': 't', 'turnId': 'u'})\n"
        + "answered = receive()\n"
        + "send(id=receive()['id'], result=answered['id'])\n"
        + "sys.stdin.read()\n"
    )

    async def work() -> None:
        asked = asyncio.Event()

        async def approve(_: Any) -> bool:
            asked.set()
            return True

        async with AsyncAgent(**fake(body), approve=approve) as agent:
            turn = await (await agent.thread()).turn("go")
            # Nothing is read: after the stall the question arrives all the same.
            await asyncio.wait_for(asked.wait(), 30)
            assert len(turn._feed) <= 2 * MAX_EVENTS
            assert await asyncio.wait_for(agent.request("thread/list"), 10) == "q"

    asyncio.run(work())


def test_an_agent_with_unread_events_closes_at_once(fake: Fake) -> None:
    """The server ends by itself, since what it still writes is read: it is not killed after the grace of 5 seconds."""

    async def work() -> None:
        # More than is kept and than the pipe holds, and no more: the grace is real time.
        events = many(2 * MAX_EVENTS, "item/mcpToolCall/progress", "{'itemId': str(n), 'message': 'x'}")
        async with AsyncAgent(**fake(TURN + events + "sys.stdin.read()\n")) as agent:
            turn = await (await agent.thread()).turn("go")
            while len(turn._feed) < MAX_EVENTS:
                await asyncio.sleep(0)
            connection = agent._session._connection
            assert connection is not None and connection._process is not None
        assert connection._process.returncode == 0

    asyncio.run(work())


def test_deltas_of_one_text_are_merged(fake: Fake) -> None:
    deltas = many(50_000, "item/agentMessage/delta", "{'itemId': 'i' if n < 40_000 else 'j', 'delta': f'{n},'}")

    async def work() -> None:
        done = asyncio.Event()
        async with AsyncAgent(**fake(TURN + deltas + ENDED + "sys.stdin.read()\n")) as agent:
            agent.on_notification(lambda event: done.set() if event.method == "turn/completed" else None)
            turn = await (await agent.thread()).turn("go")
            await asyncio.wait_for(done.wait(), 60)
            assert len(turn._feed) < 100
            events = [it async for it in turn]
            assert "".join(it.text for it in events) == "".join(f"{n}," for n in range(50_000))
            merged = [it for it in events if it.method == "item/agentMessage/delta"]
            assert merged[-1].cursor == "49999"

    asyncio.run(work())


def test_a_reader_of_events_that_takes_nothing_gets_one_for_all(fake: Fake) -> None:
    body = (
        TURN + PROGRESS + ENDED
        + "send(id=receive()['id'], result={'thread': {'id': 't', 'turns': [{'id': 'u', 'status': 'completed'}]}})\n"
        + "send(method='thread/name/updated', params={'threadId': 't', 'threadName': 'n'}, eventCursor='last')\n"
        + "sys.stdin.read()\n"
    )

    async def work() -> None:
        done = asyncio.Event()
        async with AsyncAgent(**fake(body)) as agent:
            agent.on_notification(lambda event: done.set() if event.method == "turn/completed" else None)
            thread = await agent.thread()
            events = thread.events()
            turn = await thread.turn("go")
            await asyncio.wait_for(done.wait(), 60)
            first = await events.__anext__()
            assert first.method == "replaced"
            assert first.params["reason"] == "lagged" and first.params["turns"][0]["status"] == "completed"
            assert first.cursor == "199999"
            assert (await events.__anext__()).cursor == "last"
            assert (await turn.result()).turn["status"] == "completed"

    asyncio.run(work())


def test_a_large_message_of_an_item_is_bounded_by_bytes(fake: Fake) -> None:
    chunks = many(400, "item/mcpToolCall/progress", "{'itemId': str(n), 'message': 'x' * 200_000}")

    async def work() -> None:
        received = 0

        def count(_: Event) -> None:
            nonlocal received
            received += 1

        async with AsyncAgent(**fake(TURN + chunks + ENDED + "sys.stdin.read()\n")) as agent:
            agent.on_notification(count)
            turn = await (await agent.thread()).turn("go")
            taken = 0
            async for _ in turn:
                taken += 1
                assert (received - taken) * 200_000 <= MAX_BYTES + 1_000_000
            assert taken == 401

    asyncio.run(work())


def test_a_text_is_whole_after_a_reduction_in_its_middle(fake: Fake) -> None:
    delta = "send(method='item/agentMessage/delta', params={'threadId': 't', 'turnId': 'u', 'itemId': 'i', 'delta': '%s'})\n"
    item = {"type": "agentMessage", "id": "i", "text": "one two three four"}
    body = (
        TURN + delta % "one " + "first = receive()\n"
        + delta % "two " + PROGRESS + "send(id=first['id'], result={})\n"
        + "second = receive()\n" + delta % "three " + "send(id=second['id'], result={})\n"
        + "third = receive()\n" + delta % "four"
        + f"send(method='item/completed', params={{'threadId': 't', 'turnId': 'u', 'item': {item!r}}})\n"
        + ENDED + "send(id=third['id'], result={})\nsys.stdin.read()\n"
    )

    async def work() -> None:
        async with AsyncAgent(**fake(body)) as agent:
            turn = await (await agent.thread()).turn("go")
            texts = turn.text()
            assert await texts.__anext__() == "one "
            await asyncio.wait_for(agent.request("first"), 60)
            await agent.request("second")
            await agent.request("third")
            assert "".join(["one ", *[it async for it in texts]]) == "one two three four"
            assert (await turn.result()).text == "one two three four"

    asyncio.run(work())


def test_a_slow_reader_of_the_program_gets_every_text(scripted: Scripted) -> None:
    words = {"steps": [{"message": {"chunks": ["word ", "and "], "repeat": 20_000}}]}
    steps = {"steps": [call("exec_command", cmd=f"echo {n}")["steps"][0] for n in range(50)]}

    async def work() -> None:
        async with AsyncAgent(**scripted([words, steps, message("Done")])) as agent:
            thread = await agent.thread(sandbox="dangerFullAccess", approvalPolicy="never")
            events = thread.events()
            turn = await thread.turn("go")
            # The other thread's turn is whole before anything of the first is read.
            assert len((await (await agent.thread()).run("go")).text) == 9 * 20_000
            assert len("".join([it async for it in turn.text()])) == 9 * 20_000
            read = ""
            async for event in events:
                read += event.text
                if event.method == "turn/completed":
                    break
            assert read == "word and " * 20_000
            result = await thread.run("more")
            assert result.text == "Done" and len(result.items) == 52

    asyncio.run(work())


def test_a_server_that_is_killed_while_events_wait_ends_their_readers(scripted: Scripted) -> None:
    words = {"steps": [{"message": {"chunks": ["word "], "repeat": 20_000}}, "idle"]}

    async def work() -> None:
        async with AsyncAgent(**scripted([words])) as agent:
            thread = await agent.thread()
            events = thread.events()
            turn = await thread.turn("go")
            async for event in turn:
                if event.method == "item/completed" and event.params["item"]["type"] == "agentMessage":
                    break
            connection = agent._session._connection
            assert connection is not None and connection._process is not None
            connection._process.kill()
            with pytest.raises(ConnectionLost) as lost:
                await asyncio.wait_for(turn.result(), 30)
            assert lost.value.text == "word " * 20_000
            with pytest.raises(ConnectionLost):
                while True:
                    await asyncio.wait_for(events.__anext__(), 30)

    asyncio.run(work())
