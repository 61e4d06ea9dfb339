"""The bot of the examples and its server, killed at random moments: soak.py KILLS [SEED]

Every message is answered once, by one turn that ended, and what the bot says that its users cost is what the server has
recorded. Environment: AGENTD_PATH (the program).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import runpy
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from agentd_embed import AsyncAgent
from agentd_embed._program import find_program

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = find_program(None)
USERS = 10
#: Messages that wait for an answer at a time.
WAITING = 20
#: Seconds for all that is left when the last one was killed.
PATIENCE = 120.0
NO_SERVER = "there is no server at"
#: Both are up for up to so many seconds between two kills.
LIFE = 2.0
MODEL = {
    "on_exhausted": "restart",
    "responses": [
        {"steps": [{"delay_ms": 20}, {"function_call": {"name": "account", "arguments": {}}}]},
        {
            "steps": [{
                "function_call": {
                    "name": "exec_command",
                    "arguments": {"cmd": "true", "sandbox_permissions": "require_escalated", "justification": "to try it"},
                }
            }]
        },
        {"steps": [{"message": {"text": '{"text": "{{last_user_text}}"}', "chunk_chars": 2, "chunk_delay_ms": 5}}]},
    ],
}  # fmt: skip


class Place:
    """The folder of a run, with its model server, and the programs that are killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"unix://{folder / 's.sock'}"
        self.database = folder / "chat.db"
        self.env = {**os.environ, "HOME": str(folder), "AGENT_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT / "src")}
        (folder / "home").mkdir()
        (folder / "work").mkdir()

    @contextmanager
    def model_server(self) -> Iterator[None]:
        script = self.folder / "model.json"
        script.write_text(json.dumps(MODEL))
        command = [PROGRAM, "model-server", "--script", str(script), "--log", str(self.folder / "requests.log")]
        with subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                line = next(it for it in server.stdout if it.startswith("listening on "))
                self._configure(line.split()[2])
                yield
            finally:
                server.kill()

    def _configure(self, url: str) -> None:
        catalog = self.folder / "models.json"
        prices = {"input": "2", "cached_input": "0.2", "output": "8"}
        catalog.write_text(json.dumps([{"id": "priced", "is_default": True, "prices": prices}]))
        (self.folder / "home" / "config.toml").write_text(
            f'model = "priced"\nmodel_provider = "scripted"\nmodel_catalog_json = "{catalog}"\n'
            f'[model_providers.scripted]\nname = "Scripted"\nbase_url = "{url}"\n'
        )

    def server(self) -> subprocess.Popen[bytes]:
        """Starts the server, and returns when it listens."""
        (self.folder / "s.sock").unlink(missing_ok=True)
        command = [PROGRAM, "app-server", "--listen", self.address]
        log = (self.folder / "server.log").open("ab")
        started = subprocess.Popen(command, env=self.env, cwd=self.folder / "work", stdout=subprocess.PIPE, stderr=log)
        assert started.stdout is not None
        if not any(line.startswith(b"listening on ") for line in started.stdout):
            raise RuntimeError(f"the server does not start: see {log.name}")
        return started

    def bot(self) -> subprocess.Popen[bytes]:
        log = (self.folder / "bot.log").open("ab")
        command = [sys.executable, str(ROOT / "examples" / "bot.py"), self.address, str(self.database)]
        return subprocess.Popen(command, env=self.env, stdout=log, stderr=log)

    def failures(self) -> str:
        """The last of what the bot wrote."""
        return (self.folder / "bot.log").read_text()[-2000:]


class Chat:
    """The users, and their messages."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path, timeout=60)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.executescript(runpy.run_path(str(ROOT / "examples" / "bot.py"))["TABLES"])
        self.sent = 0

    def waiting(self) -> int:
        (count,) = self.database.execute("SELECT count(*) FROM messages WHERE NOT is_answered").fetchone()
        return int(count)

    def fill(self, up_to: int) -> None:
        """Users write, until so many messages wait for an answer."""
        with self.database:
            for _ in range(up_to - self.waiting()):
                self.sent += 1
                message = [f"user {self.sent % USERS}", f"message {self.sent}"]
                self.database.execute("INSERT INTO messages (user, text) VALUES (?, ?)", message)


def soak(kills: int, seed: int, place: Place) -> list[str]:
    """What is wrong after so many kills."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        return _soak(kills, random.Random(seed), place, running)
    finally:
        for each in running.values():
            each.kill()
            each.wait()


def _soak(kills: int, chance: random.Random, place: Place, running: dict[str, subprocess.Popen[bytes]]) -> list[str]:
    chat = Chat(place.database)
    start = {"server": place.server, "bot": place.bot}
    running.update((name, begin()) for name, begin in start.items())
    counts: Counter[str] = Counter()
    for _ in range(kills):
        chat.fill(WAITING)
        time.sleep(chance.uniform(0, LIFE))
        if running["server"].poll() is not None:
            return [f"the server ended by itself with {running['server'].returncode}"]
        chosen = chance.choice([["server"], ["bot"], ["server", "bot"]])
        if running["bot"].poll() is not None:
            # It has one reason to end by itself: the server was away when it was started.
            if NO_SERVER not in place.failures().splitlines()[-1]:
                return [f"the bot ended by itself with {running['bot'].returncode}: {place.failures()}"]
            running["bot"] = place.bot()
        for name in chosen:
            running[name].kill()
        for name in chosen:
            running[name].wait()
            time.sleep(chance.uniform(0, 0.3))
            running[name] = start[name]()
            counts[name] += 1
    if running["bot"].poll() is not None:
        running["bot"] = place.bot()
    # One more answer for each user, so that the newest cost of each is reported.
    problems = wait_for_answers(chat, place)
    chat.fill(USERS)
    problems += wait_for_answers(chat, place)
    problems += asyncio.run(check(chat, place))
    requests = sum(1 for _ in (place.folder / "requests.log").open())
    print(f"kills: {counts['server']} of the server, {counts['bot']} of the bot; {chat.sent} messages, {requests} requests")
    return problems


def wait_for_answers(chat: Chat, place: Place) -> list[str]:
    end = time.monotonic() + PATIENCE
    while chat.waiting():
        if time.monotonic() > end:
            rows = chat.database.execute("SELECT user, text FROM messages WHERE NOT is_answered").fetchall()
            return [f"after {PATIENCE:g} s without kills there is no answer for {rows}: {place.failures()}"]
        time.sleep(0.1)
    return []


async def check(chat: Chat, place: Place) -> list[str]:
    """Compares what the chat has with what the server has."""
    problems: list[str] = []
    query = "SELECT messages.text, answers.text FROM messages LEFT JOIN answers ON answers.message = messages.id"
    rows = chat.database.execute(query).fetchall()
    problems += [f"{text} has the answer {answer}" for text, answer in rows if text != answer]
    problems += [f"{text} has {count} answers" for text, count in Counter(text for text, _ in rows).items() if count > 1]
    reported = Decimal(0)
    async with AsyncAgent(address=place.address) as agent:
        for user, thread, cost in chat.database.execute("SELECT name, thread, cost FROM users").fetchall():
            reported += Decimal(cost or 0)
            turns: list[Any] = (await agent.request("thread/read", {"threadId": thread, "includeTurns": True}))["thread"]["turns"]
            ended = [it for it in turns if it["status"] == "completed"]
            asked = Counter(it["items"][0]["content"][0]["text"] for it in ended)
            wanted = Counter(text for (text,) in chat.database.execute("SELECT text FROM messages WHERE user = ?", [user]))
            problems += [f"{user}: {text} was answered by {asked[text]} turns" for text in wanted | asked if asked[text] != 1]
    ledger = subprocess.run(
        [PROGRAM, "threads", "cost", "--json"], env=place.env, cwd=place.folder / "work", capture_output=True, text=True, check=True
    )
    recorded = Decimal(str(json.loads(ledger.stdout)["total"]["cost"]))
    print(f"cost: {reported} in the bot's report, {recorded} in the server's ledger; {len(rows)} answers")
    if reported != recorded:
        problems.append(f"the bot reports {reported}, and the server has recorded {recorded}")
    return problems


def main() -> int:
    kills = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    print(f"{kills} kills, seed {seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="agentd-soak-"))
    place = Place(folder)
    with place.model_server():
        problems = soak(kills, seed, place)
    if problems:
        print("\n".join(problems), f"see {folder}", sep="\n")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    print("nothing is lost, doubled or miscounted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
