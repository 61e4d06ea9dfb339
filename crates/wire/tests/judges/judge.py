"""The official clients as judges: they read the streams and responses that the crate writes for their wire, translated
from each other wire, and the requests that they send are read and written for each other wire.

    pip install anthropic==2.14.0 openai==3.57.0 google-genai==3.6.1
    cargo build -p wire --example wire_translate
    python crates/wire/tests/judges/judge.py target/debug/examples/wire_translate

A small server on this machine answers the clients. Prints the number of exchanges for each wire; the first difference ends it.
"""

import http.server
import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import anthropic
import openai
from google import genai

WIRES = ["responses", "messages", "chat", "gemini"]
TEXTS = ["Hi", "{\"input\":\"x\"}", "data: [DONE]", "event: error\r\n\r\n", "<tool_call>", "\u0000\u001f\u007f", "0", "ü" * 300, "\\u0041", "Zwei \"Wörter\"\n", "\u2028\U0001f600 </think> {}", "a\\b\tc"]


class Translator:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def __call__(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class Server(http.server.BaseHTTPRequestHandler):
    """Answers each request with the next body, and keeps what it got."""

    protocol_version = "HTTP/1.1"
    body, kind, got = b"", "text/event-stream", None

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        Server.got = (self.path, json.loads(data))
        self.send_response(200)
        self.send_header("content-type", Server.kind)
        self.send_header("content-length", str(len(Server.body)))
        self.end_headers()
        self.wfile.write(Server.body)

    def log_message(self, *_):
        pass


def transcripts():
    """The streams of the tests, with their texts replaced."""
    source = (Path(__file__).parent.parent / "suite" / "transcripts.rs").read_text()
    found = {}
    for wire, name, text in [("messages", "MESSAGES", "I'll \\\"look\\\"."), ("chat", "CHAT", "Two files."), ("gemini", "GEMINI", "Both.")]:
        start = source.index(f"const {name}")
        part = source[start : source.index("\n/// ", start) if "\n/// " in source[start:] else len(source)]
        events = re.findall(r"data: (\{.*\})(?=\n|\"#)", part)
        for index, replacement in enumerate(TEXTS):
            escaped = json.dumps(replacement)[1:-1]
            stream = "".join(f"data: {event.replace(text, escaped)}\n\n" for event in events)
            found[(wire, index)] = (stream, replacement)
    return found


def calls_of(wire):
    return {"messages": [("read", {"path": "a.rs"})], "chat": [("read", {}), ("read", {"a": 1})], "gemini": [("read", {"b": 1, "a": 2}), ("read", {})]}[wire]


def clients(port):
    base = f"http://127.0.0.1:{port}"
    return (
        anthropic.Anthropic(base_url=base, api_key="k", max_retries=0),
        openai.OpenAI(base_url=base + "/v1", api_key="k", max_retries=0),
        genai.Client(api_key="k", http_options={"base_url": base}),
    )


TOOL = {"name": "read", "description": "Reads.", "schema": {"type": "object", "properties": {"path": {"type": "string"}}}}


def ask_messages(client, streamed):
    options = dict(
        model="m", max_tokens=500, system="S",
        messages=[{"role": "user", "content": "q"}],
        tools=[{"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["schema"]}],
    )
    if streamed:
        with client.messages.stream(**options) as stream:
            message = stream.get_final_message()
    else:
        message = client.messages.create(**options)
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
    assert message.stop_reason == "tool_use", message.stop_reason
    return text, calls, message.usage.output_tokens


def ask_chat(client, streamed):
    options = dict(
        model="m", messages=[{"role": "system", "content": "S"}, {"role": "user", "content": "q"}],
        tools=[{"type": "function", "function": {"name": TOOL["name"], "description": TOOL["description"], "parameters": TOOL["schema"]}}],
    )
    if not streamed:
        answer = client.chat.completions.create(**options)
    else:
        with client.chat.completions.stream(**options, stream_options={"include_usage": True}) as stream:
            answer = stream.get_final_completion()
    message = answer.choices[0].message
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]
    assert answer.choices[0].finish_reason == "tool_calls"
    return message.content or "", calls, answer.usage.completion_tokens


def ask_responses(client, streamed):
    options = dict(
        model="m", instructions="S", input="q",
        tools=[{"type": "function", "name": TOOL["name"], "description": TOOL["description"], "parameters": TOOL["schema"], "strict": False}],
    )
    if not streamed:
        answer = client.responses.create(**options)
    else:
        with client.responses.stream(**options) as stream:
            answer = stream.get_final_response()
    calls = [(item.name, json.loads(item.arguments)) for item in answer.output if item.type == "function_call"]
    assert answer.status == "completed"
    return answer.output_text, calls, answer.usage.output_tokens


def ask_gemini(client, streamed):
    config = {
        "system_instruction": "S",
        "tools": [{"function_declarations": [{"name": TOOL["name"], "description": TOOL["description"], "parameters_json_schema": TOOL["schema"]}]}],
        "automatic_function_calling": {"disable": True},
    }
    options = dict(model="m", contents="q", config=config)
    chunks = list(client.models.generate_content_stream(**options)) if streamed else [client.models.generate_content(**options)]
    parts = [part for chunk in chunks for part in (chunk.candidates[0].content.parts or [])]
    text = "".join(part.text or "" for part in parts if not part.thought and not part.function_call)
    calls = [(part.function_call.name, part.function_call.args) for part in parts if part.function_call]
    usage = chunks[-1].usage_metadata
    return text, calls, usage.candidates_token_count + usage.thoughts_token_count


def main(program):
    translate = Translator(program)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    claude, gpt, gemini = clients(server.server_address[1])
    ask = {
        "messages": lambda streamed: ask_messages(claude, streamed),
        "chat": lambda streamed: ask_chat(gpt, streamed),
        "responses": lambda streamed: ask_responses(gpt, streamed),
        "gemini": lambda streamed: ask_gemini(gemini, streamed),
    }
    exchanges = dict.fromkeys(WIRES, 0)
    for (origin, _), (stream, text) in transcripts().items():
        tokens = {"messages": 42, "chat": 9, "gemini": 11}[origin]
        for wire in WIRES:
            for streamed in (True, False):
                name = "stream" if streamed else "whole"
                body = translate(**{"from": origin, "to": wire, name: stream})["text"]
                Server.body = body.encode()
                Server.kind = "text/event-stream" if streamed else "application/json"
                try:
                    got = ask[wire](streamed)
                except Exception as error:
                    sys.exit(f"{origin} to {wire}, {name}: {error!r}\n{body}")
                expect = (text, calls_of(origin), tokens)
                if got != expect:
                    sys.exit(f"{origin} to {wire}, {name}: {got} in place of {expect}\n{body}")
                path, request = Server.got
                for to in WIRES:
                    written = translate(**{"from": wire, "to": to, "model": "m", "request": json.dumps(request)})
                    if "error" in written or "read" not in written["text"] or TOOL["description"] not in written["text"]:
                        sys.exit(f"a request of {wire} for {to}: {written}\n{request}")
                    exchanges[to] += 1
                exchanges[wire] += 1
    failures = sum(1 for count in exchanges.values() if count == 0)
    for wire, count in exchanges.items():
        print(f"{wire}: {count} exchanges")
    print(f"{sum(exchanges.values())} passed, {failures} failed")


main(sys.argv[1])
