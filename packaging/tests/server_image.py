"""The image of the application server: unpacked, and used as its user, in a root of its own."""

import os

from checks import check as checked, expect, run
from debian import ENTER
from static import unpacker


def check(packages, folder):
    [path] = packages.glob("agentd-app-server-*-image-*.tar")
    root = folder / "root"

    def inside(*command):
        clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/home/agent"}
        user = ["setpriv", "--reuid", "65532", "--regid", "65532", "--clear-groups"]
        return run("unshare", "--mount", "--fork", "sh", "-c", ENTER, "enter", root, *user, *command, env=clean)

    def system():
        for program in ("git", "bash"):
            expect(os.access(root / "usr/bin" / program, os.X_OK), f"{program} is missing")
        expect((root / "etc/ssl/certs/ca-certificates.crt").stat().st_size > 0, "no certificates")
        left = list((root / "var/lib/apt/lists").iterdir()) + list((root / "var/cache/apt").iterdir())
        expect(not left, left)

    def tokens():
        said = inside("sh", "-c", "! agentd app-server --listen ws://0.0.0.0:4500 2>&1")
        expect("--ws-auth" in said, said)

    if not checked("server image", "digests and sizes are right in all files", unpacker(path, folder)):
        return
    checked("server image", "has what commands need, and no caches", system)
    checked("server image", "agentd demo, as its user, in the sandbox", lambda: inside("agentd", "demo"))
    checked("server image", "does not listen without a token", tokens)
