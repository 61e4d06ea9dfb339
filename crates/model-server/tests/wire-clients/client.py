"""The official Python clients of Messages, Chat Completions and Gemini against `agentd model-server`: one line for each
check, and a count at the end.

Environment: AGENTD, the program. Ends with 1 when a check failed.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import anthropic
import openai
from google import genai
from google.genai import errors, types

SCENARIOS = json.loads((Path(__file__).parent.parent / "clients" / "scenarios.json").read_text(encoding="utf-8"))
# What a wire cannot carry is refused.
LEFT_OUT = {"chat": ("searches",)}
passed, failed = 0, 0


class Server:
    """The scripted model with one script."""

    def __init__(self, script):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8")
        json.dump(script, self.file)
        self.file.flush()
        command = [os.environ["AGENTD"], "model-server", "--script", self.file.name]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.origin = self.process.stdout.readline().split()[-1].removesuffix("/v1")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def messages(self):
        return anthropic.Anthropic(base_url=self.origin, api_key="none", max_retries=0)

    def chat(self):
        return openai.OpenAI(base_url=f"{self.origin}/v1", api_key="none", max_retries=0)

    def gemini(self):
        options = types.HttpOptions(base_url=self.origin, api_version="v1beta")
        return genai.Client(api_key="none", http_options=options)


def expected(steps):
    """What the steps say, in the form of `read_*` below."""
    text, thoughts, calls, end = "", [], [], "ended"
    for step in steps:
        (kind, value), = step.items()
        if kind == "message":
            value = value if isinstance(value, dict) else {"text": value}
            text += value.get("text", "") + "".join(value.get("chunks", [])) * value.get("repeat", 1)
        elif kind == "reasoning":
            value = value if isinstance(value, dict) else {"summary": [value]}
            thoughts += value.get("content", []) + value.get("summary", [])
        elif kind == "function_call":
            arguments = value.get("arguments", {})
            if isinstance(arguments, str):
                # Wires that send arguments as an object have what is none inside of one.
                arguments = {"arguments": arguments}
            calls.append((value["call_id"], value["name"], arguments))
        elif kind == "custom_tool_call":
            calls.append((value["call_id"], value["name"], {"input": value["input"]}))
        elif kind == "tool_search_call":
            calls.append((value["call_id"], "tool_search", value["arguments"]))
        elif kind == "error":
            end = value.get("incomplete") or f"error {value['message']}"
        elif kind == "cut":
            end = "cut"
    return {"text": text, "thoughts": "".join(thoughts).replace("\n", ""), "calls": calls, "end": end}


def found(text, thoughts, calls, end):
    return {"text": text, "thoughts": thoughts.replace("\n", ""), "calls": calls, "end": end}


MESSAGES = [{"role": "user", "content": "hi"}]
STOPS = {"max_tokens": "max_output_tokens", "refusal": "content_filter", "end_turn": "ended", "tool_use": "ended"}
FINISHES = {"length": "max_output_tokens", "content_filter": "content_filter", "stop": "ended", "tool_calls": "ended"}
REASONS = {"MAX_TOKENS": "max_output_tokens", "SAFETY": "content_filter", "STOP": "ended"}


def of_message(message):
    blocks = message.content
    text = "".join(block.text for block in blocks if block.type == "text")
    thoughts = "".join(block.thinking for block in blocks if block.type == "thinking")
    calls = [(block.id, block.name, block.input) for block in blocks if block.type == "tool_use"]
    assert all(block.signature for block in blocks if block.type == "thinking"), "thinking without a signature"
    assert message.usage.input_tokens > 0 and message.usage.output_tokens >= 0, message.usage
    return found(text, thoughts, calls, STOPS.get(message.stop_reason, message.stop_reason or "cut"))


def read_messages(server, key, stream):
    request = {"model": "claude-opus-4-6", "max_tokens": 4096, "messages": MESSAGES, "metadata": {"user_id": key}}
    # Without it, the model shows no thinking.
    request["thinking"] = {"type": "adaptive"}
    client = server.messages()
    if not stream:
        return of_message(client.messages.create(**request))
    with client.messages.stream(**request) as events:
        for _ in events:
            pass
        return of_message(events.get_final_message())


def of_chat(text, thoughts, calls, reason):
    read = []
    for call in calls:
        if call.type == "custom":
            read.append((call.id, call.custom.name, {"input": call.custom.input}))
            continue
        try:
            arguments = json.loads(call.function.arguments)
        except ValueError:
            arguments = {"arguments": call.function.arguments}
        read.append((call.id, call.function.name, arguments))
    return found(text or "", thoughts or "", read, FINISHES.get(reason, reason or "cut"))


TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("apply_patch", "list", "read", "exec_command", "tool_search")
]


def read_chat(server, key, stream):
    request = {"model": "m", "messages": MESSAGES, "prompt_cache_key": key, "tools": TOOLS}
    client = server.chat()
    if not stream:
        choice = client.chat.completions.create(**request).choices[0]
        thoughts = getattr(choice.message, "reasoning_content", "")
        return of_chat(choice.message.content, thoughts, choice.message.tool_calls or [], choice.finish_reason)
    text, thoughts, calls, reason, tokens = "", "", {}, None, 0
    for chunk in client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}):
        tokens = chunk.usage.prompt_tokens if chunk.usage else tokens
        for choice in chunk.choices:
            text += choice.delta.content or ""
            thoughts += getattr(choice.delta, "reasoning_content", None) or ""
            reason = choice.finish_reason or reason
            for piece in choice.delta.tool_calls or []:
                call = calls.setdefault(piece.index, piece)
                if call is not piece:
                    call.function.arguments += piece.function.arguments
    assert not reason or tokens > 0, "usage"
    return of_chat(text, thoughts, list(calls.values()), reason)


def of_gemini(responses):
    text, thoughts, calls, reason = "", "", [], None
    for response in responses:
        candidate = response.candidates[0]
        reason = candidate.finish_reason or reason
        for part in candidate.content.parts or []:
            if part.function_call:
                calls.append((part.function_call.id, part.function_call.name, part.function_call.args or {}))
            elif part.thought:
                thoughts += part.text
            else:
                text += part.text or ""
    if calls:
        signed = [part.thought_signature for response in responses for part in response.candidates[0].content.parts if part.function_call]
        assert signed[0] and not any(signed[1:]), "the first call has the signature"
    return found(text, thoughts, calls, REASONS.get(reason.value, reason.value) if reason else "cut")


def read_gemini(server, key, stream):
    config = types.GenerateContentConfig(
        http_options=types.HttpOptions(headers={"x-conversation": key}),
        thinking_config=types.ThinkingConfig(include_thoughts=True),
    )
    request = {"model": "gemini-3-pro", "contents": "hi", "config": config}
    client = server.gemini()
    if stream:
        return of_gemini(list(client.models.generate_content_stream(**request)))
    return of_gemini([client.models.generate_content(**request)])


READERS = {"messages": read_messages, "chat": read_chat, "gemini": read_gemini}
ERRORS = (anthropic.APIError, openai.APIError, errors.APIError)


def message_of(error):
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        return (body.get("error") or body).get("message")
    return getattr(error, "message", str(error))


def scenario(server, wire, name, steps, stream):
    want = expected(steps)
    if name in LEFT_OUT.get(wire, ()):
        want = None
    # A whole answer has summaries before raw reasoning, except for the one text of Messages; a stream has them after it.
    both = [step["reasoning"] for step in steps if isinstance(step.get("reasoning"), dict)]
    if want and not stream and wire != "messages":
        texts = [text for value in both for text in value.get("summary", []) + value.get("content", [])]
        want["thoughts"] = "".join(texts).replace("\n", "") or want["thoughts"]
    # The client reads arguments that are cut off as far as they are JSON.
    if want and stream and wire == "messages" and name == "a call with invalid arguments":
        want["calls"] = [(*want["calls"][0][:2], {})]
    try:
        got = READERS[wire](server, f"{wire} {name} {stream}", stream)
    except ERRORS as error:
        message = message_of(error) or ""
        assert want is None or want["end"].startswith("error ") or want["end"] == "cut", message
        if want is not None and want["end"] != "cut":
            assert want["end"].removeprefix("error ") in message, message
        return
    except Exception as error:
        # A connection that breaks.
        assert want is not None and want["end"] == "cut" and stream, f"{type(error).__name__}: {error}"
        return
    assert want is not None, "a step that the wire cannot carry was answered"
    for part, value in want.items():
        assert got[part] == value, f"{part}: {got[part]!r:.300} is not {value!r:.300}"


def check(group, name, run, *arguments):
    global passed, failed
    try:
        run(*arguments)
        passed += 1
        print(f"ok    {group}: {name}", flush=True)
    except Exception as error:
        failed += 1
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:900]
        print(f"FAIL  {group}: {name}: {reason}", flush=True)


TURN = {
    "on_exhausted": "repeat_last",
    "responses": [
        {"steps": [{"reasoning": "Hm."}, {"message": "I look."}, {"function_call": {"name": "read", "arguments": {"path": "a"}, "call_id": "call_1"}}]},
        {"expect": {"tool_output_contains": "plum"}, "steps": [{"message": "Found."}]},
    ],
}


def turn_messages(server, change=None):
    """A turn with a call, whose answer goes back as the client gave it."""
    client, tools = server.messages(), [{"name": "read", "input_schema": {"type": "object"}}]
    request = {"model": "claude-opus-4-6", "max_tokens": 4096, "tools": tools, "thinking": {"type": "adaptive"}}
    first = client.messages.create(messages=MESSAGES, **request)
    content = [block.model_dump() for block in first.content] if change else first.content
    if change:
        change(content)
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": "plum"}
    messages = [*MESSAGES, {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    second = client.messages.create(messages=messages, **request)
    assert second.content[0].text == "Found.", second


def turn_chat(server):
    client = server.chat()
    request = {"model": "m", "tools": TOOLS}
    first = client.chat.completions.create(messages=MESSAGES, **request).choices[0].message
    output = {"role": "tool", "tool_call_id": "call_1", "content": "plum"}
    second = client.chat.completions.create(messages=[*MESSAGES, first, output], **request)
    assert second.choices[0].message.content == "Found.", second


def turn_gemini(server, change=None):
    declaration = types.FunctionDeclaration(name="read", parameters_json_schema={"type": "object"})
    off = types.AutomaticFunctionCallingConfig(disable=True)
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[declaration])], automatic_function_calling=off)
    client = server.gemini()
    models = client.models
    contents = [types.Content(role="user", parts=[types.Part(text="hi")])]
    first = models.generate_content(model="gemini-3-pro", contents=contents, config=config).candidates[0].content
    if change:
        change(first)
    answer = types.Part(function_response=types.FunctionResponse(id="call_1", name="read", response={"output": "plum"}))
    contents = [*contents, first, types.Content(role="user", parts=[answer])]
    second = models.generate_content(model="gemini-3-pro", contents=contents, config=config)
    assert second.text == "Found.", second


def refused(part, run, *arguments):
    try:
        run(*arguments)
    except ERRORS as error:
        message = message_of(error)
        assert part in message, message
        return
    raise AssertionError("the request was not refused")


def with_text(content):
    content[0]["thinking"] = "Changed."


def without_thinking(content):
    del content[0]


def without_signature(content):
    for part in content.parts:
        part.thought_signature = None


def lists(server):
    assert [model.id for model in server.messages().models.list()] == ["offline"]
    assert [model.id for model in server.chat().models.list()] == ["offline"]
    gemini = server.gemini()
    assert [model.name for model in gemini.models.list()] == ["models/offline"]
    counted = server.messages().messages.count_tokens(model="claude-opus-4-6", messages=MESSAGES)
    assert counted.input_tokens > 0, counted
    assert gemini.models.count_tokens(model="m", contents="hi").total_tokens > 0


versions = f"anthropic {anthropic.__version__}, openai {openai.__version__}, google-genai {genai.__version__}"
print(f"client {versions} on Python {platform.python_version()}", flush=True)
usage = {"usage": {"input_tokens": 100, "output_tokens": 20}}
for name, steps in SCENARIOS.items():
    has_usage = any("usage" in step or step.get("error", {}).get("status") for step in steps)
    script = [step for step in steps] if has_usage else [usage, *steps]
    said = [step for step in steps if "usage" not in step and "web_search" not in step]
    with Server({"responses": [{"steps": script}]}) as server:
        for wire, stream in ((wire, stream) for wire in READERS for stream in (False, True)):
            check(wire, f"{name}{', streamed' if stream else ''}", scenario, server, wire, name, said, stream)
for name, group, run in [
    ("a turn with a call", "messages", turn_messages),
    ("a turn with a call", "chat", turn_chat),
    ("a turn with a call", "gemini", turn_gemini),
]:
    with Server(TURN) as server:
        check(group, name, run, server)
for name, group, part, arguments in [
    ("thinking that was changed", "messages", "Invalid `signature`", (turn_messages, with_text)),
    ("thinking that is missing", "messages", "Expected `thinking`", (turn_messages, without_thinking)),
    ("a call without its signature", "gemini", "missing a thought_signature", (turn_gemini, without_signature)),
]:
    with Server(TURN) as server:
        check(group, name, refused, part, arguments[0], server, arguments[1])
with Server(TURN) as server:
    check("all", "lists and counts", lists, server)
print(f"{passed} passed, {failed} failed", flush=True)
sys.exit(1 if failed else 0)
