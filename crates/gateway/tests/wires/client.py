"""The official Python clients of Messages, Gemini and Responses, unmodified, through the gateway to a scripted model that
speaks another wire: one line for each check, and a count at the end.

Environment: AGENTD (the program). Ends with 1 when a check failed.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import urllib.request
from importlib.metadata import version
from pathlib import Path

import anthropic
import openai
from google import genai
from google.genai import errors, types

PACKAGES = ["anthropic", "google-genai", "openai"]
TOKEN = "admin-token-of-the-wires-0123456789"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALL = {"steps": [{"function_call": {"name": "weather", "arguments": {"city": "Vienna"}}}, {"usage": {"input_tokens": 30, "output_tokens": 9}}]}
TEXT = {"steps": [{"message": {"text": "It is {{last_tool_output}}.", "chunk_chars": 3}}, {"usage": {"input_tokens": 40, "output_tokens": 7}}]}
SCRIPTS = {
    # Each conversation of two requests: a call, and an answer that repeats its output.
    "main": {"on_exhausted": "restart", "responses": [CALL, TEXT]},
    "other": {"on_exhausted": "repeat_last", "responses": [{"steps": [{"message": "Hi."}]}]},
}
OUTPUT = "sunny in Vienna"

passed, failed = 0, 0
processes = []


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
            reason = " ".join(f"{type(error).__name__}: {error} {error.__cause__ or ''}".split())[:600]
            print(f"FAIL  {group}: {name}: {reason}", flush=True)

    return run


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def started(folder, *arguments):
    """Starts the program, and returns where it listens."""
    environment = {**os.environ, "HOME": str(folder)}
    command = [os.environ["AGENTD"], *map(str, arguments)]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    processes.append(process)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("listening on "):
            return line.split()[2]
    raise RuntimeError("".join(lines))


class Gateway:
    """A gateway in front of a model that speaks one wire: the scripted one, or another gateway in front of it."""

    def __init__(self, folder, wire, behind=None):
        folder.mkdir()
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(TOKEN)
        settings = ['listen = "127.0.0.1:0"', "[admin]", 'token_file = "token"']
        if behind:
            (folder / "key").touch(mode=0o600)
            (folder / "key").write_text(behind.key)
            version = "v1beta" if wire == "gemini" else "v1"
            settings += ["[upstreams.main]", f'base_url = "{behind.url}/{version}"', f'wire = "{wire}"', 'key_file = "key"']
        else:
            for name, script in SCRIPTS.items():
                (folder / f"{name}.json").write_text(json.dumps(script))
                server = started(folder, "model-server", "--script", folder / f"{name}.json")
                settings += [f"[upstreams.{name}]", f'base_url = "{server}"', f'wire = "{wire}"']
        settings += ["[models.big]", 'upstream = "main"', "price = { input = 1.0, output = 10.0 }"]
        settings += ["[models.limited]", f'upstream = "{"main" if behind else "other"}"', "price = { input = 1.0, output = 10.0 }"]
        # Behind another gateway, that one limits.
        settings += ["[tiers.free.limits.limited]", f"rpm = {1 if behind else 1000}"]
        (folder / "gateway.toml").write_text("\n".join(settings))
        self.wire = wire
        self.url = started(folder, "gateway", "--config", folder / "gateway.toml")
        self.new_key()

    def new_key(self):
        """A project of its own, whose spend is that of the next check."""
        self.project = self.admin("/organization/projects", {"name": "wires"})["id"]
        self.key = self.admin(f"/organization/projects/{self.project}/service_accounts", {"name": "wires"})["api_key"]["value"]

    def admin(self, path, body=None):
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + "/v1" + path, data, headers)) as answer:
            return json.load(answer)

    def tokens(self):
        """Input and output of the project, once both requests are written."""
        path = f"/organization/usage/completions?start_time=0&project_ids={self.project}&bucket_width=1d&limit=31"
        for _ in range(200):
            page = self.admin(path)
            results = [result for bucket in page["data"] for result in bucket["results"]]
            sums = [sum(result[name] for result in results) for name in ["input_tokens", "output_tokens", "num_model_requests"]]
            if sums[2] >= 2:
                break
        return sums


def of_anthropic(gateway):
    group = f"anthropic to {gateway.wire}"
    tools = [{"name": "weather", "description": "The weather", "input_schema": SCHEMA}]

    def client():
        gateway.new_key()
        return anthropic.Anthropic(base_url=gateway.url, api_key=gateway.key, max_retries=0)

    def turn(create):
        messages = [{"role": "user", "content": "How is it in Vienna?"}]
        first = create(model="big", max_tokens=100, messages=messages, tools=tools)
        call = next(block for block in first.content if block.type == "tool_use")
        equal((first.stop_reason, call.name, call.input), ("tool_use", "weather", {"city": "Vienna"}))
        messages += [{"role": "assistant", "content": first.content}]
        messages += [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": OUTPUT}]}]
        second = create(model="big", max_tokens=100, messages=messages, tools=tools)
        equal((second.stop_reason, second.content[0].text), ("end_turn", f"It is {OUTPUT}."))
        equal((second.usage.input_tokens, second.usage.output_tokens), (40, 7))
        equal(gateway.tokens(), [70, 16, 2])

    @check(group, "a turn with a tool")
    def _():
        turn(client().messages.create)

    @check(group, "a turn with a tool, streamed")
    def _():
        one = client()

        def create(**request):
            with one.messages.stream(**request) as stream:
                return stream.get_final_message()

        turn(create)

    @check(group, "count_tokens")
    def _():
        counted = client().messages.count_tokens(model="big", messages=[{"role": "user", "content": "abcdefgh"}])
        equal(counted.input_tokens, 2)

    @check(group, "errors: RateLimitError, AuthenticationError, NotFoundError, BadRequestError")
    def _():
        one = client()
        ask = {"max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}
        one.messages.create(model="limited", **ask)
        for kind, model, client_of, more in [
            (anthropic.RateLimitError, "limited", one, {}),
            (anthropic.NotFoundError, "none", one, {}),
            (anthropic.AuthenticationError, "big", one.with_options(api_key="wrong"), {}),
            (anthropic.BadRequestError, "big", one, {"extra_body": {"container": "c"}}),
        ]:
            try:
                client_of.messages.create(model=model, **ask, **more)
            except kind as error:
                equal(error.body["type"], "error")
                if kind is anthropic.RateLimitError:
                    equal(error.response.headers["anthropic-ratelimit-requests-remaining"], "0")
                    assert int(error.response.headers["retry-after"]) > 0
            else:
                raise AssertionError(f"no {kind.__name__}")


def of_genai(gateway):
    group = f"google-genai to {gateway.wire}"
    declaration = {"name": "weather", "description": "The weather", "parameters_json_schema": SCHEMA}
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[declaration])], max_output_tokens=100)

    def client(key=None):
        gateway.new_key()
        return genai.Client(api_key=key or gateway.key, http_options={"base_url": gateway.url})

    def turn(create):
        contents = [types.UserContent("How is it in Vienna?")]
        first = create(contents)
        call = first[0].function_call
        equal((call.name, call.args), ("weather", {"city": "Vienna"}))
        contents += [types.ModelContent(first)]
        response = types.FunctionResponse(id=call.id, name=call.name, response={"output": OUTPUT})
        contents += [types.UserContent([types.Part(function_response=response)])]
        text = "".join(part.text or "" for part in create(contents))
        assert OUTPUT in text, text
        equal(gateway.tokens(), [70, 16, 2])

    @check(group, "a turn with a tool")
    def _():
        models = client().models
        turn(lambda contents: models.generate_content(model="big", contents=contents, config=config).candidates[0].content.parts)

    @check(group, "a turn with a tool, streamed")
    def _():
        models = client().models

        def create(contents):
            chunks = list(models.generate_content_stream(model="big", contents=contents, config=config))
            equal(str(chunks[-1].candidates[0].finish_reason.value), "STOP")
            return [part for chunk in chunks if chunk.candidates and chunk.candidates[0].content for part in chunk.candidates[0].content.parts or []]

        turn(create)

    @check(group, "count_tokens, and the list of models")
    def _():
        models = client().models
        equal(models.count_tokens(model="big", contents="abcdefgh").total_tokens, 2)
        equal([model.name for model in models.list()], ["models/big", "models/limited"])

    @check(group, "errors: 429, 401, 404")
    def _():
        one = client()
        one.models.generate_content(model="limited", contents="Hi")
        wrong = genai.Client(api_key="wrong", http_options={"base_url": gateway.url})
        for code, status, model, client_of in [(429, "RESOURCE_EXHAUSTED", "limited", one), (404, "NOT_FOUND", "none", one), (401, "UNAUTHENTICATED", "big", wrong)]:
            try:
                client_of.models.generate_content(model=model, contents="Hi")
            except errors.ClientError as error:
                equal((error.code, error.status), (code, status))
            else:
                raise AssertionError(f"no error {code}")


def of_openai(gateway, other):
    """The client of a wire of OpenAI."""
    group = f"openai ({other}) to {gateway.wire}"
    function = {"name": "weather", "description": "The weather", "parameters": SCHEMA}

    def client():
        gateway.new_key()
        return openai.OpenAI(base_url=gateway.url + "/v1", api_key=gateway.key, max_retries=0)

    def responses(create):
        tools = [{"type": "function", "strict": False, **function}]
        items = [{"role": "user", "content": "How is it in Vienna?"}]
        first = create(model="big", input=items, tools=tools)
        call = first.output[0]
        equal((call.name, json.loads(call.arguments)), ("weather", {"city": "Vienna"}))
        items += [item.to_dict() for item in first.output]
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": OUTPUT}]
        second = create(model="big", input=items, tools=tools)
        equal((second.output_text, second.usage.input_tokens), (f"It is {OUTPUT}.", 40))
        equal(gateway.tokens(), [70, 16, 2])

    def chat(create):
        tools = [{"type": "function", "function": function}]
        messages = [{"role": "user", "content": "How is it in Vienna?"}]
        first = create(model="big", messages=messages, tools=tools).choices[0].message
        call = first.tool_calls[0]
        equal((call.function.name, json.loads(call.function.arguments)), ("weather", {"city": "Vienna"}))
        messages += [first.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": OUTPUT}]
        second = create(model="big", messages=messages, tools=tools)
        equal((second.choices[0].message.content, second.usage.prompt_tokens), (f"It is {OUTPUT}.", 40))
        equal(gateway.tokens(), [70, 16, 2])

    def streamed(stream):
        def create(**request):
            with stream(**request) as events:
                for _ in events:
                    pass
                return events.get_final_response() if other == "responses" else events.get_final_completion()

        return create

    @check(group, "a turn with a tool")
    def _():
        one = client()
        responses(one.responses.create) if other == "responses" else chat(one.chat.completions.create)

    @check(group, "a turn with a tool, streamed")
    def _():
        one = client()
        if other == "responses":
            responses(streamed(one.responses.stream))
        else:
            stream = one.chat.completions.stream
            chat(streamed(lambda **request: stream(stream_options={"include_usage": True}, **request)))


def main():
    with tempfile.TemporaryDirectory() as folder:
        try:
            names = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
            print(f"client {names} on Python {platform.python_version()}", flush=True)
            first = Gateway(Path(folder, "first"), "responses")
            for wire in ["responses", "chat", "messages", "gemini"]:
                gateway = Gateway(Path(folder, wire), wire, first)
                of_anthropic(gateway)
                of_genai(gateway)
                of_openai(gateway, "responses")
                of_openai(gateway, "chat")
        finally:
            for process in processes:
                process.kill()
                process.wait()
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


sys.exit(main())
