"""Turns with tools whose answers go back as the client gave them, lists, counts and errors, of each client in front of
another wire.
"""

import json

import anthropic
import openai
from google import genai
from google.genai import errors, types

from callers import Chat, Gemini, Messages, Responses
from generated import TOOLS

SCHEMA = TOOLS["weather"]
OUTPUT = "sunny in Vienna"
CALL = {
    "steps": [
        {"reasoning": {"summary": ["I look."], "encrypted_content": "b3BhcXVl"}},
        {"function_call": {"name": "weather", "arguments": {"city": "Vienna"}}},
        {"usage": {"input_tokens": 30, "output_tokens": 9}},
    ]
}
TEXT = {
    "expect": {"tool_output_contains": OUTPUT},
    "steps": [{"message": {"text": "It is {{last_tool_output}}.", "chunk_chars": 3}}, {"usage": {"input_tokens": 40, "output_tokens": 7}}],
}


def refusal(status, **more):
    return {"steps": [{"error": {"status": status, "message": f"refused {status}", **more}}]}


BROKEN = {"steps": [{"message": "So far"}, {"error": {"code": "server_error", "message": "It broke."}}]}
CUT = {"steps": [{"message": "So far"}, {"cut": {}}]}
SCRIPTS = {
    # Conversations of two requests: a call, and an answer that repeats its output.
    "turns": {"on_exhausted": "restart", "responses": [CALL, TEXT]},
    "limited": {"on_exhausted": "repeat_last", "responses": [{"steps": [{"message": "Hi."}]}]},
    "refusing": {
        "on_exhausted": "restart",
        "responses": [refusal(429, code="rate_limit_exceeded", headers={"retry-after": "7"}), refusal(400), refusal(500)],
    },
    "breaking": {"on_exhausted": "restart", "responses": [BROKEN, CUT]},
}
QUESTION = "How is it in Vienna?"


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def of_anthropic(gateway, stream):
    client = anthropic.Anthropic(base_url=gateway.url, api_key=gateway.new_key(), max_retries=0)

    def create(**request):
        if not stream:
            return client.messages.create(**request)
        with client.messages.stream(**request) as events:
            return events.get_final_message()

    request = {"model": "turns", "max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 1024}, "tools": [{"name": "weather", "input_schema": SCHEMA}]}
    messages = [{"role": "user", "content": QUESTION}]
    first = create(messages=messages, **request)
    thinking, call = first.content
    equal((first.stop_reason, thinking.thinking, call.name, call.input), ("tool_use", "I look.", "weather", {"city": "Vienna"}))
    messages += [{"role": "assistant", "content": first.content}]
    messages += [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": OUTPUT}]}]
    second = create(messages=messages, **request)
    equal((second.stop_reason, second.content[0].text), ("end_turn", f"It is {OUTPUT}."))
    equal(gateway.used(2), (70, 0, 16))


def of_genai(gateway, stream):
    client = Gemini(gateway.url, gateway.new_key()).client
    declaration = types.FunctionDeclaration(name="weather", parameters_json_schema=SCHEMA)
    off = types.AutomaticFunctionCallingConfig(disable=True)
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[declaration])], automatic_function_calling=off)

    def create(contents):
        request = {"model": "turns", "contents": contents, "config": config}
        if not stream:
            return client.models.generate_content(**request).candidates[0].content.parts
        chunks = list(client.models.generate_content_stream(**request))
        equal(chunks[-1].candidates[0].finish_reason.value, "STOP")
        contents = [candidate.content for chunk in chunks for candidate in chunk.candidates or []]
        return [part for content in contents if content for part in content.parts or []]

    contents = [types.UserContent(QUESTION)]
    first = create(contents)
    call = next(part.function_call for part in first if part.function_call)
    equal((call.name, call.args), ("weather", {"city": "Vienna"}))
    answer = types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": OUTPUT}))
    contents += [types.ModelContent(first), types.UserContent([answer])]
    equal("".join(part.text or "" for part in create(contents)), f"It is {OUTPUT}.")
    equal(gateway.used(2), (70, 0, 16))


def of_responses(gateway, stream):
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.new_key(), max_retries=0)

    def create(**request):
        if not stream:
            return client.responses.create(**request)
        with client.responses.stream(**request) as events:
            return events.get_final_response()

    tools = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
    request = {"model": "turns", "tools": tools, "include": ["reasoning.encrypted_content"], "store": False}
    request["reasoning"] = {"effort": "low", "summary": "auto"}
    items = [{"role": "user", "content": QUESTION}]
    first = create(input=items, **request)
    call = first.output[-1]
    equal((call.name, json.loads(call.arguments)), ("weather", {"city": "Vienna"}))
    items += [item.to_dict() for item in first.output]
    items += [{"type": "function_call_output", "call_id": call.call_id, "output": OUTPUT}]
    equal(create(input=items, **request).output_text, f"It is {OUTPUT}.")
    equal(gateway.used(2), (70, 0, 16))


def of_chat(gateway, stream):
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.new_key(), max_retries=0)

    def create(**request):
        if not stream:
            return client.chat.completions.create(**request).choices[0].message
        with client.chat.completions.stream(**request) as events:
            return events.get_final_completion().choices[0].message

    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    messages = [{"role": "user", "content": QUESTION}]
    first = create(model="turns", messages=messages, tools=tools)
    call = first.tool_calls[0]
    equal((call.function.name, json.loads(call.function.arguments)), ("weather", {"city": "Vienna"}))
    messages += [first.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": OUTPUT}]
    equal(create(model="turns", messages=messages, tools=tools).content, f"It is {OUTPUT}.")
    equal(gateway.used(2), (70, 0, 16))


def lists_and_counts(gateway, caller):
    client = caller(gateway.url, gateway.new_key()).client
    if caller is Gemini:
        equal(sorted(model.name for model in client.models.list()), sorted(f"models/{name}" for name in gateway.models))
        equal(client.models.get(model="turns").name, "models/turns")
        equal(client.models.count_tokens(model="turns", contents="abcdefgh").total_tokens, 2)
        return
    models = list(client.models.list())
    equal(sorted(model.id for model in models), sorted(gateway.models))
    equal(client.models.retrieve("turns").id, "turns")
    if caller is Messages:
        assert all(model.type == "model" and model.display_name and model.created_at for model in models), models
        counted = client.messages.count_tokens(model="turns", messages=[{"role": "user", "content": "abcdefgh"}])
        equal(counted.input_tokens, 2)
    else:
        assert all(model.object == "model" for model in models), models


# Of the error: its status, and its kind in the caller's wire.
KINDS = {
    "messages": {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 500: "api_error"},
    "gemini": {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"},
}


def failing(caller, client, model, stream, status):
    """The client raises an error of this status, and of its kind in the caller's wire."""
    try:
        client.ask(model, HI, stream)
    except caller.failure as error:
        found = getattr(error, "status_code", None) or getattr(error, "code", None)
        equal(found, status)
        if caller is Messages:
            equal((error.body["type"], error.body["error"]["type"]), ("error", KINDS["messages"][status]))
        elif caller is Gemini:
            equal(error.status, KINDS["gemini"][status])
        else:
            assert isinstance(error.body, dict) and error.body["message"], error.body
        return error
    raise AssertionError(f"no error {status}")


def limited_model(wire, stream):
    """A model with one request a minute for each check, because the limit is that of the organization."""
    return f"limited-{wire}-{stream}"


def refusals(gateway, caller, stream):
    key = gateway.new_key()
    client = caller(gateway.url, key)
    limited = limited_model(caller.wire, stream)
    client.ask(limited, HI, stream)
    error = failing(caller, client, limited, stream, 429)
    headers = error.response.headers
    assert int(headers["retry-after"]) > 0
    if caller is Messages:
        equal(headers["anthropic-ratelimit-requests-limit"], "1")
        equal(headers["anthropic-ratelimit-requests-remaining"], "0")
    failing(caller, client, "none", stream, 404)
    failing(caller, caller(gateway.url, "wrong"), "turns", stream, 401)
    for status in (429, 400, 500):
        error = failing(caller, client, "refusing", stream, status)
        assert f"refused {status}" in str(error), error
        if status == 429:
            equal(error.response.headers["retry-after"], "7")


def broken(gateway, caller):
    """A stream that fails in its middle, or breaks off, is an error of the client, or an end without a reason."""
    client = caller(gateway.url, gateway.new_key())
    for _ in range(2):
        try:
            found = client.ask("breaking", HI, True)
        except (caller.failure, ValueError):
            continue
        raise AssertionError(f"a broken stream was read as {found}")


TURNS = {Messages: of_anthropic, Gemini: of_genai, Responses: of_responses, Chat: of_chat}


class Hi:
    system = temperature = None
    offers_tools = False


HI = Hi()


def checks(gateway):
    from generated import Turn

    HI.turns = [Turn("user", "Hi")]
    for caller, turn in TURNS.items():
        if caller.wire == gateway.wire:
            continue
        group = f"{caller.name} to {gateway.wire}"
        yield group, "a turn with a tool", turn, (gateway, False)
        yield group, "a turn with a tool, streamed", turn, (gateway, True)
        yield group, "lists of models and counts of tokens", lists_and_counts, (gateway, caller)
        yield group, "errors of the gateway and of the model's server", refusals, (gateway, caller, False)
        yield group, "the same, of streams", refusals, (gateway, caller, True)
        yield group, "streams that break", broken, (gateway, caller)
