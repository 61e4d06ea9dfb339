"""Turns and compactions of a thread run one after the other, and a turn that joins another client's has its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentd_embed import AsyncAgent, ConnectionLost, InvalidRequest, TurnFailed, TurnInterrupted

Fake = Callable[[str], dict[str, Any]]

#: A server with a thread, and words to say what happens in it.
THREAD = (
    "hello()\n"
    "send(id=receive()['id'], result={'thread': {'id': 't'}})\n"
    "def answer(**result): send(id=receive()['id'], result=result)\n"
    "def expect(text, turn):\n"
    "    call = receive()\n"
    "    assert call['method'] == 'turn/start' and call['params']['input'][0]['text'] == text, call\n"
    "    send(id=call['id'], result={'turn': {'id': turn}})\n"
    "def say(method, turn, item=None, status='completed'):\n"
    "    about = {'id': turn, 'status': status} if method.startswith('turn/') else None\n"
    "    send(method=method, params={'threadId': 't', 'turnId': turn, 'turn': about, 'item': item, 'itemId': 'i',\n"
    "                                'delta': item and item.get('text')})\n"
    "def end(turn, status='completed'): say('turn/completed', turn, status=status)\n"
)


def test_a_turn_waits_for_the_one_before_it(fake: Fake) -> None:
    body = THREAD + (
        "expect('first', 'u')\n"
        # Whatever else the client sends before the end of the first turn.
        "answer(data=[])\n"
        "end('other'); end('u')\n"
        # Its task is cancelled before the answer: it is interrupted, and is in the way until it has ended.
        "start = receive()\n"
        "assert start['params']['input'][0]['text'] == 'second', start\n"
        "send(id='q', method='mcpServer/elicitation/request', params={}); receive()\n"
        "answer(data=[])\n"
        "send(id=start['id'], result={'turn': {'id': 'v'}})\n"
        "call = receive()\n"
        "assert (call['method'], call['params']['turnId']) == ('turn/interrupt', 'v'), call\n"
        "send(id=call['id'], result={}); end('v', 'interrupted')\n"
        "expect('third', 'w'); end('w')\n"
        "sys.stdin.read()\n"
    )

    async def work() -> None:
        is_asked = asyncio.Event()

        async def elicit(_: Any) -> dict[str, str]:
            is_asked.set()
            return {"action": "decline"}

        async with AsyncAgent(**fake(body), elicit=elicit) as agent:
            thread = await agent.thread()
            # Nobody reads it.
            await thread.turn("first")
            second, third = asyncio.create_task(thread.run("second")), asyncio.create_task(thread.run("third"))
            await asyncio.sleep(0)
            await agent.request("thread/list")
            await is_asked.wait()
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            await agent.request("thread/list")
            assert (await third).turn["id"] == "w"

    asyncio.run(work())


def test_whoever_waits_learns_of_a_refusal_and_of_the_end(fake: Fake) -> None:
    body = THREAD + (
        "send(id=receive()['id'], error={'code': -32600, 'message': 'no'})\n"
        "expect('b', 'u')\n"
        "receive()\n"
        "os._exit(0)\n"
    )

    async def work() -> None:
        async with AsyncAgent(**fake(body)) as agent:
            thread = await agent.thread()
            turns = [asyncio.create_task(thread.turn(text)) for text in "abc"]
            with pytest.raises(InvalidRequest):
                await turns[0]
            assert (await turns[1]).id == "u"
            with pytest.raises(ConnectionLost):
                await agent.request("thread/list")
            with pytest.raises(ConnectionLost):
                await asyncio.wait_for(turns[2], 30)

    asyncio.run(work())


def test_an_agent_that_is_closed_ends_what_waits(fake: Fake) -> None:
    async def work() -> None:
        agent = AsyncAgent(**fake(THREAD + "expect('a', 'u')\nsys.stdin.read()\n"))
        await agent.start()
        thread = await agent.thread()
        await thread.turn("a")
        waits = [asyncio.create_task(thread.turn("b")), asyncio.create_task(thread.compact())]
        await asyncio.sleep(0)
        await agent.close()
        for wait in waits:
            with pytest.raises(ConnectionLost):
                await asyncio.wait_for(wait, 30)

    asyncio.run(work())


def test_a_turn_that_joins_another_client_s_has_its_answer(fake: Fake) -> None:
    body = THREAD + (
        "def message(text): return {'type': 'agentMessage', 'id': text, 'text': text}\n"
        "expect('go', 'u')\n"
        "say('item/completed', 'host', message('before'))\n"
        "say('turn/started', 'u')\n"
        "say('item/completed', 'earlier', message('of a turn that is over'))\n"
        "say('item/started', 'host', message(''))\n"
        "say('item/agentMessage/delta', 'host', message('both'))\n"
        "say('item/completed', 'host', message('both'))\n"
        "end('host'); end('u')\n"
        "sys.stdin.read()\n"
    )

    async def work() -> None:
        async with AsyncAgent(**fake(body)) as agent:
            turn = await (await agent.thread()).turn("go")
            result = await turn.result()
            assert (result.text, result.turn["id"], len(result.items)) == ("both", "u", 1)

    asyncio.run(work())


@pytest.mark.parametrize("status", ["completed", "failed", "interrupted"])
def test_a_compaction_has_ended_when_it_returns(fake: Fake, status: str) -> None:
    body = THREAD + (
        "call = receive()\n"
        "assert call['method'] == 'thread/compact/start', call\n"
        # A turn of another client, which compacts by itself.
        "say('turn/started', 'other'); say('item/started', 'other', {'type': 'userMessage'})\n"
        "say('item/started', 'other', {'type': 'contextCompaction'}); end('other')\n"
        "send(id=call['id'], result={})\n"
        "say('turn/started', 'c'); say('item/started', 'c', {'type': 'contextCompaction'})\n"
        f"end('c', {status!r})\n"
        "expect('go', 'u')\n"
        "sys.stdin.read()\n"
    )

    async def work() -> None:
        async with AsyncAgent(**fake(body)) as agent:
            thread = await agent.thread()
            compaction, turn = asyncio.create_task(thread.compact()), asyncio.create_task(thread.turn("go"))
            if status == "completed":
                await compaction
            else:
                with pytest.raises(TurnFailed if status == "failed" else TurnInterrupted):
                    await compaction
            assert (await turn).id == "u"

    asyncio.run(work())
