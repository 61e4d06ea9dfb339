"""Runs turns of `agentd exec` with the offline model against a collector of a package (Rotel), over each
encoding, and checks what the collector prints of what it received. The argument is the program `agentd`; one
line a check, `PASS` or `FAIL` and its name."""

import importlib.util
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

# The names of the conventions that every encoding has to deliver.
TRACES = [
    "invoke_agent agentd",
    "chat ",
    "gen_ai.operation.name",
    "gen_ai.conversation.id",
    "gen_ai.usage.input_tokens",
    "gen_ai.request.model",
    "deployment.environment.name",
    "https://opentelemetry.io/schemas/1.41.0",
]
LOGS = ["agentd.model_request", "agentd.user_prompt", "agentd.turn"]
METRICS = ["gen_ai.client.operation.duration"]
# What is in no name, and was not asked for.
PROMPT = "umbrella-of-the-prompt"
SECONDS = 20


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def collector(folder, http, grpc):
    package = pathlib.Path(importlib.util.find_spec("rotel").origin).parent
    log = open(folder / "collector.log", "wb")
    arguments = [package / "rotel-agent", "start", "--exporter", "blackhole"]
    arguments += ["--otlp-http-endpoint", f"127.0.0.1:{http}", "--otlp-grpc-endpoint", f"127.0.0.1:{grpc}"]
    for signal in ["traces", "logs", "metrics"]:
        arguments += ["--debug-log", signal]
    arguments += ["--debug-log-verbosity", "detailed", "--pid-file", folder / "pid"]
    return subprocess.Popen(arguments, stdout=log, stderr=log)


def until(is_so):
    """Whether it became so in time."""
    end = time.monotonic() + SECONDS
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def turn(agentd, folder, exporter):
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    keys = [f"{key} = {exporter}" for key in ["exporter", "trace_exporter", "metrics_exporter"]]
    (home / "config.toml").write_text("\n".join(['model_provider = "offline"', "[otel]", *keys, ""]))
    command = [agentd, "exec", "--skip-git-repo-check", PROMPT]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "AGENT_HOME": str(home)}
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, timeout=60)
    if done.returncode != 0:
        print(done.stderr.decode(errors="replace"), file=sys.stderr)
    return done.returncode == 0


def check(name, is_so):
    print("PASS" if is_so else "FAIL", name)
    return is_so


def main(agentd):
    for name in ["binary", "json", "grpc"]:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            http, grpc = free_port(), free_port()
            running = collector(folder, http, grpc)
            try:
                ready = until(lambda: listens(http) and listens(grpc))
                check(f"{name}: the collector listens", ready)
                exporter = f'{{ otlp-http = {{ endpoint = "http://127.0.0.1:{http}", protocol = "{name}" }} }}'
                if name == "grpc":
                    exporter = f'{{ otlp-grpc = {{ endpoint = "http://127.0.0.1:{grpc}" }} }}'
                check(f"{name}: the turn ends", turn(agentd, folder, exporter))
                text = lambda: (folder / "collector.log").read_text(errors="replace")
                for wanted in [*TRACES, *LOGS, *METRICS]:
                    check(f"{name}: {wanted}", until(lambda: wanted in text()))
                check(f"{name}: no prompt", PROMPT not in text())
                if os.environ.get("SHOW"):
                    print(text(), file=sys.stderr)
            finally:
                running.terminate()
                running.wait(10)


main(sys.argv[1])
