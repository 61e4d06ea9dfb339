"""A caller for each wire: the official client, how it asks, and what it reads."""

import base64
import json

import anthropic
import openai
from google import genai
from google.genai import errors, types

from generated import PIXEL, TOOLS

ENDS = {
    "end_turn": "ended",
    "tool_use": "ended",
    "stop": "ended",
    "tool_calls": "ended",
    "STOP": "ended",
    "max_tokens": "max_output_tokens",
    "length": "max_output_tokens",
    "MAX_TOKENS": "max_output_tokens",
}


def read(text, thoughts, calls, end, usage):
    return {"text": text, "thoughts": thoughts, "calls": calls, "end": ENDS.get(end, end), "usage": usage}


class Messages:
    name = "anthropic"
    wire = "messages"
    failure = anthropic.APIError

    def __init__(self, url, key):
        self.client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)

    def ask(self, model, exchange, stream):
        messages = []
        for turn in exchange.turns:
            content = [{"type": "text", "text": turn.text}]
            if turn.image:
                source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
                content.append({"type": "image", "source": source})
            content += [{"type": "tool_use", "id": id, "name": name, "input": given} for id, name, given, _ in turn.calls]
            messages.append({"role": turn.role, "content": content})
            results = [{"type": "tool_result", "tool_use_id": id, "content": result} for id, *_, result in turn.calls]
            if results:
                messages.append({"role": "user", "content": results})
        # On some wires a model shows its thoughts only where it is asked for them.
        thinking = {"type": "enabled", "budget_tokens": 1024}
        request = {"model": model, "max_tokens": 2000, "messages": messages, "thinking": thinking}
        if exchange.system:
            request["system"] = exchange.system
        if exchange.offers_tools:
            request["tools"] = [{"name": name, "description": name, "input_schema": schema} for name, schema in TOOLS.items()]
        # Its client has the parameter no longer, and other callers send it.
        if exchange.temperature is not None:
            request |= {"extra_body": {"temperature": exchange.temperature}, "extra_headers": {"anthropic-version": "2023-06-01"}}
        if not stream:
            return self.read(self.client.messages.create(**request))
        with self.client.messages.stream(**request) as events:
            message = events.get_final_message()
        if message.stop_reason is None:
            raise ValueError("the stream is incomplete")
        return self.read(message)

    def read(self, message):
        blocks = message.content
        text = "".join(block.text for block in blocks if block.type == "text")
        thoughts = "".join(block.thinking for block in blocks if block.type == "thinking")
        calls = [(block.name, block.input) for block in blocks if block.type == "tool_use"]
        cached = message.usage.cache_read_input_tokens or 0
        written = message.usage.cache_creation_input_tokens or 0
        usage = (message.usage.input_tokens + cached + written, cached, message.usage.output_tokens)
        return read(text, thoughts, calls, message.stop_reason, usage)


def data_url():
    return f"data:image/png;base64,{PIXEL}"


class Chat:
    name = "openai (chat)"
    wire = "chat"
    failure = openai.APIError

    def __init__(self, url, key):
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)

    def ask(self, model, exchange, stream):
        messages = [{"role": "system", "content": exchange.system}] if exchange.system else []
        for turn in exchange.turns:
            if turn.role == "user":
                content = [{"type": "text", "text": turn.text}]
                if turn.image:
                    content.append({"type": "image_url", "image_url": {"url": data_url()}})
                messages.append({"role": "user", "content": content})
                continue
            message = {"role": "assistant", "content": turn.text}
            if turn.calls:
                message["tool_calls"] = [
                    {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
                    for id, name, given, _ in turn.calls
                ]
            messages.append(message)
            messages += [{"role": "tool", "tool_call_id": id, "content": result} for id, *_, result in turn.calls]
        request = {"model": model, "messages": messages, "max_completion_tokens": 1000, "reasoning_effort": "low"}
        if exchange.temperature is not None:
            request["temperature"] = exchange.temperature
        if exchange.offers_tools:
            request["tools"] = [
                {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in TOOLS.items()
            ]
        if not stream:
            answer = self.client.chat.completions.create(**request)
            message, end = answer.choices[0].message, answer.choices[0].finish_reason
            thoughts = getattr(message, "reasoning_content", None) or ""
            calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or []]
            return self.read(message.content or "", thoughts, calls, end, answer.usage)
        # Its helper raises an error for an answer that is cut off by the limit.
        text, thoughts, calls, end, usage = "", "", {}, None, None
        for chunk in self.client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **request):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                thoughts += getattr(choice.delta, "reasoning_content", None) or ""
                end = choice.finish_reason or end
                for piece in choice.delta.tool_calls or []:
                    name, given = calls.get(piece.index, ("", ""))
                    calls[piece.index] = (name + (piece.function.name or ""), given + (piece.function.arguments or ""))
        return self.read(text, thoughts, calls.values(), end, usage)

    def read(self, text, thoughts, calls, end, usage):
        if end is None or usage is None:
            raise ValueError("the stream is incomplete")
        calls = [(name, json.loads(given)) for name, given in calls]
        cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else 0
        return read(text, thoughts, calls, end, (usage.prompt_tokens, cached or 0, usage.completion_tokens))


class Responses:
    name = "openai (responses)"
    wire = "responses"
    failure = openai.APIError

    def __init__(self, url, key):
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)

    def ask(self, model, exchange, stream):
        items = []
        for turn in exchange.turns:
            kind = "input_text" if turn.role == "user" else "output_text"
            content = [{"type": kind, "text": turn.text}]
            if turn.image:
                content.append({"type": "input_image", "detail": "auto", "image_url": data_url()})
            items.append({"type": "message", "role": turn.role, "content": content})
            items += [
                {"type": "function_call", "call_id": id, "name": name, "arguments": json.dumps(given)}
                for id, name, given, _ in turn.calls
            ]
            items += [{"type": "function_call_output", "call_id": id, "output": result} for id, *_, result in turn.calls]
        request = {"model": model, "input": items, "max_output_tokens": 1000, "store": False}
        request["reasoning"] = {"effort": "low", "summary": "auto"}
        if exchange.system:
            request["instructions"] = exchange.system
        if exchange.temperature is not None:
            request["temperature"] = exchange.temperature
        if exchange.offers_tools:
            request["tools"] = [
                {"type": "function", "name": name, "parameters": schema, "strict": False} for name, schema in TOOLS.items()
            ]
        if not stream:
            response = self.client.responses.create(**request)
        else:
            response = None
            for event in self.client.responses.create(stream=True, **request):
                if event.type in ("response.completed", "response.incomplete", "response.failed"):
                    response = event.response
        if response is None or response.status == "failed":
            raise ValueError(f"the response failed: {response and response.error}")
        text = "".join(part.text for item in response.output if item.type == "message" for part in item.content)
        reasoning = [item for item in response.output if item.type == "reasoning"]
        # Chat Completions have it as it is, the others as a summary.
        thoughts = "".join(part.text for item in reasoning for part in [*item.summary, *(item.content or [])])
        calls = [(item.name, json.loads(item.arguments)) for item in response.output if item.type == "function_call"]
        end = response.incomplete_details.reason if response.status == "incomplete" else "ended"
        usage = response.usage
        usage = (usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens)
        return read(text, thoughts, calls, end, usage)


class Gemini:
    name = "google-genai"
    wire = "gemini"
    failure = errors.APIError

    def __init__(self, url, key):
        # The client must live as long as its models: it closes its connections when it is dropped.
        self.client = genai.Client(api_key=key, http_options=types.HttpOptions(base_url=url, api_version="v1beta"))

    def ask(self, model, exchange, stream):
        contents = []
        for turn in exchange.turns:
            parts = [types.Part(text=turn.text)]
            if turn.image:
                parts.append(types.Part.from_bytes(data=base64.b64decode(PIXEL), mime_type="image/png"))
            for id, name, given, _ in turn.calls:
                call = types.FunctionCall(id=id, name=name, args=given)
                parts.append(types.Part(function_call=call, thought_signature=self.unsigned(turn, id)))
            contents.append(types.Content(role="user" if turn.role == "user" else "model", parts=parts))
            results = [
                types.Part(function_response=types.FunctionResponse(id=id, name=name, response={"output": result}))
                for id, name, _, result in turn.calls
            ]
            if results:
                contents.append(types.Content(role="user", parts=results))
        declarations = [
            types.FunctionDeclaration(name=name, description=name, parameters_json_schema=schema) for name, schema in TOOLS.items()
        ]
        config = types.GenerateContentConfig(
            system_instruction=exchange.system,
            temperature=exchange.temperature,
            max_output_tokens=1000,
            tools=[types.Tool(function_declarations=declarations)] if exchange.offers_tools else None,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            thinking_config=types.ThinkingConfig(include_thoughts=True),
        )
        request = {"model": model, "contents": contents, "config": config}
        models = self.client.models
        chunks = list(models.generate_content_stream(**request)) if stream else [models.generate_content(**request)]
        parts = [part for chunk in chunks for candidate in chunk.candidates or [] for part in (candidate.content and candidate.content.parts) or []]
        text = "".join(part.text for part in parts if part.text and not part.thought)
        thoughts = "".join(part.text for part in parts if part.text and part.thought)
        calls = [(part.function_call.name, part.function_call.args or {}) for part in parts if part.function_call]
        ends = [candidate.finish_reason for chunk in chunks for candidate in chunk.candidates or [] if candidate.finish_reason]
        if not ends:
            raise ValueError("the stream is incomplete")
        usage = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata][-1]
        output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
        usage = (usage.prompt_token_count, usage.cached_content_token_count or 0, output)
        return read(text, thoughts, calls, ends[-1].value, usage)

    @staticmethod
    def unsigned(turn, id):
        """The signature that Gemini documents for calls of other models: the first one of a step has one."""
        return b"skip_thought_signature_validator" if turn.calls[0][0] == id else None


CALLERS = [Messages, Gemini, Responses, Chat]
