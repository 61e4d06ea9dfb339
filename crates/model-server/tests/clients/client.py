"""The stream parser of the official Python client: one line for each check, and a count at the end.

Environment: CASES, a JSON file with a list of `{group, name, base_url, cache_key, helper, expected}`. Ends
with 1 when a check failed.
"""

import json
import os
import platform
import sys

import openai
from openai import OpenAI

PHASES = ("commentary", "final_answer")
passed, failed = 0, 0


def described(item):
    """An item as `crates/model/examples/read_stream.rs` describes it."""
    item = item.to_dict()
    kind = item.get("type")
    texts = lambda parts: [part.get("text", part.get("refusal")) for part in parts or []]
    if kind == "message":
        text = "".join(text or "" for text in texts(item.get("content")))
        phase = item.get("phase")
        return {"type": kind, "text": text, "phase": phase if phase in PHASES else None}
    if kind == "reasoning":
        return {"type": kind, "summary": texts(item.get("summary")), "content": texts(item.get("content"))}
    if kind == "function_call":
        return {"type": kind, **{name: item[name] for name in ("call_id", "name", "arguments")}}
    if kind == "custom_tool_call":
        return {"type": kind, **{name: item[name] for name in ("call_id", "name", "input")}}
    if kind == "tool_search_call" and item.get("call_id"):
        return {"type": kind, **{name: item[name] for name in ("call_id", "arguments")}}
    if kind == "web_search_call":
        return {"type": kind, "action": item.get("action"), "failed": item.get("status") == "failed"}
    if kind == "image_generation_call":
        result = item.get("result") or ""
        return {"type": kind, "status": item.get("status"), "result": result, "revised_prompt": item.get("revised_prompt")}
    return {"type": kind, "call_id": item.get("call_id")}


def counted(usage):
    if usage is None:
        return dict.fromkeys(("input", "cached", "output", "reasoning", "total"), 0)
    usage = usage.to_dict()
    return {
        "input": usage["input_tokens"],
        "cached": (usage.get("input_tokens_details") or {}).get("cached_tokens", 0),
        "output": usage["output_tokens"],
        "reasoning": (usage.get("output_tokens_details") or {}).get("reasoning_tokens", 0),
        "total": usage.get("total_tokens", usage["input_tokens"] + usage["output_tokens"]),
    }


DELTAS = {
    "response.output_text.delta": lambda event: "text",
    "response.reasoning_summary_text.delta": lambda event: f"summary {getattr(event, 'summary_index', 0)}",
    "response.reasoning_text.delta": lambda event: f"reasoning {getattr(event, 'content_index', 0)}",
    "response.function_call_arguments.delta": lambda event: "arguments",
    "response.custom_tool_call_input.delta": lambda event: "input",
}


def read(events):
    """Reads up to the end of the response, as a program that uses the client does."""
    items, texts, usage, end = [], {}, counted(None), {"completed": False}
    try:
        for event in events:
            if event.type in DELTAS:
                key = f"{getattr(event, 'output_index', 0)} {DELTAS[event.type](event)}"
                texts[key] = texts.get(key, "") + event.delta
            elif event.type == "response.output_item.done":
                items.append(described(event.item))
            elif event.type in ("response.completed", "response.failed", "response.incomplete"):
                usage = counted(getattr(event.response, "usage", None))
                end["completed"] = event.type == "response.completed"
                if error := getattr(event.response, "error", None):
                    end["message"] = error.message
                break
            elif event.type == "error":
                end["message"] = event.message
                break
    except openai.APIStatusError:
        raise
    except openai.APIError as error:
        # It raises for `error` events, and for a connection that breaks.
        end["message"] = error.message if error.body is not None else None
    except Exception as error:
        # A stream that breaks, or an event that is not JSON.
        end["message"] = None
    return {"items": items, "texts": texts, "usage": usage, "end": end}


def request(client, case):
    # The same body as ours, so that the server answers the same.
    return {"model": "m", "input": [], "store": False, "extra_body": {"prompt_cache_key": case["cache_key"]}}


def of_parser(client, case):
    return read(client.responses.create(stream=True, **request(client, case)))


def of_helper(client, case):
    """The client's accumulated response: its items are those of the final response."""
    with client.responses.stream(**request(client, case)) as stream:
        result = read(stream)
        if result["end"]["completed"]:
            final = stream.get_final_response()
            result["items"] = [described(item) for item in final.output]
            result["usage"] = counted(final.usage)
            text = "".join(item["text"] for item in result["items"] if item["type"] == "message")
            assert final.output_text == text, f"output_text is {final.output_text[:200]!r}"
        return result


def compare(found, expected):
    for part in ("items", "texts", "usage"):
        if part in expected:
            assert found[part] == expected[part], f"{part}: {found[part]!r:.400} is not {expected[part]!r:.400}"
    theirs, ours = found["end"], expected["end"]
    for part in ("completed", "status"):
        assert theirs.get(part) == ours.get(part), f"the end is {theirs!r}, not {ours!r}"
    message = theirs.get("message") or ""
    assert message in (ours.get("message") or ""), f"{message!r} is not in {ours['message']!r}"


def check(case, read_case):
    client = OpenAI(base_url=case["base_url"], api_key="none", max_retries=0)
    try:
        found = read_case(client, case)
    except openai.APIStatusError as error:
        message = (error.body or {}).get("message")
        end = {"completed": False, "status": error.status_code, "message": message}
        found = {"items": [], "texts": {}, "usage": counted(None), "end": end}
    compare(found, case["expected"])


print(f"client openai {openai.__version__} on Python {platform.python_version()}", flush=True)
with open(os.environ["CASES"], encoding="utf-8") as file:
    cases = json.load(file)
for case in cases:
    try:
        check(case, of_helper if case["helper"] else of_parser)
        passed += 1
        print(f"ok    {case['group']}: {case['name']}", flush=True)
    except Exception as error:
        failed += 1
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:900]
        print(f"FAIL  {case['group']}: {case['name']}: {reason}", flush=True)
print(f"{passed} passed, {failed} failed", flush=True)
sys.exit(1 if failed else 0)
