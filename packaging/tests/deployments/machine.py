"""What containers would bring: servers of their own, users, addresses, and files in their places."""

import contextlib
import fcntl
import http.client
import json
import os
import pwd
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import checks

AGENTD = os.environ["AGENTD"]
# The user of the image, and its environment.
USER = 65532
ENVIRONMENT = {"PATH": "/usr/bin", "AGENT_HOME": "/data"}
PATIENCE = 60


def put(path, content, owner=0, mode=0o644):
    """Writes a file, with the folders that it needs."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.chmod(path, mode)
    os.chown(path, owner, owner)
    return path


def state_folder(path):
    """An empty folder of the image's user, as a volume has it."""
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    os.chown(path, USER, USER)


def as_user(user, command):
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--", *map(str, command)]


@contextlib.contextmanager
def process(command, ends=signal.SIGTERM, code=0, seconds=PATIENCE, env=None, cwd=None, ready=None):
    """Runs a program meanwhile; it must end with `code`, `seconds` after the signal at most."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    child = subprocess.Popen(command, env=env, cwd=cwd, **pipes)
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(child.stdout), daemon=True)
    reader.start()
    output = lambda: b"".join(lines).decode(errors="replace")[-2000:]
    try:
        if ready:
            wait(ready, lambda: f"{command}: {output()}", child)
        yield child
    except BaseException:
        child.kill()
        raise
    child.send_signal(ends)
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        raise AssertionError(f"{command} does not end within {seconds} seconds: {output()}") from None
    checks.expect(child.returncode == code, f"{command} ends with {child.returncode}: {output()}")


def wait(condition, what, child=None):
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > PATIENCE or (child and child.poll() is not None):
            raise AssertionError(f"is not ready: {what()}")
        time.sleep(0.05)


def accepts(host, port):
    def connect():
        with contextlib.suppress(OSError), socket.create_connection((host, port), 1):
            return True
        return False

    return connect


def status(host, port, path):
    """The status of a GET, as a probe sees it; 0 if there is no answer."""
    try:
        return ask(host, port, "GET", path)[0]
    except OSError:
        return 0


def ask(host, port, method, path, key=None, body=None, authority=None):
    """Status and text of an answer, with TLS if there is an authority for it."""
    if authority:
        context = ssl.create_default_context(cafile=authority)
        connection = http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    connection.request(method, path, json.dumps(body) if body else None, headers)
    response = connection.getresponse()
    return response.status, response.read().decode()


@contextlib.contextmanager
def postgres(place, user, database, password):
    """A server on port 5432 that asks for passwords, as its image begins."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    checks.expect(versions, "PostgreSQL is not installed: `cargo xtask test` does it")
    programs = versions[-1].parent
    data = Path(place) / "postgres"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    words = put(data / "password", password)
    who = pwd.getpwnam("postgres")
    for path in (data, words):
        os.chown(path, who.pw_uid, who.pw_gid)
    cluster = data / "data"
    initdb = [programs / "initdb", "--no-sync", "--auth=scram-sha-256", f"--username={user}", f"--pwfile={words}", "-D", cluster]
    checks.run(*as_user(who.pw_uid, initdb), cwd=data)
    settings = ["listen_addresses=*", f"unix_socket_directories={data}", "fsync=off"]
    server = [programs / "postgres", "-D", cluster, *[part for s in settings for part in ("-c", s)]]
    env = {**os.environ, "PGPASSWORD": password}
    ready = [programs / "pg_isready", "--host=localhost", f"--username={user}"]
    is_ready = lambda: subprocess.run(ready, stdout=subprocess.DEVNULL).returncode == 0
    with process(as_user(who.pw_uid, server), ends=signal.SIGINT, ready=is_ready):
        if database != "postgres":
            create = [programs / "createdb", "--host=localhost", f"--username={user}", "--maintenance-db=postgres", database]
            checks.run(*create, env=env)
        yield


@contextlib.contextmanager
def models():
    """A model server on port 9000 of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if asked.get("stream"):
                return self.stream()
            usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
            message = {"role": "assistant", "content": f"with {self.headers['authorization']}"}
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            answer = json.dumps({"object": "chat.completion", "choices": choices, "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def stream(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            delta = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "hello"}}]}
            self.wfile.write(f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n".encode())

        def do_GET(self):
            self.send_error(500)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 9000), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield "http://127.0.0.1:9000/v1"
    finally:
        server.shutdown()
        server.server_close()


def add_address(address, number):
    """Gives the loopback interface another address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        of = struct.pack("16sHH4s8x", f"lo:{number}".encode(), socket.AF_INET, 0, socket.inet_aton(address))
        SIOCSIFADDR = 0x8916
        fcntl.ioctl(control, SIOCSIFADDR, of)
