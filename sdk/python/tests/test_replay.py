"""Events that are sent again for one iteration alone, also when it is cancelled, or their number is not known."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentd_embed import AgentdError, AsyncAgent, ThreadEvents
from conftest import Fake, Scripted
from test_agent import message
from test_events import text_of, until
from test_reconnect import agent_of, gated, run

#: A server with a thread, which has had the events 1 to 3.
THREAD = (
    "hello()\n"
    "def event(at): send(method='x', params={'threadId': 't', 'at': at}, eventCursor=str(at))\n"
    "def thread(turns=()): return {'thread': {'id': 't', 'turns': list(turns)}, 'eventCursor': str(now)}\n"
    "def answer(events=None, turns=()):\n"
    "    more = {} if events is None else {'eventReplay': {'type': 'replayed', 'events': events, 'openRequestIds': []}}\n"
    "    send(id=receive()['id'], result={**thread(turns), **more})\n"
    "now = 3\n"
    "answer()\n"
)
OPT_OUTS: Any = {"optOutNotificationMethods": ["turn/diff/updated"]}


async def numbers(events: ThreadEvents, last: int) -> list[Any]:
    """The numbers of the fake server's events, up to one of them."""
    taken: list[Any] = []
    async for event in events:
        taken.append(event.params.get("at"))
        if taken[-1] == last:
            break
    return taken


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_cancelled_reader_s_events_are_sent_again_for_it_alone(fake: Fake, is_closed: bool) -> None:
    body = THREAD + (
        "asked = receive()\n"
        "send(method='asked', params={})\n"
        "send(id=receive()['id'], result={})\n"
        "replay = {'type': 'replayed', 'events': 2, 'openRequestIds': []}\n"
        "send(id=asked['id'], result={**thread(), 'eventReplay': replay})\n"
        "event(2); event(3); event(4)\n"
        "sys.stdin.read()\n"
    )

    async def work() -> None:
        async with AsyncAgent(**fake(body)) as agent:
            asked = asyncio.Event()
            agent.on_notification(lambda event: asked.set() if str(event.method) == "asked" else None)
            thread = await agent.thread()
            live, again = thread.events(), thread.events("1")
            with pytest.raises(asyncio.TimeoutError):
                waiting = asyncio.ensure_future(again.__anext__())
                await asked.wait()
                await asyncio.wait_for(waiting, 0)
            if is_closed:
                await again.aclose()
            await agent.request("go")
            assert await numbers(live, 4) == [4]
            if is_closed:
                with pytest.raises(AgentdError, match="closed"):
                    await again.__anext__()
                assert len(again._feed) == 0 and again._feed not in thread._state.followers
            else:
                assert await numbers(again, 4) == [2, 3, 4]

    run(work)


# Of the three events that are counted, the server leaves out one: the client cannot know which.
@pytest.mark.parametrize("sent", ["event(2); event(3)", "event(1.5); event(2)", ""])
def test_events_that_are_left_out_are_not_waited_for(fake: Fake, sent: str) -> None:
    opened = "answer(3)\n" + (f"{sent}\n" if sent else "")
    # The second request bounds the events. The other reader opens its own again when new ones may have been among them.
    again = "if answered: answer(0)\n" if sent and "event(3)" not in sent else ""
    body = THREAD + opened + f"answered = {sent != ''}\nanswer()\n" + again + "now = 4; event(4)\nsys.stdin.read()\n"

    async def work() -> None:
        async with AsyncAgent(**fake(body), capabilities=OPT_OUTS) as agent:
            thread = await agent.thread()
            live, again = thread.events(), thread.events("1")
            expected = [float(it[6:-1]) for it in sent.split("; ") if it]
            both = await asyncio.gather(numbers(live, 4), numbers(again, 4))
            assert list(both) == [[4], [*expected, 4]]

    run(work)


def test_a_new_event_among_those_of_an_unknown_number_reaches_every_reader(fake: Fake) -> None:
    body = THREAD + (
        "send(id=receive()['id'], result={'turn': {'id': 'u'}})\n"
        "answer(2)\n"
        "event(2)\n"
        "now = 5\n"
        "ended = {'id': 'u', 'status': 'completed', 'items': [{'id': 'i', 'type': 'agentMessage', 'text': 'Done'}]}\n"
        "event(4)\n"
        "send(method='turn/completed', params={'threadId': 't', 'turn': ended}, eventCursor='5')\n"
        "answer(turns=[ended])\n"
        "asked = receive()\n"
        "assert asked['params']['eventCursor'] == '3', asked\n"
        "replay = {'type': 'replayed', 'events': 1, 'openRequestIds': []}\n"
        "send(id=asked['id'], result={**thread(), 'eventReplay': replay})\n"
        "event(4)\n"
        "answer(turns=[ended])\n"
        "sys.stdin.read()\n"
    )

    async def work() -> None:
        async with AsyncAgent(**fake(body), capabilities=OPT_OUTS) as agent:
            thread = await agent.thread()
            live, again = thread.events(), thread.events("1")
            turn = await thread.turn("go")
            assert list(await asyncio.gather(numbers(live, 4), numbers(again, 4))) == [[4], [2, 4]]
            assert (await turn.result()).text == "Done"

    run(work)


@pytest.mark.parametrize("left_out", ["thread/tokenUsage/updated", "thread/status/changed", "thread/settings/updated"])
def test_events_go_on_with_each_method_left_out(scripted: Scripted, left_out: str) -> None:
    arguments = scripted([message("Hello there", chunk_chars=4), message("Next"), message("Last")])

    async def work() -> None:
        async with gated(arguments, "unix") as gate, agent_of(arguments, gate.address) as runner:
            thread = await runner.thread()
            options = {"capabilities": {"optOutNotificationMethods": [left_out]}}
            async with agent_of(arguments, gate.address, **options) as agent:
                other = await agent.resume(thread.id)
                all_events = other.events()
                for text in ("Hello there", "Next", "Last"):
                    again = other.events(other.cursor)
                    await thread.run("go")
                    for events in (again, all_events):
                        taken = await asyncio.wait_for(until(events, "item/completed"), 20)
                        taken += await asyncio.wait_for(until(events, "item/completed"), 20)
                        assert text_of(taken) == text

    run(work)
