"""The Helm chart, the compose file and the alerts of the gateway: rendered by Helm and read by the types of the compose
specification, compared with the schemas of Kubernetes, and run as far as that is possible without a cluster and without
containers: one line for each check, and a count at the end.

Everything runs in a network and a file system of its own, so that services have the ports, paths and
names that they have in containers. Environment: AGENTD (the program). Needs root, like the installers of packages.
"""

import fcntl
import os
import shutil
import socket
import struct
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))
INSIDE = "DEPLOYMENTS_PLACE"
SIOCSIFFLAGS = 0x8914


def enter():
    """Starts this script again in a network and a file system of its own."""
    place = Path(tempfile.mkdtemp(prefix="deployments-", dir="/tmp"))
    os.chmod(place, 0o755)
    etc = place / "etc"
    shutil.copytree("/etc", etc, symlinks=True, ignore_dangling_symlinks=True, ignore=unreadable)
    names = "postgres redis gateway.example store.internal limits.internal models.example"
    (etc / "hosts").write_text(f"127.0.0.1 localhost {names}\n")
    (etc / "agentd/secrets").mkdir(parents=True)
    os.environ[INSIDE] = str(place)
    command = ["unshare", "--net", "--mount", "--propagation=private", "--fork", "--kill-child"]
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


def furnish(place):
    """Covers the folders that services write, and switches on the loopback interface."""
    checks.run("mount", "--bind", str(place / "etc"), "/etc")
    for folder in ("/run", "/var/lib", "/var/log"):
        checks.run("mount", "-t", "tmpfs", "tmpfs", folder)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        up = 1
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", up))


def unreadable(folder, names):
    return [name for name in names if not os.access(os.path.join(folder, name), os.R_OK) or name == "systemd"]


if INSIDE not in os.environ:
    enter()

import alerts  # noqa: E402
import chart  # noqa: E402
import checks  # noqa: E402
import compose  # noqa: E402

place = Path(os.environ[INSIDE])
furnish(place)
try:
    helm = chart.helm(place)
    version = checks.run(helm, "version", "--template", "{{.Version}}").strip()
    print(f"client Helm {version} on Python {sys.version.split()[0]}", flush=True)
    chart.check(ROOT, place, helm)
    for page in compose.check(ROOT, place):
        alerts.check(ROOT, page)
finally:
    # Its `etc` is mounted here, so it can only be emptied.
    shutil.rmtree(place, ignore_errors=True)
checks.end()
