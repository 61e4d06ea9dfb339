"""The official Python client against the gateway: one line for each check, and a count at the end.

Environment: GATEWAY_URL (without /v1), GATEWAY_ADMIN_TOKEN. Ends with 1 when a check failed.
"""

import io
import json
import os
import platform
import sys
import threading
import time
import urllib.request
from types import SimpleNamespace

import openai
from openai import OpenAI

URL = os.environ["GATEWAY_URL"]
TOKEN = os.environ["GATEWAY_ADMIN_TOKEN"]
WEATHER = {
    "name": "weather",
    "description": "The weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
TOOL = {"type": "function", "function": WEATHER}

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
            # The cause names the undocumented shape.
            reason = f"{type(error).__name__}: {error} {error.__cause__ or ''}"
            reason = " ".join(reason.split())[:600]
            line = sys.exc_info()[2].tb_next
            at = f" (line {line.tb_lineno})" if line else ""
            print(f"FAIL  {group}: {name}: {reason}{at}", flush=True)

    return run


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def refused(kind, code, param, call):
    """That `call` raises this error; gives it."""
    try:
        call()
    except kind as error:
        equal((type(error), error.code, error.param), (kind, code, param))
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


class Watched:
    """A client, and what came back to it: status, headers, and when."""

    def __init__(self, **options):
        self.answers, self.sent = [], []
        hooks = {"request": [self._send], "response": [self._answer]}
        http = openai.DefaultHttpxClient(event_hooks=hooks)
        self.client = OpenAI(http_client=http, **options)

    def _send(self, _request):
        self.sent.append(time.monotonic())

    def _answer(self, response):
        self.answers.append((response.status_code, response.headers, time.monotonic()))

    def statuses(self):
        return [status for status, _, _ in self.answers]


def metric(name, **labels):
    """The sum of a counter over all series with these labels."""
    with urllib.request.urlopen(f"{URL}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    series = [line for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
    return sum(float(line.rsplit(" ", 1)[1]) for line in series if all(w in line for w in wanted))


def options(**more):
    # The client then refuses responses of an undocumented shape.
    return {"base_url": f"{URL}/v1", "_strict_response_validation": True, **more}


def lenient(**more):
    """Where the documented shape cannot be kept; each use says why."""
    return options(**more, _strict_response_validation=False, max_retries=0)


print(f"client openai {openai.__version__} on Python {platform.python_version()}", flush=True)
administrator = OpenAI(**options(admin_api_key=TOKEN, max_retries=0))
organization = administrator.admin.organization
lenient_organization = OpenAI(**lenient(admin_api_key=TOKEN)).admin.organization


# Administration


@check("admin", "create a project")
def _():
    made.project = organization.projects.create(name="python").id


@check("admin", "create a service account with a key")
def _():
    account = organization.projects.service_accounts.create(made.project, name="tests")
    made.account, made.key = account.id, account.api_key.value
    equal(account.object, "organization.project.service_account")


if failed:
    print(f"0 checks could follow: without a key nothing can be asked\n{passed} passed, {failed} failed")
    sys.exit(1)
client = OpenAI(**options(api_key=made.key, max_retries=0))
loose = OpenAI(**lenient(api_key=made.key))


@check("admin", "retrieve, rename and list projects")
def _():
    equal(organization.projects.update(made.project, name="python client").name, "python client")
    equal(organization.projects.retrieve(made.project).name, "python client")
    assert made.project in [project.id for project in organization.projects.list()]


@check("admin", "archive a project")
def _():
    project = organization.projects.create(name="archived").id
    equal(organization.projects.archive(project).status, "archived")
    assert project not in [one.id for one in organization.projects.list()]
    listed = [one.id for one in organization.projects.list(include_archived=True, limit=1)]
    assert {project, made.project} <= set(listed), listed


@check("admin", "service accounts: retrieve, list, update, delete")
def _():
    accounts = organization.projects.service_accounts
    equal(accounts.retrieve(made.account, project_id=made.project).name, "tests")
    other = accounts.create(made.project, name="other")
    equal(accounts.update(other.id, project_id=made.project, name="second").name, "second")
    equal({one.id for one in accounts.list(made.project)}, {made.account, other.id})
    equal(accounts.delete(other.id, project_id=made.project).deleted, True)
    equal([one.id for one in accounts.list(made.project)], [made.account])
    deleted = OpenAI(**options(api_key=other.api_key.value, max_retries=0))
    refused(openai.AuthenticationError, "invalid_api_key", None, deleted.models.list)


@check("admin", "API keys: create a second one, retrieve, list, revoke")
def _():
    accounts, keys = organization.projects.service_accounts, organization.projects.api_keys
    second = accounts.api_keys.create(made.account, project_id=made.project, name="second")
    shown = keys.retrieve(second.id, project_id=made.project)
    assert shown.redacted_value != second.value and shown.redacted_value[-4:] == second.value[-4:]
    assert second.id in [key.id for key in keys.list(made.project)]
    user = OpenAI(**options(api_key=second.value, max_retries=0))
    user.models.list()
    equal(keys.delete(second.id, project_id=made.project).deleted, True)
    refused(openai.AuthenticationError, "invalid_api_key", None, user.models.list)


@check("admin", "admin keys: create, use, retrieve, list, delete")
def _():
    keys = organization.admin_api_keys
    key = keys.create(name="tests")
    bound = OpenAI(**options(admin_api_key=key.value, max_retries=0))
    equal(bound.admin.organization.projects.retrieve(made.project).id, made.project)
    equal(keys.retrieve(key.id).name, "tests")
    assert key.id in [one.id for one in keys.list()]
    equal(keys.delete(key.id).deleted, True)
    refused(openai.AuthenticationError, "invalid_api_key", None, lambda: bound.admin.organization.projects.retrieve(made.project))


@check("admin", "rate limits: list, update")
def _():
    limits = organization.projects.rate_limits
    # Null means unlimited; the documentation has only numbers.
    listed = lenient_organization.projects.rate_limits.list_rate_limits(made.project)
    listed = {limit.id: limit for limit in listed}
    equal(listed["rl-big-2026-08-01"].max_requests_per_1_minute, 10_000)
    changed = limits.update_rate_limit("rl-big-2026-08-01", project_id=made.project, max_tokens_per_1_minute=500_000)
    equal(changed.max_tokens_per_1_minute, 500_000)
    call = lambda: limits.update_rate_limit("rl-big-2026-08-01", project_id=made.project, max_tokens_per_1_minute=2_000_000)
    refused(openai.BadRequestError, "invalid_value", "max_tokens_per_1_minute", call)


@check("admin", "spend limits of organization and project: update, retrieve, delete")
def _():
    for scope, of in [(organization.spend_limit, []), (organization.projects.spend_limit, [made.project])]:
        limit = scope.update(*of, currency="USD", interval="month", threshold_amount=1_000)
        equal((limit.threshold_amount, limit.enforcement.status), (1_000, "inactive"))
        equal(scope.retrieve(*of).threshold_amount, 1_000)
        equal(scope.delete(*of).deleted, True)


@check("admin", "spend alerts of organization and project: create, update, retrieve, list, delete")
def _():
    mail = {"type": "email", "recipients": []}
    for scope, of in [
        (organization.spend_alerts, {}),
        (organization.projects.spend_alerts, {"project_id": made.project}),
    ]:
        money = {"currency": "USD", "interval": "month", "notification_channel": mail}
        alert = scope.create(**of, **money, threshold_amount=500)
        equal(scope.update(alert.id, **of, **money, threshold_amount=700).threshold_amount, 700)
        equal(scope.retrieve(alert.id, **of).threshold_amount, 700)
        assert alert.id in [one.id for one in scope.list(**of)]
        equal(scope.delete(alert.id, **of).deleted, True)


@check("admin", "data retention: retrieve, update")
def _():
    # The documentation has no name for the default.
    retention = lenient_organization.data_retention
    equal(retention.retrieve().type, "none")
    changed = organization.data_retention.update(retention_type="zero_data_retention")
    equal((changed.type, organization.data_retention.retrieve().type), ("zero_data_retention",) * 2)
    retention.update(retention_type="none")


@check("admin", "audit log: list by type, in pages")
def _():
    page = organization.audit_logs.list(event_types=["project.created", "project.updated"], limit=1)
    newest = page.data[0]
    assert newest.type in ("project.created", "project.updated"), newest
    assert made.project in [one.project.id for one in page], "the pages have every row"
    of_project = organization.audit_logs.list(project_ids=[made.project], event_types=["project.created"])
    equal([one.project_created.id for one in of_project], [made.project])
    equal((newest.actor.type, newest.actor.api_key.type), ("api_key", "service_account"))


@check("admin", "unsupported routes are a NotFoundError")
def _():
    refused(openai.NotFoundError, "unknown_url", None, lambda: organization.invites.list())
    refused(openai.NotFoundError, "unknown_url", None, lambda: organization.users.list())


# Models


@check("models", "list, with aliases and without models that were shut down")
def _():
    names = {model.id for model in client.models.list()}
    assert {"big", "big-2026-08-01", "embedding"} <= names, names
    assert "gone-2024-08-01" not in names, names


@check("models", "retrieve")
def _():
    model = client.models.retrieve("big")
    equal((model.id, model.object, model.alias_of), ("big", "model", "big-2026-08-01"))


# Responses


@check("responses", "create")
def _():
    response = client.responses.create(model="big", input="hello there")
    equal((response.status, response.model), ("completed", "big-2026-08-01"))
    assert "hello there" in response.output_text, response.output_text
    equal(response.usage.total_tokens, response.usage.input_tokens + response.usage.output_tokens)
    made.response = response.id


@check("responses", "create, streamed")
def _():
    events = list(client.responses.create(model="big", input="hello there", stream=True))
    equal((events[0].type, events[-1].type), ("response.created", "response.completed"))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    equal(text, events[-1].response.output_text)


@check("responses", "the client's own accumulation of a stream")
def _():
    with client.responses.stream(model="big", input="hello there") as stream:
        for _ in stream:
            pass
        response = stream.get_final_response()
    assert "hello there" in response.output_text, response.output_text


@check("responses", "a tool that must be called")
def _():
    tools = [{"type": "function", "strict": False, **WEATHER}]
    response = client.responses.create(
        model="big", input="the weather?", tools=tools, tool_choice="required", parallel_tool_calls=False
    )
    equal([(item.type, item.name) for item in response.output], [("function_call", "weather")])
    equal(response.parallel_tool_calls, False)


@check("responses", "a tool call, streamed")
def _():
    tools = [{"type": "function", "strict": False, **WEATHER}]
    asked = {"model": "big", "input": "the weather?", "tools": tools, "tool_choice": "required"}
    with client.responses.stream(**asked) as stream:
        kinds = [event.type for event in stream]
        call = stream.get_final_response().output[0]
    equal((call.name, call.arguments), ("weather", "{}"))
    assert "response.function_call_arguments.done" in kinds, kinds


@check("responses", "a conversation by previous_response_id")
def _():
    response = client.responses.create(model="big", input="and then?", previous_response_id=made.response)
    equal(response.previous_response_id, made.response)


@check("responses", "retrieve")
def _():
    response = client.responses.retrieve(made.response)
    equal((response.id, response.status), (made.response, "completed"))


@check("responses", "cancel one in the background")
def _():
    response = client.responses.create(model="big", input="take your time", background=True)
    equal(response.status, "queued")
    equal(client.responses.cancel(response.id).status, "cancelled")


@check("responses", "poll one in the background")
def _():
    response = client.responses.create(model="big", input="take your time", background=True)
    for _ in range(20):
        if response.status == "completed":
            return
        response = client.responses.retrieve(response.id)
    raise AssertionError(response.status)


@check("responses", "compact")
def _():
    items = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good morning"}]
    # The documentation shows the user's messages in the output; the client's types do not have them.
    compacted = loose.responses.compact(model="big", input=items)
    equal((compacted.object, compacted.output[-1].type), ("response.compaction", "compaction"))


@check("responses", "count the tokens of an input")
def _():
    assert client.responses.input_tokens.count(model="big", input="hello there").input_tokens > 0


@check("responses", "delete")
def _():
    client.responses.delete(made.response)
    refused(openai.NotFoundError, "not_found", None, lambda: client.responses.retrieve(made.response))


@check("responses", "moderation, service tier and cache retention pass")
def _():
    response = client.responses.create(model="big", input="hello", service_tier="priority", extra_body={"moderation": {"model": "moderation-2026-08-01"}})
    equal((response.service_tier, response.prompt_cache_retention), ("fast", "24h"))
    assert response.moderation, response


# Chat completions

QUESTION = [{"role": "user", "content": "hello there"}]


@check("chat completions", "create")
def _():
    completion = client.chat.completions.create(model="big", messages=QUESTION)
    choice = completion.choices[0]
    equal((completion.object, choice.finish_reason), ("chat.completion", "stop"))
    assert "hello there" in choice.message.content, choice.message.content
    usage = completion.usage
    equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)


@check("chat completions", "several choices, cut by max_completion_tokens")
def _():
    completion = client.chat.completions.create(model="big", messages=QUESTION, n=2, max_completion_tokens=3)
    equal([choice.finish_reason for choice in completion.choices], ["length", "length"])


@check("chat completions", "streamed without usage")
def _():
    chunks = list(client.chat.completions.create(model="big", messages=QUESTION, stream=True))
    assert all(chunk.choices and chunk.usage is None for chunk in chunks), chunks[-1]
    equal(chunks[-1].choices[0].finish_reason, "stop")


@check("chat completions", "streamed with include_usage")
def _():
    asked = {"include_usage": True}
    chunks = list(client.chat.completions.create(model="big", messages=QUESTION, stream=True, stream_options=asked))
    equal(chunks[-1].choices, [])
    assert chunks[-1].usage.total_tokens > 0
    assert all(chunk.usage is None for chunk in chunks[:-1])


@check("chat completions", "the client's own accumulation of a stream")
def _():
    with client.chat.completions.stream(model="big", messages=QUESTION) as stream:
        for _ in stream:
            pass
        completion = stream.get_final_completion()
    assert "hello there" in completion.choices[0].message.content


@check("chat completions", "a stream that is left early")
def _():
    with client.chat.completions.create(model="big", messages=QUESTION, stream=True) as stream:
        next(iter(stream))


def called(completion):
    message = completion.choices[0].message
    return [call.function.name for call in message.tool_calls or []]


@check("chat completions", "tool_choice required, named, none; parallel_tool_calls")
def _():
    named = {"type": "function", "function": {"name": "weather"}}
    for choice, expected in [("required", ["weather"]), (named, ["weather"]), ("none", []), ("auto", [])]:
        completion = client.chat.completions.create(
            model="big", messages=QUESTION, tools=[TOOL], tool_choice=choice, parallel_tool_calls=False
        )
        equal(called(completion), expected)


@check("chat completions", "a tool call, streamed, and its result")
def _():
    with client.chat.completions.stream(model="big", messages=QUESTION, tools=[TOOL], tool_choice="required") as stream:
        for _ in stream:
            pass
        message = stream.get_final_completion().choices[0].message
    call = message.tool_calls[0]
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    asked = {"role": "assistant", "tool_calls": [{"id": call.id, "type": "function", "function": {"name": "weather", "arguments": call.function.arguments}}]}
    completion = client.chat.completions.create(model="big", messages=[*QUESTION, asked, result], tools=[TOOL])
    equal(completion.choices[0].finish_reason, "stop")


@check("chat completions", "JSON mode")
def _():
    completion = client.chat.completions.create(model="big", messages=QUESTION, response_format={"type": "json_object"})
    json.loads(completion.choices[0].message.content)


@check("chat completions", "the older completions")
def _():
    completion = client.completions.create(model="big", prompt=["one", "two"])
    equal([choice.index for choice in completion.choices], [0, 1])


# Embeddings, moderations


@check("embeddings", "create, a text and a list")
def _():
    # The client requests base64, which its own types do not have.
    one = loose.embeddings.create(model="embedding", input="hello")
    two = loose.embeddings.create(model="embedding", input=["hello", "there"], dimensions=64)
    equal((len(one.data), len(two.data), len(two.data[1].embedding)), (1, 2, 64))


@check("embeddings", "as floats instead of base64")
def _():
    vector = client.embeddings.create(model="embedding", input="hello", encoding_format="float").data[0].embedding
    # The client itself decodes to the same values.
    other = loose.embeddings.create(model="embedding", input="hello").data[0].embedding
    assert max(abs(a - b) for a, b in zip(vector, other, strict=True)) < 1e-6


@check("moderations", "create, with a model and with the default")
def _():
    equal(client.moderations.create(model="moderation-2026-08-01", input="hello").results[0].flagged, False)
    equal(len(client.moderations.create(input=["hello", "there"]).results), 2)


# Images, audio


@check("images", "generate")
def _():
    answer = client.images.generate(model="image-2026-08-01", prompt="a house", n=2, background="transparent")
    assert len(answer.data) == 2 and all(image.b64_json for image in answer.data)


@check("images", "generate, streamed")
def _():
    events = list(client.images.generate(model="image-2026-08-01", prompt="a house", stream=True, partial_images=2))
    kinds = ["image_generation.partial_image"] * 2 + ["image_generation.completed"]
    equal([event.type for event in events], kinds)


@check("images", "edit")
def _():
    image = ("house.png", io.BytesIO(b"\x89PNG\r\n\x1a\n"), "image/png")
    answer = client.images.edit(model="image-2026-08-01", image=image, prompt="with a garden")
    assert answer.data[0].b64_json


@check("images", "a transparent JPEG is a BadRequestError")
def _():
    call = lambda: client.images.generate(model="image-2026-08-01", prompt="x", background="transparent", output_format="jpeg")
    refused(openai.BadRequestError, "invalid_value", "background", call)


@check("audio", "speech")
def _():
    made.sound = client.audio.speech.create(model="speech-2026-08-01", voice="alloy", input="hello", response_format="wav").read()
    equal(made.sound[:4], b"RIFF")


@check("audio", "speech, streamed to a file")
def _():
    speech = client.audio.speech.with_streaming_response
    with speech.create(model="speech-2026-08-01", voice="alloy", input="hello", response_format="pcm") as answer:
        assert sum(len(piece) for piece in answer.iter_bytes()) > 0


@check("audio", "transcription, as JSON, text and verbose JSON")
def _():
    transcriptions, model = client.audio.transcriptions, "transcription-2026-08-01"
    sound = ("hello.wav", made.sound)
    assert transcriptions.create(model=model, file=sound).text
    assert transcriptions.create(model=model, file=sound, response_format="text")
    assert transcriptions.create(model=model, file=sound, response_format="verbose_json").segments


@check("audio", "transcription, streamed")
def _():
    events = list(client.audio.transcriptions.create(model="transcription-2026-08-01", file=("a.wav", made.sound), stream=True))
    equal(events[-1].type, "transcript.text.done")


@check("audio", "translation")
def _():
    assert client.audio.translations.create(model="transcription-2026-08-01", file=("a.wav", made.sound)).text


# Files, vector stores


@check("files", "upload, retrieve, list, content, delete")
def _():
    file = client.files.create(file=("notes.txt", b"some notes"), purpose="user_data")
    equal((file.filename, file.bytes, file.purpose), ("notes.txt", 10, "user_data"))
    equal(client.files.retrieve(file.id).id, file.id)
    assert file.id in [one.id for one in client.files.list(purpose="user_data")]
    equal(client.files.content(file.id).read(), b"some notes")
    equal(client.files.delete(file.id).deleted, True)
    refused(openai.NotFoundError, "not_found", None, lambda: client.files.retrieve(file.id))


@check("files", "list over several pages")
def _():
    files = [client.files.create(file=(f"{n}.txt", b"page"), purpose="user_data").id for n in range(5)]
    listed = [file.id for file in client.files.list(limit=2, purpose="user_data")]
    assert set(files) <= set(listed) and len(listed) == len(set(listed)), listed
    made.files = files


@check("vector stores", "create, retrieve, update, list")
def _():
    store = client.vector_stores.create(name="notes")
    equal(client.vector_stores.retrieve(store.id).name, "notes")
    equal(client.vector_stores.update(store.id, name="papers").name, "papers")
    assert store.id in [one.id for one in client.vector_stores.list()]
    made.store = store.id


@check("vector stores", "files: add and poll, retrieve, list, remove")
def _():
    files = client.vector_stores.files
    equal(files.create_and_poll(made.files[0], vector_store_id=made.store).status, "completed")
    equal(files.retrieve(made.files[0], vector_store_id=made.store).id, made.files[0])
    equal([file.id for file in files.list(made.store)], [made.files[0]])
    equal(files.delete(made.files[0], vector_store_id=made.store).deleted, True)


@check("vector stores", "file batches: add and poll, retrieve, list files, upload")
def _():
    batches = client.vector_stores.file_batches
    batch = batches.create_and_poll(made.store, file_ids=made.files[:3])
    equal((batch.status, batch.file_counts.completed), ("completed", 3))
    equal(batches.retrieve(batch.id, vector_store_id=made.store).id, batch.id)
    equal({file.id for file in batches.list_files(batch.id, vector_store_id=made.store)}, set(made.files[:3]))
    uploaded = batches.upload_and_poll(made.store, files=[("a.txt", b"a"), ("b.txt", b"b")])
    equal(uploaded.file_counts.completed, 2)


@check("vector stores", "delete")
def _():
    equal(client.vector_stores.delete(made.store).deleted, True)
    refused(openai.NotFoundError, "not_found", None, lambda: client.vector_stores.retrieve(made.store))


# Batches


def batch_file(count, model="big"):
    line = lambda n: {"custom_id": f"line-{n}", "method": "POST", "url": "/v1/chat/completions", "body": {"model": model, "messages": [{"role": "user", "content": f"question {n}"}]}}
    text = "\n".join(json.dumps(line(n)) for n in range(count))
    return client.files.create(file=("batch.jsonl", text.encode()), purpose="batch")


def ended(batch):
    """The batch, when it runs no more."""
    deadline = time.monotonic() + 60
    while batch.status not in ("completed", "failed", "expired", "cancelled"):
        assert time.monotonic() < deadline, batch
        time.sleep(0.1)
        batch = client.batches.retrieve(batch.id)
    return batch


@check("batches", "create, wait until completed, read the output file")
def _():
    file = batch_file(20)
    equal((file.purpose, client.files.retrieve(file.id).filename), ("batch", "batch.jsonl"))
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"by": "tests"})
    batch = ended(batch)
    counts = batch.request_counts
    equal((batch.status, counts.completed, counts.failed, batch.metadata), ("completed", 20, 0, {"by": "tests"}))
    lines = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
    equal({line["custom_id"] for line in lines}, {f"line-{n}" for n in range(20)})
    assert all(line["response"]["status_code"] == 200 for line in lines)
    made.batch, made.batch_file = batch.id, file.id


@check("batches", "failed lines are in the error file")
def _():
    batch = ended(client.batches.create(input_file_id=batch_file(2, "no-such-model").id, endpoint="/v1/chat/completions", completion_window="24h"))
    if batch.status == "failed":
        assert batch.errors.data[0].code, batch
        return
    lines = client.files.content(batch.error_file_id).text.splitlines()
    equal((batch.request_counts.failed, len(lines)), (2, 2))


@check("batches", "cancel")
def _():
    batch = client.batches.create(input_file_id=batch_file(2000).id, endpoint="/v1/chat/completions", completion_window="24h")
    assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    equal(ended(batch).status, "cancelled")


@check("batches", "list, and retrieve an unknown batch")
def _():
    assert made.batch in [batch.id for batch in client.batches.list(limit=1)]
    call = lambda: client.batches.retrieve("batch_unknown")
    equal(refused(openai.NotFoundError, "not_found", None, call).status_code, 404)


@check("batches", "files of batches: list, delete")
def _():
    assert made.batch_file in [file.id for file in client.files.list(purpose="batch")]
    equal(client.files.delete(made.batch_file).deleted, True)
    refused(openai.NotFoundError, "not_found", None, lambda: client.files.retrieve(made.batch_file))


# Headers, errors


@check("headers", "with_raw_response shows the limits")
def _():
    raw = client.chat.completions.with_raw_response.create(model="big", messages=QUESTION)
    headers = raw.headers
    equal(headers["x-ratelimit-limit-requests"], "10000")
    equal(headers["x-ratelimit-limit-tokens"], "1000000")
    equal(headers["x-ratelimit-limit-project-tokens"], "500000")
    assert int(headers["x-ratelimit-remaining-requests"]) < 10_000
    assert headers["x-ratelimit-reset-requests"].endswith("s")
    assert headers["x-request-id"] == raw.request_id and headers["openai-processing-ms"]
    equal(headers["openai-organization"], "org-default")
    equal(raw.parse().object, "chat.completion")


@check("headers", "deprecation and shutdown headers")
def _():
    headers = client.responses.with_raw_response.create(model="leaving-2025-08-01", input="x").headers
    equal(headers["sunset"], "Thu, 01 Jan 2099 00:00:00 GMT")
    assert headers["deprecation"].startswith("@") and "successor-version" in headers["link"], headers


@check("headers", "organization and project of the client")
def _():
    options_of = lambda **more: OpenAI(**options(api_key=made.key, max_retries=0, **more))
    options_of(organization="org-default", project=made.project).models.list()
    refused(openai.AuthenticationError, "mismatched_organization", None, options_of(organization="org-other").models.list)
    refused(openai.AuthenticationError, "mismatched_project", None, options_of(project="proj_other").models.list)


@check("errors", "AuthenticationError")
def _():
    wrong = OpenAI(**options(api_key="sk-wrong", max_retries=0))
    error = refused(openai.AuthenticationError, "invalid_api_key", None, wrong.models.list)
    assert error.status_code == 401 and error.request_id


@check("errors", "NotFoundError: unknown model, and one that was shut down")
def _():
    ask = lambda model: lambda: client.responses.create(model=model, input="x")
    refused(openai.NotFoundError, "model_not_found", None, ask("no-such-model"))
    error = refused(openai.NotFoundError, "model_not_found", None, ask("gone-2024-08-01"))
    assert "2026-01-01" in error.message and "big-2026-08-01" in error.message, error.message


@check("errors", "NotFoundError: retired interfaces")
def _():
    refused(openai.NotFoundError, "endpoint_retired", None, lambda: client.get("/assistants", cast_to=object))


@check("errors", "BadRequestError with code and param")
def _():
    ask = lambda **more: lambda: client.chat.completions.create(messages=QUESTION, **more)
    refused(openai.BadRequestError, "invalid_value", "max_tokens", ask(model="big", max_tokens=-1))
    refused(openai.BadRequestError, "missing_required_parameter", "model", lambda: client.post("/responses", body={"input": "x"}, cast_to=object))


@check("errors", "a file of another project is a NotFoundError")
def _():
    project = organization.projects.create(name="other").id
    account = organization.projects.service_accounts.create(project, name="other")
    other = OpenAI(**options(api_key=account.api_key.value, max_retries=0))
    refused(openai.NotFoundError, "not_found", None, lambda: other.files.retrieve(made.files[0]))


# Limits and retries


def rejected():
    return metric("gateway_rejected_total")


def answered(status):
    return metric("gateway_requests_total", model="slow-2026-08-01", status=status)


@check("retries", "RateLimitError when the request limit is reached")
def _():
    def ask():
        for _ in range(200):
            client.responses.create(model="slow", input="x")

    error = refused(openai.RateLimitError, "rate_limit_exceeded", None, ask)
    equal((error.type, error.status_code), ("requests", 429))
    assert "on requests per min (RPM): Limit 30" in error.message, error.message
    headers = error.response.headers
    assert 0 < int(headers["retry-after-ms"]) <= 2000, headers
    assert int(headers["retry-after"]) in (1, 2), headers
    equal(headers["x-ratelimit-remaining-requests"], "0")


@check("retries", "the client waits for Retry-After, retries once and is served")
def _():
    before = rejected(), answered(429), answered(200)
    watched = Watched(**options(api_key=made.key, max_retries=3))
    watched.client.responses.create(model="slow", input="x")
    equal(watched.statuses(), [429, 200])
    _, headers, refused_at = watched.answers[0]
    promised, waited = int(headers["retry-after-ms"]) / 1000, watched.sent[1] - refused_at
    assert promised - 0.01 <= waited < promised + 1, f"promised {promised}, waited {waited}"
    after = rejected(), answered(429), answered(200)
    equal([b - a for a, b in zip(before, after)], [1, 1, 1])


@check("retries", "several concurrent clients wait for Retry-After and are all served")
def _():
    before = rejected(), answered(200)
    clients = [Watched(**options(api_key=made.key, max_retries=6)) for _ in range(4)]
    ask = lambda watched: watched.client.chat.completions.create(model="slow", messages=QUESTION)
    threads = [threading.Thread(target=ask, args=[watched]) for watched in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    statuses = [watched.statuses() for watched in clients]
    # Not always with one retry each: a later refusal also counts, and delays waiting clients.
    assert all(one == [429] * (len(one) - 1) + [200] for one in statuses), statuses
    refusals = sum(one.count(429) for one in statuses)
    assert refusals >= 3, statuses
    equal((rejected() - before[0], answered(200) - before[1]), (refusals, 4))


@check("retries", "a request above the whole limit is not retried")
def _():
    before = rejected()
    watched = Watched(**options(api_key=made.key, max_retries=3))
    call = lambda: watched.client.responses.create(model="big", input="x", max_output_tokens=900_000)
    error = refused(openai.RateLimitError, "rate_limit_exceeded", None, call)
    assert error.message and "Request too large" in error.message, error.message
    equal((error.type, error.response.headers["x-should-retry"]), ("tokens", "false"))
    assert "retry-after" not in error.response.headers
    equal((watched.statuses(), rejected() - before), ([429], 1))


@check("retries", "a request beyond the spend limit is not retried")
def _():
    organization.projects.spend_limit.update(made.project, currency="USD", interval="month", threshold_amount=1)
    watched = Watched(**options(api_key=made.key, max_retries=3))
    call = lambda: watched.client.responses.create(model="big", input="x", max_output_tokens=100_000)
    error = refused(openai.RateLimitError, "project_spend_limit_exceeded", None, call)
    equal((error.type, error.response.headers["x-should-retry"]), ("insufficient_quota", "false"))
    assert "retry-after" not in error.response.headers
    equal(watched.statuses(), [429])
    organization.projects.spend_limit.delete(made.project)
    client.responses.create(model="big", input="x")


# Usage: last, when there are requests to count.


def total(page, member):
    return sum(getattr(result, member) for bucket in page.data for result in bucket.results)


@check("usage", "completions, by model and project")
def _():
    start = int(time.time()) - 3600
    deadline = time.monotonic() + 10
    while True:
        page = organization.usage.completions(start_time=start, bucket_width="1d", group_by=["model", "project_id"])
        results = [result for bucket in page.data for result in bucket.results]
        mine = [one for one in results if one.project_id == made.project and one.model == "big-2026-08-01"]
        if mine and mine[0].num_model_requests >= 20:
            break
        # Rows are written in the background.
        assert time.monotonic() < deadline, results
        time.sleep(0.1)
    assert mine[0].input_tokens > 0 and mine[0].output_tokens > 0, mine


@check("usage", "embeddings, images, moderations, speech, transcriptions")
def _():
    start, usage = int(time.time()) - 3600, organization.usage
    # Characters of speech are not counted: null, where the documentation has a number.
    speeches = lenient_organization.usage.audio_speeches
    for page in [usage.embeddings, usage.images, usage.moderations, speeches, usage.audio_transcriptions]:
        assert total(page(start_time=start), "num_model_requests") > 0, page
    assert total(usage.images(start_time=start), "images") >= 3
    assert total(usage.audio_transcriptions(start_time=start), "seconds") > 0


@check("usage", "vector stores")
def _():
    # Only the upstream knows the size of a store: null, where the documentation has a number.
    usage = lenient_organization.usage
    equal(usage.vector_stores(start_time=int(time.time()) - 3600).object, "page")


@check("usage", "costs in dollars")
def _():
    page = organization.usage.costs(start_time=int(time.time()) - 3600, group_by=["project_id"])
    amounts = [result.amount for bucket in page.data for result in bucket.results]
    assert sum(amount.value for amount in amounts) > 0, amounts
    assert all(amount.currency == "usd" for amount in amounts), amounts


@check("admin", "archiving the project revokes its keys")
def _():
    organization.projects.archive(made.project)
    refused(openai.AuthenticationError, "invalid_api_key", None, client.models.list)


print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
