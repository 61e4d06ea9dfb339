"""Registries with a few packages on this machine: what npm and pip ask one when they install. They remember the names
that they were asked for."""

import base64
import hashlib
import http.server
import io
import json
import tarfile
import threading
import urllib.parse


class Registry:
    """Serves packages from files until it is left. It has no other packages."""

    def __init__(self, files):
        self.documents, self.files = {}, {path.name: path for path in files}
        self.asked = set()
        handler = type("Handler", (Handler,), {"registry": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        for path in files:
            self.add(path)

    def add(self, path):
        bytes_ = path.read_bytes()
        with tarfile.open(fileobj=io.BytesIO(bytes_)) as archive:
            manifest = json.load(archive.extractfile("package/package.json"))
        digest = base64.b64encode(hashlib.sha512(bytes_).digest()).decode()
        dist = {"tarball": f"{self.url}/-/{path.name}", "integrity": f"sha512-{digest}"}
        name, version = manifest["name"], manifest["version"]
        self.documents[name] = {
            "name": name,
            "dist-tags": {"latest": version},
            "versions": {version: {**manifest, "dist": dist}},
        }

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Index(Registry):
    """The same for pip: a page for each name, with links to its wheels."""

    def add(self, path):
        name = path.name.split("-")[0].replace("_", "-")
        link = f'<a href="/-/{path.name}">{path.name}</a>'
        self.documents[name] = self.documents.get(name, "<!DOCTYPE html>") + link


class Handler(http.server.BaseHTTPRequestHandler):
    registry: Registry

    def do_GET(self):
        name = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).strip("/")
        if name.startswith("-/"):
            file = self.registry.files.get(name.removeprefix("-/"))
            self.answer(404, b"") if file is None else self.answer(200, file.read_bytes())
            return
        self.registry.asked.add(name)
        document = self.registry.documents.get(name)
        if document is None:
            self.answer(404, b"{}")
        elif isinstance(document, str):
            self.answer(200, document.encode(), "text/html")
        else:
            self.answer(200, json.dumps(document).encode())

    def answer(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Its requests are no lines of the checks."""
