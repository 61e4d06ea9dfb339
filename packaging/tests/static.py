"""The packages with a static program: the tarball and the image in a root that has nothing but what they bring, and
the wheel and the package for npm as installers put them on a system with musl."""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request

from checks import check as checked, expect, run
from names import CHECKOUT, NPM, PYPI


def program(name):
    """The path of a program, which the PATH of what is started in a root would not find."""
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or name


# A user that may do nothing on this machine gets a root of its own.
IN_ROOT = [program("unshare"), "--user", "--map-root-user", program("chroot")]

MESSAGES = [
    {"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "t", "version": "1"}}},
    {"method": "initialized"},
    {"id": 1, "method": "thread/start", "params": {"modelProvider": "offline", "model": "echo"}},
]


def check(packages, folder):
    tarball(next(packages.glob("agentd-*-linux-*.tar.gz")), folder / "tarball")
    image(next(packages.glob("agentd-*-image-*.tar")), folder / "image")
    wheel(packages, folder / "wheel")
    npm(next(packages.glob("*-musl-*.tgz")), folder / "npm")


def tarball(path, folder):
    root = folder / "root"

    def unpack():
        for name in ("tmp", "home"):
            (root / name).mkdir(parents=True)
        run("tar", "--extract", "--file", path, "--directory", root, "--strip-components=1")
        for name in ("LICENSE", "share/man/man1/agentd.1", "share/bash-completion/completions/agentd"):
            expect((root / name).stat().st_size > 0, name)

    def turn():
        alone = {"HOME": "/home", "AGENT_HOME": "/home/agent", "PATH": "/bin"}
        server = subprocess.Popen(
            [*IN_ROOT, root, "/bin/agentd", "app-server"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **alone}, text=True,
        )
        try:
            run_turn(server)
        finally:
            server.stdin.close()
            expect(server.wait(30) == 0, f"exit code {server.returncode}")

    if checked("tarball", "unpacks with manual and completions", unpack):
        version = [*IN_ROOT, root, "/bin/agentd", "--version"]
        checked("tarball", "starts in a root without a library", lambda: run(*version))
        checked("tarball", "a turn in a root without a library", turn)


def run_turn(server):
    def send(message):
        server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()

    def receive(wanted):
        for line in server.stdout:
            message = json.loads(line)
            if wanted(message):
                return message
        raise AssertionError("the server ended")

    for message in MESSAGES:
        send(message)
    thread = receive(lambda message: message.get("id") == 1)["result"]["thread"]["id"]
    words = [{"type": "text", "text": "Hello"}]
    send({"id": 2, "method": "turn/start", "params": {"threadId": thread, "input": words}})
    ended = receive(lambda message: message.get("method") == "turn/completed")
    expect(ended["params"]["turn"]["status"] == "completed", ended)


def unpacker(path, folder, entrypoint="/usr/bin/agentd"):
    """A function that unpacks an image into `folder/root`, and checks what its files say about each other."""
    blobs, root = folder / "blobs", folder / "root"

    def read(descriptor):
        algorithm, name = descriptor["digest"].split(":")
        content = (blobs / "blobs" / algorithm / name).read_bytes()
        expect(len(content) == descriptor["size"], f"{name} has {len(content)} bytes")
        expect(hashlib.new(algorithm, content).hexdigest() == name, f"{name} has another digest")
        return content

    def unpack():
        blobs.mkdir(parents=True)
        run("tar", "--extract", "--file", path, "--directory", blobs)
        [described] = json.loads((blobs / "index.json").read_text())["manifests"]
        manifest = json.loads(read(described))
        configuration = json.loads(read(manifest["config"]))
        root.mkdir()
        for layer, digest in zip(manifest["layers"], configuration["rootfs"]["diff_ids"], strict=True):
            with tarfile.open(fileobj=io.BytesIO(read(layer))) as archive:
                archive.extractall(root, filter="data")
            plain = gzip.decompress(read(layer))
            expect(hashlib.sha256(plain).hexdigest() == digest.split(":")[1], "the layer's digest")
        expect(configuration["config"]["Entrypoint"] == [entrypoint], configuration)
        [docker] = json.loads((blobs / "manifest.json").read_text())
        expect((blobs / docker["Config"]).is_file() and (blobs / docker["Layers"][0]).is_file(), docker)

    return unpack


def image(path, folder):
    root = folder / "root"
    def gateway():
        alone = {**os.environ, "AGENT_HOME": "/data", "PATH": "/usr/bin"}
        server = subprocess.Popen(
            [*IN_ROOT, root, "/usr/bin/agentd", "gateway"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=alone,
        )
        try:
            lines = iter(server.stdout)
            url = next(line.split()[-1] for line in lines if "listening on http" in line)
            with urllib.request.urlopen(f"{url}/healthz", timeout=30) as answer:
                expect(answer.status == 200, answer.status)
        finally:
            server.terminate()
            expect(server.wait(60) == 0, f"exit code {server.returncode}")

    if checked("image", "digests and sizes are right in all files", unpacker(path, folder)):
        checked("image", "the gateway answers from its root alone", gateway)


def wheel(packages, folder):
    """pip installs for another system into a folder: this machine has glibc, and would refuse it."""
    target, processor = folder / "target", os.uname().machine

    def pip(library, **options):
        python = folder / "venv/bin/python"
        if not python.exists():
            run(sys.executable, "-m", "venv", folder / "venv")
        offline = ("--no-index", "--find-links", packages, "--no-deps", "--only-binary", ":all:")
        platform = ("--platform", f"{library}_{processor}", "--target", target)
        return run(python, "-m", "pip", "--isolated", "install", *offline, *platform, PYPI["program"], **options)

    def install():
        pip("musllinux_1_1")
        run(target / "bin/agentd", "--version")
        # Those with glibc have a wheel of their own.
        said = pip("manylinux2014", code=1)
        expect("No matching distribution" in said, said)

    checked("musl", "pip installs the wheel where the system has musl", install)


def npm(package, folder):
    project = folder / "project"
    launcher = project / "node_modules" / NPM["program"] / "agentd.js"

    def install():
        project.mkdir(parents=True)
        (project / "package.json").write_text('{ "private": true }')
        command = ("npm", "install", "--offline", "--no-audit", "--no-fund")
        said = run(*command, package, code=1, cwd=project)
        expect("EBADPLATFORM" in said, said)
        run(*command, "--libc=musl", package, cwd=project)

    def start():
        launcher.parent.mkdir(parents=True)
        shutil.copy(CHECKOUT / "packaging/npm/agentd.js", launcher)
        run("node", launcher, "--version", cwd=project)

    if checked("musl", "npm installs the program where the system has musl", install):
        checked("musl", "the launcher starts it", start)
