"""The official Python clients of the four wires, unmodified, through the gateway to a scripted model that speaks another
wire: one line for each check, and a count at the end.

Environment: AGENTD (the program). Ends with 1 when a check failed.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.metadata import version
from pathlib import Path
from random import Random

import comply
import generated
import turns
from callers import CALLERS

PACKAGES = ["anthropic", "google-genai", "llm-comply", "openai"]
WIRES = ["responses", "chat", "messages", "gemini"]
TOKEN = "admin-token-of-the-wires-0123456789"
# Of each pair of different wires, streamed and not: three pairs are 300 exchanges for a wire on either side.
EXCHANGES = 50
UPSTREAM_MODELS = {"messages": "claude-opus-4-6", "gemini": "gemini-3-pro"}

passed, failed, exchanged = 0, 0, 0
processes = []


def check(group, name, run, *arguments):
    """Runs a check. What it raises is why it failed."""
    global passed, failed
    try:
        run(*arguments)
        passed += 1
        print(f"ok    {group}: {name}", flush=True)
    except Exception as error:
        failed += 1
        reason = " ".join(f"{type(error).__name__}: {error} {error.__cause__ or ''}".split())[:900]
        print(f"FAIL  {group}: {name}: {reason}", flush=True)


def started(folder, *arguments):
    """Starts the program, and returns where it listens."""
    environment = {**os.environ, "HOME": str(folder)}
    command = [os.environ["AGENTD"], *map(str, arguments)]
    log = (folder / "log").open("a")
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    processes.append(process)
    for line in process.stdout:
        if line.startswith("listening on "):
            return line.split()[2].removesuffix("/v1")
    raise RuntimeError((folder / "log").read_text())


class Gateway:
    """A gateway with models of scripts, all of which speak one wire."""

    def __init__(self, folder, wire, scripts):
        folder.mkdir()
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(TOKEN)
        version = "v1beta" if wire == "gemini" else "v1"
        settings = ['listen = "127.0.0.1:0"', "[admin]", 'token_file = "token"']
        for name, script in scripts.items():
            (folder / f"{name}.json").write_text(json.dumps(script))
            server = started(folder, "model-server", "--script", folder / f"{name}.json")
            settings += [f"[upstreams.{name}]", f'base_url = "{server}/{version}"', f'wire = "{wire}"']
        limited = [turns.limited_model(caller.wire, stream) for caller in CALLERS for stream in (False, True)]
        models = {name: name for name in scripts if name != "limited"} | dict.fromkeys(limited, "limited")
        for name, upstream in models.items():
            settings += [f"[models.{name}]", f'upstream = "{upstream}"', f'upstream_model = "{UPSTREAM_MODELS.get(wire, "m")}"']
            settings += ["price = { input = 1.0, output = 10.0 }"]
        for name in limited:
            settings += [f"[tiers.free.limits.{name}]", "rpm = 1"]
        (folder / "gateway.toml").write_text("\n".join(settings))
        self.wire = wire
        self.models = list(models)
        self.url = started(folder, "gateway", "--config", folder / "gateway.toml")
        self.project = self.key = None

    def new_key(self):
        """A project of its own, whose usage is that of the next check."""
        self.project = self.admin("/organization/projects", {"name": "wires"})["id"]
        path = f"/organization/projects/{self.project}/service_accounts"
        self.key = self.admin(path, {"name": "wires"})["api_key"]["value"]
        return self.key

    def admin(self, path, body=None):
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + "/v1" + path, data, headers)) as answer:
            return json.load(answer)

    def used(self, requests):
        """Input, cached input and output of the project, once so many requests are in the ledger."""
        # Yesterday too, in case midnight passes.
        start = int(time.time()) // 86_400 * 86_400 - 86_400
        path = f"/organization/usage/completions?start_time={start}&project_ids={self.project}&bucket_width=1d&limit=2"
        deadline = time.monotonic() + 20
        while True:
            results = [result for bucket in self.admin(path)["data"] for result in bucket["results"]]
            names = ["input_tokens", "input_cached_tokens", "output_tokens", "num_model_requests"]
            *tokens, seen = [sum(result[name] for result in results) for name in names]
            if seen >= requests or time.monotonic() > deadline:
                assert seen == requests, f"{seen} requests are in the ledger, not {requests}"
                return tuple(tokens)
            time.sleep(0.02)


def all_generated(gateway, caller, model, exchanges, stream):
    """Each answer is what the script has, and the ledger has the sum of what the clients read."""
    global exchanged
    one = caller(gateway.url, gateway.new_key())
    sums = [0, 0, 0]
    for number, exchange in enumerate(exchanges):
        found = one.ask(model, exchange, stream)
        for part, expected in exchange.expected.items():
            assert found[part] == expected, f"exchange {number}: {part}: {found[part]!r} is not {expected!r}"
        sums = [sum + count for sum, count in zip(sums, found["usage"])]
        exchanged += 1
    turns.equal(gateway.used(len(exchanges)), tuple(sums))


def of_wire(folder, wire):
    others = [caller for caller in CALLERS if caller.wire != wire]
    groups = [(caller, stream) for caller in others for stream in (False, True)]
    made, scripts = {}, turns.SCRIPTS | comply.SCRIPTS
    for caller, stream in groups:
        random = Random(f"{wire} {caller.wire} {stream}")
        name = f"{caller.wire}-{'events' if stream else 'whole'}"
        made[name] = [generated.exchange(random) for _ in range(EXCHANGES)]
        scripts[name] = generated.script(made[name])
    gateway = Gateway(folder, wire, scripts)
    for caller, stream in groups:
        name = f"{caller.wire}-{'events' if stream else 'whole'}"
        title = f"{EXCHANGES} generated exchanges{', streamed' if stream else ''}"
        check(f"{caller.name} to {wire}", title, all_generated, gateway, caller, name, made[name], stream)
    for caller in comply.FORMATS:
        check(f"llm-comply ({caller}) to {wire}", "all of its tests", comply.complies, gateway, caller)
    for group, name, run, arguments in turns.checks(gateway):
        check(group, name, run, *arguments)


def main():
    names = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    print(f"client {names} on Python {platform.python_version()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for wire in WIRES:
            try:
                of_wire(Path(folder, wire), wire)
            finally:
                for process in processes:
                    process.terminate()
                    process.wait()
                    process.stdout.close()
                processes.clear()
    print(f"{exchanged} exchanges were generated", flush=True)
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


sys.exit(main())
