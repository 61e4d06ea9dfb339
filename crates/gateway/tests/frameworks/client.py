"""Frameworks that speak to the hosted API, unmodified, through the gateway to scripted models: one line for each check, and
a count at the end.

Environment: AGENTD (the program). Ends with 1 when a check failed.
"""

import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import urllib.request
from importlib.metadata import version
from pathlib import Path

import agents
import openai
from langchain.agents import create_agent
from langchain_core.tools import tool as langchain_tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel
from pydantic_ai import Agent, ModelHTTPError, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

PACKAGES = ["langchain", "langchain-openai", "llama-index-llms-openai", "llama-index-llms-openai-like", "pydantic-ai-slim", "openai-agents"]
TOKEN = "admin-token-of-the-frameworks-0123456789"
CALL = {"steps": [{"function_call": {"name": "weather", "arguments": {"city": "Vienna"}}}]}
SCRIPTS = {
    # Each conversation of two requests: a call, and an answer that repeats its output.
    "tools": {"on_exhausted": "restart", "responses": [CALL, {"steps": [{"message": "It is {{last_tool_output}}."}]}]},
    "json": {"on_exhausted": "repeat_last", "responses": [{"steps": [{"message": '{"city":"Vienna","days":3}'}]}]},
}

# Clients that are dropped close their connections in it.
LOOP = asyncio.new_event_loop()
passed, failed = 0, 0
processes = []


class Forecast(BaseModel):
    """A forecast."""

    city: str
    days: int


def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def check(group, name):
    """Runs a function, which may be a coroutine function, as a check. What it raises is why it failed."""

    def run(function):
        global passed, failed
        try:
            made = function()
            if asyncio.iscoroutine(made):
                LOOP.run_until_complete(made)
            passed += 1
            print(f"ok    {group}: {name}", flush=True)
        except Exception as error:
            failed += 1
            reason = " ".join(f"{type(error).__name__}: {error} {error.__cause__ or ''}".split())[:600]
            print(f"FAIL  {group}: {name}: {reason}", flush=True)

    return run


def has(found, *parts):
    text = str(found)
    assert all(part in text for part in parts), f"{text!r} lacks one of {parts}"


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
    """A gateway in front of a model server for each script or, without any, of the offline model."""

    def __init__(self, folder, scripts):
        folder.mkdir()
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(TOKEN)
        settings = ['listen = "127.0.0.1:0"', "[admin]", 'token_file = "token"']
        for name, script in scripts.items():
            (folder / f"{name}.json").write_text(json.dumps(script))
            url = started(folder, "model-server", "--script", folder / f"{name}.json")
            settings += [f"[upstreams.{name}]", f'base_url = "{url}"', f"[models.{name}]", f'upstream = "{name}"']
        if not scripts:
            settings += ["[models.text]", "[models.embedding]"]
        (folder / "gateway.toml").write_text("\n".join(settings))
        self.base_url = started(folder, "gateway", "--config", folder / "gateway.toml") + "/v1"
        project = self._create("/organization/projects")["id"]
        self.key = self._create(f"/organization/projects/{project}/service_accounts")["api_key"]["value"]

    def _create(self, path):
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        request = urllib.request.Request(self.base_url + path, b'{"name": "frameworks"}', headers)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)


def main():
    asyncio.set_event_loop(LOOP)
    with tempfile.TemporaryDirectory() as folder:
        try:
            offline, scripted = Gateway(Path(folder, "offline"), {}), Gateway(Path(folder, "scripted"), SCRIPTS)
            names = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
            print(f"client {names} (openai {openai.__version__}) on Python {platform.python_version()}", flush=True)
            langchain(offline, scripted)
            llama_index(offline, scripted)
            pydantic_ai(offline, scripted)
            openai_agents(offline, scripted)
        finally:
            for process in processes:
                process.kill()
                process.wait()
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


def langchain(offline, scripted):
    def model(name, responses=False):
        place = scripted if name in SCRIPTS else offline
        options = {"base_url": place.base_url, "api_key": place.key, "max_retries": 0}
        return ChatOpenAI(model=name, use_responses_api=responses, **options)

    for wire in ("chat", "responses"):
        responses = wire == "responses"

        @check("langchain", f"{wire}: invoke, with usage")
        def _():
            answer = model("text", responses).invoke("Good morning")
            has(answer.text, "Good morning")
            assert answer.usage_metadata["total_tokens"] > 0

        @check("langchain", f"{wire}: stream")
        def _():
            parts = [part.text for part in model("text", responses).stream("Good morning")]
            has("".join(parts), "Good morning")

        @check("langchain", f"{wire}: a tool that must be called")
        def _():
            bound = model("text", responses).bind_tools([langchain_tool(weather)], tool_choice="weather")
            assert [call["name"] for call in bound.invoke("How is it?").tool_calls] == ["weather"]

    @check("langchain", "responses: structured output")
    def _():
        made = model("json", True).with_structured_output(Forecast, method="json_schema").invoke("How is it?")
        assert made == Forecast(city="Vienna", days=3), made

    @check("langchain", "responses: an agent with a tool")
    def _():
        state = create_agent(model("tools", True), [weather]).invoke({"messages": [("user", "How is it?")]})
        has(state["messages"][-1].text, "It is sunny in Vienna.")

    @check("langchain", "embeddings")
    def _():
        options = {"base_url": offline.base_url, "api_key": offline.key, "check_embedding_ctx_length": False}
        made = OpenAIEmbeddings(model="embedding", dimensions=8, **options)
        assert [len(each) for each in made.embed_documents(["a", "b"])] == [8, 8]

    @check("langchain", "an unknown model is a NotFoundError")
    def _():
        try:
            model("nothing").invoke("x")
        except openai.NotFoundError as error:
            return has(error, "nothing")
        raise AssertionError("no error")


def llama_index(offline, scripted):
    def options(name):
        place = scripted if name in SCRIPTS else offline
        return {"model": name, "api_base": place.base_url, "api_key": place.key, "max_retries": 0}

    def like(name, **more):
        return OpenAILike(**options(name), is_chat_model=True, **more)

    def responses(name):
        return OpenAIResponses(**options(name), context_window=8000)

    question = [ChatMessage(role="user", content="Good morning")]
    tool = FunctionTool.from_defaults(weather)
    for wire, model in (("chat", like), ("responses", responses)):

        @check("llama-index", f"{wire}: chat")
        def _():
            has(model("text").chat(question).message.content, "Good morning")

        @check("llama-index", f"{wire}: stream")
        def _():
            has("".join(part.delta or "" for part in model("text").stream_chat(question)), "Good morning")

    @check("llama-index", "chat: a tool that must be called")
    def _():
        made = like("text", is_function_calling_model=True)
        answer = made.chat_with_tools([tool], user_msg="How is it?", tool_required=True)
        calls = made.get_tool_calls_from_response(answer)
        assert [call.tool_name for call in calls] == ["weather"]

    @check("llama-index", "responses: a tool, and its result")
    def _():
        answer = responses("tools").predict_and_call([tool], user_msg="How is it?")
        has(answer.response, "sunny in Vienna")
        # The other half of the scripted conversation.
        responses("tools").chat(question)


def pydantic_ai(offline, scripted):
    def made(kind, name):
        place = scripted if name in SCRIPTS else offline
        return kind(name, provider=OpenAIProvider(base_url=place.base_url, api_key=place.key))

    for wire, kind in (("chat", OpenAIChatModel), ("responses", OpenAIResponsesModel)):

        @check("pydantic-ai", f"{wire}: run, with usage")
        def _():
            ran = Agent(made(kind, "text")).run_sync("Good morning")
            has(ran.output, "Good morning")
            usage = ran.usage() if callable(ran.usage) else ran.usage
            assert usage.total_tokens > 0

        @check("pydantic-ai", f"{wire}: stream")
        async def _():
            async with Agent(made(kind, "text")).run_stream("Good morning") as ran:
                has("".join([part async for part in ran.stream_text(delta=True)]), "Good morning")

    @check("pydantic-ai", "responses: a tool, and its result")
    def _():
        ran = Agent(made(OpenAIResponsesModel, "tools"), tools=[weather]).run_sync("How is it?")
        has(ran.output, "It is sunny in Vienna.")

    @check("pydantic-ai", "responses: structured output")
    def _():
        ran = Agent(made(OpenAIResponsesModel, "json"), output_type=NativeOutput(Forecast)).run_sync("How is it?")
        assert ran.output == Forecast(city="Vienna", days=3), ran.output

    @check("pydantic-ai", "an unknown model is a ModelHTTPError")
    def _():
        try:
            Agent(made(OpenAIChatModel, "nothing")).run_sync("x")
        except ModelHTTPError as error:
            assert error.status_code == 404
            return has(error.body, "nothing")
        raise AssertionError("no error")


def openai_agents(offline, scripted):
    agents.set_tracing_disabled(True)
    kinds = {"chat": agents.OpenAIChatCompletionsModel, "responses": agents.OpenAIResponsesModel}

    def agent(wire, name, **more):
        place = scripted if name in SCRIPTS else offline
        client = openai.AsyncOpenAI(base_url=place.base_url, api_key=place.key, max_retries=0)
        return agents.Agent(name="forecaster", model=kinds[wire](model=name, openai_client=client), **more)

    for wire in kinds:

        @check("openai-agents", f"{wire}: run, with usage")
        async def _():
            ran = await agents.Runner.run(agent(wire, "text"), "Good morning")
            has(ran.final_output, "Good morning")
            assert ran.context_wrapper.usage.total_tokens > 0

        @check("openai-agents", f"{wire}: stream")
        async def _():
            ran = agents.Runner.run_streamed(agent(wire, "text"), "Good morning")
            kinds_of_events = {event.type async for event in ran.stream_events()}
            has(ran.final_output, "Good morning")
            assert "raw_response_event" in kinds_of_events

    @check("openai-agents", "responses: a tool, and its result")
    async def _():
        ran = await agents.Runner.run(agent("responses", "tools", tools=[agents.function_tool(weather)]), "How is it?")
        has(ran.final_output, "It is sunny in Vienna.")

    @check("openai-agents", "responses: structured output")
    async def _():
        ran = await agents.Runner.run(agent("responses", "json", output_type=Forecast), "How is it?")
        assert ran.final_output == Forecast(city="Vienna", days=3), ran.final_output


if __name__ == "__main__":
    sys.exit(main())
