"""The compliance tests of `llm-comply` for three wires, whose schemas are stricter than the official clients, through the
gateway: each of them with a model that answers as the test expects.
"""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("llm-comply")
USAGE = {"usage": {"input_tokens": 30, "output_tokens": 20}}
THOUGHT = {"usage": {"input_tokens": 30, "output_tokens": 20, "reasoning_output_tokens": 11}}


def script(*steps):
    return {"on_exhausted": "repeat_last", "responses": [{"steps": list(steps)}]}


SCRIPTS = {
    "comply-text": script({"message": "Hello there, one two three."}, USAGE),
    "comply-tool": script({"function_call": {"name": "get_weather", "arguments": {"location": "San Francisco"}}}, USAGE),
    # Some tests skip models that do not think, by their names.
    "claude-sonnet-4-5": script({"reasoning": {"summary": ["I think about it."]}}, {"message": "42."}, THOUGHT),
}
# By the wire of the caller: the name of the tests, what their paths begin with, and how many there are.
FORMATS = {"chat": ("openai-chat", "/v1", 9), "messages": ("anthropic", "/v1", 9), "gemini": ("google-genai", "", 9)}
# Needs a member of Chat Completions that one provider alone has.
SKIPPED = {"chat-reasoning-summary"}


def model_of(test):
    if "tool" in test:
        return "comply-tool"
    return "claude-sonnet-4-5" if "thinking" in test or "reasoning" in test else "comply-text"


def complies(gateway, caller):
    """All tests of a wire pass."""
    name, base, count = FORMATS[caller]
    key, found = gateway.new_key(), {}
    for model in SCRIPTS:
        command = [PROGRAM, "--base-url", gateway.url + base, "--api-key", key, "--model", model, "--format", name]
        # The tests of Messages send no version.
        command += ["--header", "anthropic-version: 2023-06-01", "--timeout", "30", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.stdout.startswith("{"), done.stderr or done.stdout
        results = {result["id"]: result for result in json.loads(done.stdout)["results"]}
        found |= {test: result for test, result in results.items() if model_of(test) == model}
    is_bad = {test: result["status"] != ("skipped" if test in SKIPPED else "passed") for test, result in found.items()}
    bad = {test: result.get("errors") or result["status"] for test, result in found.items() if is_bad[test]}
    assert not bad and len(found) == count, f"{len(found)} tests, {bad}"
