"""The published Python SDK of another agent server against `agentd app-server`, unmodified: one line for
each check, and a count at the end.

Environment: AGENTD (the program). Ends with 1 when a check failed.
"""

import asyncio
import base64
import json
import os
import platform
import shutil
import sys
import tempfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

from openai_codex import (
    ApprovalMode,
    AsyncCodex,
    Codex,
    CodexConfig,
    ExternalMessage,
    ImageInput,
    InvalidParamsError,
    InvalidRequestError,
    LocalImageInput,
    MethodNotFoundError,
    Sandbox,
    TextInput,
    TransportClosedError,
    retry_on_overload,
)
from openai_codex._runtime_requirements import CheckoutCapabilities
from openai_codex.client import CodexClient
from openai_codex.generated.v2_all import (
    AgentMessageDeltaNotification,
    CodexErrorInfoValue,
    ErrorNotification,
    ItemCompletedNotification,
    ItemGuardianApprovalReviewCompletedNotification,
    ItemGuardianApprovalReviewStartedNotification,
    ItemStartedNotification,
    ReasoningEffort,
    ReasoningSummary,
    SortDirection,
    ThreadSortKey,
    ThreadSourceKind,
    TurnStatus,
)
from openai_codex.models import UnknownNotification

AGENTD = os.environ["AGENTD"]
ROOT = Path(tempfile.mkdtemp(prefix="agentd-clients-"))
HOME, WORK = ROOT / "home", ROOT / "work"
PIXEL = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
).decode()
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\n"
SCHEMA = {
    "type": "object",
    "properties": {"codexHome": {"type": "string"}, "editor": {"enum": ["vscode", "editor"]}},
    "required": ["codexHome", "editor"],
    "additionalProperties": False,
}

passed, failed = 0, 0
# Values that checks pass to later ones.
made = SimpleNamespace()


def check(group, name):
    """Runs a function as a check. What it raises is why it failed."""

    def run(function):
        global passed, failed
        try:
            function()
            passed += 1
            print(f"ok    {group}: {name}", flush=True)
        except Exception as error:
            failed += 1
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:600]
            line = sys.exc_info()[2].tb_next
            at = f" (line {line.tb_lineno})" if line else ""
            print(f"FAIL  {group}: {name}: {reason}{at}", flush=True)

    return run


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def refused(kind, text, call):
    """That `call` raises this error, with this in its message."""
    try:
        call()
    except kind as error:
        equal(type(error), kind)
        assert text in str(error), str(error)
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


def script(*responses):
    """A scripted model; its path is its name."""
    path = ROOT / f"script-{len(list(ROOT.glob('script-*')))}.json"
    path.write_text(json.dumps({"responses": responses}))
    return str(path)


def says(text, **more):
    return {"steps": [{"message": {"text": text, "phase": "final_answer"}}], **more}


def calls(name, arguments):
    return {"steps": [{"function_call": {"name": name, "arguments": arguments}}]}


def settings(*overrides):
    env = {"CODEX_HOME": str(HOME), "AGENTD_DIALECT": "codex", "AGENT_HOME": ""}
    overrides = ('model_provider="offline"', 'model="echo"', *overrides)
    return CodexConfig(codex_bin=AGENTD, config_overrides=overrides, cwd=str(WORK), env=env)


def items(result):
    return [item.root for item in result.items]


def of_type(result, kind):
    return [item for item in items(result) if item.type == kind]


for folder in (HOME, WORK):
    folder.mkdir()
print(f"client openai-codex {version('openai-codex')} on Python {platform.python_version()}", flush=True)
codex = Codex(settings())


@check("start", "the fresh home that the variable names is used")
def _():
    equal(codex.metadata.serverInfo.name, "codex_python_sdk")
    assert codex.metadata.serverInfo.version.startswith("0.163.0 "), codex.metadata
    equal(codex.metadata.platformOs, sys.platform)


@check("start", "the schema folder has the members that the SDK looks for")
def _():
    env = {**os.environ, **settings().env}
    command = (AGENTD, "--config", 'model="echo"', "app-server")
    fields = CheckoutCapabilities(command=command, cwd=str(WORK), env=env).fields
    assert "excludeTurns" in fields["thread/resume"] & fields["thread/fork"]
    assert "outputSchema" in fields["turn/start"]


@check("models", "list")
def _():
    models = codex.models()
    equal([model.model for model in models.data][:2], ["demo", "echo"])


@check("threads", "start with the default approval mode, which names a reviewer")
def _():
    thread = codex.thread_start()
    equal(thread.run("hello").final_response, "hello")


@check("threads", "start")
def _():
    made.thread = codex.thread_start(approval_mode=ApprovalMode.deny_all, cwd=str(WORK))
    thread = made.thread.read().thread
    equal((thread.id, thread.source.root.value, thread.model_provider), (made.thread.id, "vscode", "offline"))
    # The folder that the variable names holds the thread.
    assert any(HOME.rglob("*.sqlite*")) or any(HOME.rglob("*.db*")), list(HOME.rglob("*"))


@check("threads", "start with every option")
def _():
    thread = codex.thread_start(
        approval_mode=ApprovalMode.deny_all,
        base_instructions="base",
        config={"model_reasoning_summary": "concise"},
        cwd=str(WORK),
        developer_instructions="developer",
        ephemeral=True,
        model="echo",
        model_provider="offline",
        sandbox=Sandbox.read_only,
        service_name="tests",
    )
    equal(thread.read().thread.ephemeral, True)


@check("turns", "run")
def _():
    result = made.thread.run("hello there")
    equal((result.status, result.final_response), (TurnStatus.completed, "hello there"))
    equal([item.type for item in items(result)], ["userMessage", "agentMessage"])
    assert result.usage.total.total_tokens > 0 and result.duration_ms is not None


@check("turns", "stream, every event typed")
def _():
    parts = {"chunks": ["one ", "two ", "three"], "phase": "final_answer", "chunk_delay_ms": 5}
    thread = codex.thread_start(
        approval_mode=ApprovalMode.deny_all, model=script({"steps": [{"message": parts}]})
    )
    events = list(thread.turn("count").stream())
    unknown = [event.method for event in events if isinstance(event.payload, UnknownNotification)]
    equal(unknown, [])
    deltas = [event.payload for event in events if isinstance(event.payload, AgentMessageDeltaNotification)]
    equal("".join(delta.delta for delta in deltas), "one two three")
    equal((events[0].method, events[-1].method), ("turn/started", "turn/completed"))


@check("turns", "a command in the sandbox, and a patch")
def _():
    model = script(
        calls("exec_command", {"cmd": "echo vscode editor"}),
        {"steps": [{"custom_tool_call": {"name": "apply_patch", "input": PATCH}}]},
        says("Done."),
    )
    thread = codex.thread_start(
        approval_mode=ApprovalMode.deny_all, cwd=str(WORK), model=model, sandbox=Sandbox.workspace_write
    )
    result = thread.run("work")
    [command], [change] = of_type(result, "commandExecution"), of_type(result, "fileChange")
    equal((command.exit_code, command.aggregated_output), (0, "vscode editor\n"))
    equal((change.status.value, (WORK / "made.txt").read_text()), ("completed", "made\n"))
    made.worked = thread


@check("turns", "settings of one turn")
def _():
    thread = codex.thread_start(approval_mode=ApprovalMode.deny_all, cwd=str(WORK))
    result = thread.run(
        [TextInput("one"), TextInput("two")],
        approval_mode=ApprovalMode.deny_all,
        cwd=str(ROOT),
        effort=ReasoningEffort.low,
        model="echo",
        sandbox=Sandbox.read_only,
        summary=ReasoningSummary.model_validate("concise"),
    )
    equal((result.status, thread.read().thread.cwd.root), (TurnStatus.completed, str(ROOT)))


@check("turns", "structured output: the schema arrives as it is")
def _():
    expect = {"equals": {"/text/format/schema": SCHEMA}}
    answer = '{"codexHome":"agentHome","editor":"editor"}'
    model = script(says(answer, expect=expect))
    thread = codex.thread_start(approval_mode=ApprovalMode.deny_all, model=model)
    equal(thread.run("fill in", output_schema=SCHEMA).final_response, answer)


@check("turns", "images")
def _():
    picture = WORK / "pixel.png"
    picture.write_bytes(base64.b64decode(PIXEL))
    model = script(says("Seen.", expect={"contains": ["data:image/png;base64,", "input_image"]}))
    thread = codex.thread_start(approval_mode=ApprovalMode.deny_all, model=model)
    inputs = [TextInput("look"), LocalImageInput(str(picture)), ImageInput(f"data:image/png;base64,{PIXEL}")]
    result = thread.run(inputs)
    equal(result.final_response, "Seen.")
    [message] = of_type(result, "userMessage")
    equal([part.root.type for part in message.content], ["text", "localImage", "image"])


@check("turns", "a failure carries its kind")
def _():
    refusal = {"steps": [{"error": {"status": 401, "code": "x", "message": "no such key"}}]}
    thread = codex.thread_start(approval_mode=ApprovalMode.deny_all, model=script(refusal))
    turn = thread.turn("fail")
    events = list(turn.stream())
    error = [event.payload.error for event in events if isinstance(event.payload, ErrorNotification)][-1]
    equal(error.codex_error_info.root, CodexErrorInfoValue.unauthorized)
    equal(events[-1].payload.turn.error.codex_error_info.root, CodexErrorInfoValue.unauthorized)
    thread = codex.thread_start(approval_mode=ApprovalMode.deny_all, model=script(refusal))
    refused(RuntimeError, "no such key", lambda: thread.run("fail"))


@check("control", "steer")
def _():
    wait = {"steps": [{"function_call": {"name": "exec_command", "arguments": {"cmd": "sleep 1"}}}]}
    done = says("You said: {{last_user_text}}", expect={"user_text_contains": "go left"})
    thread = codex.thread_start(approval_mode=ApprovalMode.deny_all, model=script(wait, done))
    turn = thread.turn("drive")
    answer = None
    for event in turn.stream():
        started = isinstance(event.payload, ItemStartedNotification)
        if started and event.payload.item.root.type == "commandExecution":
            equal(turn.steer("go left").turn_id, turn.id)
        if isinstance(event.payload, ItemCompletedNotification):
            if event.payload.item.root.type == "agentMessage":
                answer = event.payload.item.root.text
    equal(answer, "You said: go left")


@check("control", "interrupt")
def _():
    model = script({"steps": [{"message": "I wait."}, "idle"]}, says("Again."))
    thread = codex.thread_start(approval_mode=ApprovalMode.deny_all, model=model)
    turn = thread.turn("wait")
    for event in turn.stream():
        # Before that, the model may not have been asked yet.
        if isinstance(event.payload, ItemCompletedNotification):
            if event.payload.item.root.type == "agentMessage":
                turn.interrupt()
    equal(event.payload.turn.status, TurnStatus.interrupted)
    equal(thread.run("again").final_response, "Again.")
    refused(InvalidRequestError, "", turn.interrupt)


@check("control", "two turns of two threads at once")
def _():
    threads = [codex.thread_start(approval_mode=ApprovalMode.deny_all) for _ in range(2)]
    answers = {}

    def run(index):
        answers[index] = threads[index].run(f"text {index}").final_response

    running = [threading.Thread(target=run, args=(index,)) for index in range(2)]
    [one.start() for one in running]
    [one.join() for one in running]
    equal(answers, {0: "text 0", 1: "text 1"})


@check("approvals", "a command is approved by the client's handler")
def _():
    asked = []

    def approve(method, params):
        asked.append((method, params["command"] if "command" in params else None))
        return {"decision": "accept"}

    model = script(calls("exec_command", {"cmd": "touch approved"}), says("Done."))
    with CodexClient(settings(), approval_handler=approve) as client:
        client.initialize()
        params = {"approvalPolicy": "untrusted", "sandbox": "workspace-write", "model": model, "cwd": str(WORK)}
        started = client.thread_start(params)
        equal(started.approval_policy.root.value, "untrusted")
        turn = client.turn_start(started.thread.id, "work").turn
        client.wait_for_turn_completed(turn.id)
    equal(asked[0][0], "item/commandExecution/requestApproval")
    assert (WORK / "approved").exists()


@check("approvals", "a reviewer decides in the default approval mode")
def _():
    run = {"cmd": "touch reviewed", "sandbox_permissions": "require_escalated", "justification": "asked for"}
    verdict = json.dumps({"reviewId": "{{review_id}}", "verdict": "approve", "riskLevel": "low",
                          "userAuthorization": "high", "rationale": "The user asked for it."})
    work = [calls("exec_command", run), says("Done.")]
    # The reviewer is a conversation of its own.
    model = script(*({**one, "conversation": 0} for one in work), {**says(verdict), "conversation": 1})
    thread = codex.thread_start(cwd=str(WORK), model=model)
    events = list(thread.turn("Make the file.").stream())
    reviews = [event.payload for event in events if event.method.startswith("item/autoApprovalReview/")]
    kinds = [ItemGuardianApprovalReviewStartedNotification, ItemGuardianApprovalReviewCompletedNotification]
    equal([type(review) for review in reviews], kinds)
    equal((reviews[1].review.status.value, (WORK / "reviewed").exists()), ("approved", True))


@check("agents", "a call between agents is typed, live and in the stored turn")
def _():
    work = [calls("spawn_agent", {"message": "Look around."}), says("Started.")]
    model = script(*({**one, "conversation": 0} for one in work), {**says("Seen."), "conversation": 1})
    thread = codex.thread_start(approval_mode=ApprovalMode.deny_all, cwd=str(WORK), model=model)
    [call] = of_type(thread.run("delegate"), "collabAgentToolCall")
    equal((call.tool.value, call.status.value, call.sender_thread_id), ("spawnAgent", "completed", thread.id))
    [agent] = call.receiver_thread_ids
    equal(list(call.agents_states), [agent])
    stored = [item.root.type for turn in thread.read(include_turns=True).thread.turns for item in turn.items]
    assert "collabAgentToolCall" in stored, stored
    kinds = [ThreadSourceKind.sub_agent_thread_spawn]
    equal([one.id for one in codex.thread_list(source_kinds=kinds).data], [agent])


@check("threads", "name")
def _():
    made.thread.set_name("vscode")
    equal(made.thread.read().thread.name, "vscode")


@check("threads", "read with turns")
def _():
    thread = made.worked.read(include_turns=True).thread
    equal([item.root.type for turn in thread.turns for item in turn.items],
          ["userMessage", "commandExecution", "fileChange", "agentMessage"])


@check("threads", "list")
def _():
    everything = codex.thread_list(limit=100)
    assert {made.thread.id, made.worked.id} <= {thread.id for thread in everything.data}
    assert {thread.source.root.value for thread in everything.data} == {"vscode"}
    page = codex.thread_list(
        limit=1,
        sort_key=ThreadSortKey.created_at,
        sort_direction=SortDirection.asc,
        source_kinds=[ThreadSourceKind.vscode],
    )
    assert len(page.data) == 1 and page.next_cursor
    equal(codex.thread_list(source_kinds=[ThreadSourceKind.exec]).data, [])
    found = codex.thread_list(search_term="hello there").data
    equal([thread.id for thread in found], [made.thread.id])


@check("threads", "archive and unarchive")
def _():
    codex.thread_archive(made.worked.id)
    listed = lambda **filters: {thread.id for thread in codex.thread_list(limit=100, **filters).data}
    assert made.worked.id not in listed() and made.worked.id in listed(archived=True)
    equal(codex.thread_unarchive(made.worked.id).id, made.worked.id)
    assert made.worked.id in listed()


@check("threads", "fork, with and without turns")
def _():
    fork = codex.thread_fork(made.thread.id, approval_mode=ApprovalMode.deny_all)
    equal(len(fork.read(include_turns=True).thread.turns), 1)
    equal(fork.run("further").final_response, "further")
    turns = lambda **more: len(codex._client.thread_fork(made.thread.id, more or None).thread.turns)
    equal((turns(), turns(excludeTurns=True)), (1, 0))
    codex.thread_fork(made.thread.id, include_turns=False)


@check("threads", "compact")
def _():
    thread = codex.thread_start(approval_mode=ApprovalMode.deny_all)
    thread.run("hello")
    thread.compact()
    while thread.read().thread.status.root.type != "idle":
        pass
    equal(thread.run("still there").final_response, "still there")


@check("errors", "are typed by their code")
def _():
    refused(InvalidRequestError, "thread not found", lambda: codex.thread_resume("nothing"))
    refused(InvalidParamsError, "sourceKinds", lambda: codex._client.thread_list({"sourceKinds": 1}))
    refused(MethodNotFoundError, "no/such", lambda: codex._client._request_raw("no/such", {}))
    equal(retry_on_overload(lambda: made.thread.run("once").final_response), "once")


@check("errors", "options that this server lacks are refused by name")
def _():
    external = ExternalMessage(tool_name="mail", content="hello")
    refused(InvalidParamsError, "toolOutput", lambda: made.thread.run(external))


@check("threads", "a turn has a source and a service tier of its own")
def _():
    thread = codex.thread_start(approval_mode=ApprovalMode.deny_all)
    result = thread.run("hello", source="timer", turn_service_tier="default")
    equal(result.final_response, "hello")


# A login service, as far as the SDK's part of a login needs one: it describes itself, hands out device codes
# at once, and issues tokens.
class LoginService(BaseHTTPRequestHandler):
    def do_GET(self):
        base = self.server.base
        names = {"authorization": "authorize", "token": "token", "device_authorization": "device"}
        endpoints = {f"{name}_endpoint": f"{base}/{path}" for name, path in names.items()}
        self.reply({"issuer": base, **endpoints})

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/device":
            url = f"{self.server.base}/activate"
            code = {"device_code": "d", "user_code": "CODE", "verification_uri": url, "expires_in": 60}
            return self.reply({**code, "interval": 1})
        claims = {"iss": self.server.base, "aud": "agentd", "sub": "1", "email": "a@b.c", "plan_type": "pro"}
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        tokens = {"access_token": "a", "refresh_token": "r", "expires_in": 60}
        self.reply({**tokens, "id_token": f"e30.{payload}.s"})

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def client_with_login_service():
    service = ThreadingHTTPServer(("127.0.0.1", 0), LoginService)
    service.base = f"http://127.0.0.1:{service.server_port}"
    threading.Thread(target=service.serve_forever, daemon=True).start()
    try:
        with Codex(settings(f'chatgpt_base_url="{service.base}"')) as client:
            yield client
    finally:
        service.shutdown()


@check("accounts", "an API key, read and logout")
def _():
    read = codex.account()
    equal((read.account, read.requires_openai_auth), (None, False))
    codex.login_api_key("key")
    equal(codex.account().account.root.type, "apiKey")
    codex.logout()
    equal(codex.account().account, None)
    refused(InvalidParamsError, "API key", lambda: codex.login_api_key(""))


@check("accounts", "a login in a browser: its address and cancel")
def _():
    with client_with_login_service() as client:
        login = client.login_chatgpt()
        assert "code_challenge_method=S256" in login.auth_url, login.auth_url
        equal(login.cancel().status.value, "canceled")
        ended = login.wait()
        equal((ended.success, ended.login_id), (False, login.login_id))
        assert "canceled" in ended.error, ended.error


@check("accounts", "a login with a device code")
def _():
    with client_with_login_service() as client:
        login = client.login_chatgpt_device_code()
        equal(login.user_code, "CODE")
        equal(login.wait().success, True)
        account = client.account().account.root
        equal((account.type, account.email, account.plan_type.value), ("chatgpt", "a@b.c", "pro"))
        client.logout()
    refused(InvalidRequestError, "hosted_base_url", codex.login_chatgpt)


@check("async", "run, stream and interrupt")
def _():
    async def work():
        async with AsyncCodex(settings()) as client:
            thread = await client.thread_start(approval_mode=ApprovalMode.deny_all)
            equal((await thread.run("hello")).final_response, "hello")
            turn = await thread.turn("streamed")
            methods = [event.method async for event in turn.stream()]
            equal((methods[0], methods[-1]), ("turn/started", "turn/completed"))
            idle = await client.thread_start(
                approval_mode=ApprovalMode.deny_all, model=script({"steps": ["idle"]})
            )
            turn = await idle.turn("wait")
            await turn.interrupt()
            equal((await turn.run()).status, TurnStatus.interrupted)

    asyncio.run(work())


@check("end", "a closed client says so, and its home can be used again")
def _():
    codex.close()
    refused(TransportClosedError, "", lambda: codex.models())
    with Codex(settings()) as again:
        assert made.thread.id in {thread.id for thread in again.thread_list(limit=100).data}


@check("threads", "resume in another process, with and without turns")
def _():
    with Codex(settings()) as other:
        turns = lambda **more: other._client.thread_resume(made.thread.id, more or None).thread.turns
        before = turns()
        equal([item.root.type for item in before[0].items], ["userMessage", "agentMessage"])
        equal(turns(excludeTurns=True), [])
        thread = other.thread_resume(made.thread.id, include_turns=False)
        equal(thread.run("again").final_response, "again")
        equal(len(turns()), len(before) + 1)


shutil.rmtree(ROOT, ignore_errors=True)
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
