"""The official Python client of the Agent Client Protocol against `agentd acp`, unmodified: one line for
each check, and a count at the end.

Environment: AGENTD (the program). Ends with 1 when a check failed.
"""

import asyncio
import json
import os
import platform
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from acp import RequestError, spawn_agent_process, text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    FileSystemCapabilities,
    ReadTextFileResponse,
    RequestPermissionResponse,
    ResourceContentBlock,
)

AGENTD = os.environ["AGENTD"]
ROOT = Path(tempfile.mkdtemp(prefix="agentd-acp-")).resolve()
WORK = ROOT / "work"
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** End Patch\n"
ESCALATED = {"cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "to make it"}
SCRIPT = [
    {"steps": [{"function_call": {"name": "exec_command", "arguments": ESCALATED}}]},
    {"steps": [{"custom_tool_call": {"name": "apply_patch", "input": PATCH}}]},
    {"steps": [{"message": {"text": "Done.", "phase": "final_answer"}}]},
    {"steps": [{"message": "You said: {{last_user_text}}"}]},
    {"steps": [{"message": "I begin."}, "idle"]},
]

passed, failed = 0, 0


async def check(group, name, work):
    """Runs a check. What it raises is why it failed."""
    global passed, failed
    try:
        result = await asyncio.wait_for(work, 60)
        passed += 1
        print(f"ok    {group}: {name}", flush=True)
        return result
    except Exception as error:
        failed += 1
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:600]
        print(f"FAIL  {group}: {name}: {reason}", flush=True)
        return None


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


class Editor:
    """A client that allows everything, and keeps what it is shown."""

    def __init__(self):
        self.updates, self.asked = [], []
        self.said = asyncio.Event()

    async def session_update(self, session_id, update, **_):
        self.updates.append(update)
        if update.session_update == "agent_message_chunk" and update.content.text == "I begin.":
            self.said.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.append((tool_call, [option.option_id for option in options]))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id="accept"))

    async def read_text_file(self, session_id, path, line=None, limit=None, **_):
        return ReadTextFileResponse(content="UNSAVED\n")

    def of_kind(self, kind):
        return [update for update in self.updates if update.session_update == kind]

    def text(self, kind):
        return "".join(update.content.text for update in self.of_kind(kind))

    def on_connect(self, connection):
        pass


def start(editor):
    script = ROOT / "script.json"
    script.write_text(json.dumps({"responses": SCRIPT}))
    settings = ["-c", 'model_provider="offline"', "-c", f'model="{script}"']
    env = {"PATH": os.environ["PATH"], "HOME": str(ROOT), "AGENT_HOME": str(ROOT / "home")}
    return spawn_agent_process(editor, AGENTD, "acp", *settings, env=env, cwd=WORK)


async def shake_hands(agent):
    capabilities = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True))
    opened = await agent.initialize(protocol_version=1, client_capabilities=capabilities)
    equal(opened.protocol_version, 1)
    assert opened.agent_capabilities.load_session
    return opened


async def permission_and_diff(agent, editor, session):
    ended = await agent.prompt(session_id=session, prompt=[text_block("Go.")])
    equal(ended.stop_reason, "end_turn")
    call, options = editor.asked[0]
    equal(call.title, "touch made")
    assert {"accept", "decline"} <= set(options), options
    assert (WORK / "made").exists()
    equal((WORK / "a.txt").read_text(), "new\n")
    diffs = [part for call in editor.of_kind("tool_call") for part in call.content or [] if part.type == "diff"]
    equal((diffs[0].old_text, diffs[0].new_text), ("old\n", "new\n"))
    equal(editor.text("agent_message_chunk"), "Done.")


async def linked_file(agent, editor, session):
    editor.updates.clear()
    link = ResourceContentBlock(type="resource_link", name="open.rs", uri=(WORK / "open.rs").as_uri())
    await agent.prompt(session_id=session, prompt=[link])
    assert "UNSAVED" in editor.text("agent_message_chunk"), editor.updates


async def cancelled(agent, editor, session):
    prompt = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("Wait.")]))
    await editor.said.wait()
    await agent.cancel(session_id=session)
    equal((await prompt).stop_reason, "cancelled")


async def settings(agent, session):
    await agent.set_session_mode(session_id=session, mode_id="read-only")
    answer = await agent.set_config_option(config_id="sandbox", session_id=session, value="workspace-write")
    values = {option.id: option.current_value for option in answer.config_options}
    equal(values["sandbox"], "workspace-write")


async def loaded(agent, editor, session):
    listed = await agent.list_sessions(cwd=str(WORK))
    equal([info.session_id for info in listed.sessions], [session])
    await agent.load_session(cwd=str(WORK), session_id=session)
    assert editor.text("user_message_chunk").startswith("Go."), editor.updates
    kinds = [update.session_update for update in editor.updates]
    assert kinds.index("user_message_chunk") < kinds.index("tool_call") < kinds.index("agent_message_chunk")


async def unknown(agent):
    try:
        await agent.load_session(cwd=str(WORK), session_id="unknown")
    except RequestError as error:
        return equal(error.code, -32002)
    raise AssertionError("it was loaded")


async def main():
    WORK.mkdir()
    (WORK / "a.txt").write_text("old\n")
    print(f"client agent-client-protocol {version('agent-client-protocol')} on Python {platform.python_version()}", flush=True)
    editor = Editor()
    async with start(editor) as (agent, process):
        await check("acp", "the handshake", shake_hands(agent))
        opened = await check("acp", "a new session", agent.new_session(cwd=str(WORK)))
        session = opened.session_id
        await check("acp", "a permission and a diff", permission_and_diff(agent, editor, session))
        await check("acp", "a linked file with unsaved changes", linked_file(agent, editor, session))
        await check("acp", "a cancelled prompt", cancelled(agent, editor, session))
        await check("acp", "mode and options", settings(agent, session))
    editor = Editor()
    async with start(editor) as (agent, process):
        await shake_hands(agent)
        await check("acp", "list and load in another process", loaded(agent, editor, session))
        await check("acp", "an unknown session", unknown(agent))
    print(f"{passed} passed, {failed} failed", flush=True)


try:
    asyncio.run(main())
finally:
    shutil.rmtree(ROOT, ignore_errors=True)
sys.exit(1 if failed else 0)
