"""The Debian package, in a new Debian of its own. Needs root and the program debootstrap; is left out, and
says so, without them."""

import os
import shutil

from checks import check as checked, expect, run

# In a root of its own rather than chroot: the sandbox of commands needs that.
ENTER = """
set -e
mount --bind "$1" "$1"
cd "$1"
mkdir -p old
mount --rbind /dev dev
mount -t proc proc proc
mount -t tmpfs tmpfs tmp
pivot_root . old
umount -l old
shift
exec "$@"
"""


def check(packages, folder):
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        print("the Debian package is not installed: that needs root and `debootstrap`", flush=True)
        return
    package = next(packages.glob("*.deb"))
    root = folder / "root"

    def inside(*command, **options):
        clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        entered = ["unshare", "--mount", "--fork", "sh", "-c", ENTER, "enter", root, *command]
        return run(*entered, env=clean, **options)

    def as_user(*command):
        return inside("runuser", "--login", "tester", "--command", " ".join(command))

    def bootstrap():
        include = "--include=adduser,libgcc-s1"
        codename, place = mirror()
        run("debootstrap", "--variant=minbase", include, codename, root, place, seconds=900)

    def install():
        shutil.copy(package, root / "agentd.deb")
        inside("dpkg", "--install", "/agentd.deb")
        inside("adduser", "--disabled-password", "--gecos", "", "tester")

    def files():
        listed = inside("dpkg", "--listfiles", "agentd")
        for path in (
            "/usr/bin/agentd",
            "/usr/share/man/man1/agentd.1.gz",
            "/usr/share/bash-completion/completions/agentd",
            "/usr/share/zsh/vendor-completions/_agentd",
            "/usr/share/fish/vendor_completions.d/agentd.fish",
            "/usr/lib/systemd/user/agentd.socket",
            "/usr/lib/systemd/system/agentd-gateway.service",
        ):
            expect(f"{path}\n" in listed, f"{path} is not among {listed}")
        expect("ok" in inside("sh", "-c", "dpkg --verify agentd && echo ok"), "a file differs")

    def gateway():
        said = inside("stat", "--format=%U:%G %a", "/etc/agentd/gateway.toml")
        expect(said.strip() == "root:agentd-gateway 640", said)
        check_it = "agentd gateway --config /etc/agentd/gateway.toml --check"
        said = inside("runuser", "-u", "agentd-gateway", "--", "sh", "-c", check_it)
        expect("valid" in said, said)

    def remove():
        inside("dpkg", "--purge", "agentd")
        expect(not (root / "usr/bin/agentd").exists(), "the program is still there")
        expect(not (root / "etc/agentd").exists(), "its configuration is still there")

    if not checked("deb", "a new Debian", bootstrap) or not checked("deb", "dpkg --install", install):
        return
    checked("deb", "files, units, completions and manual page", files)
    checked("deb", "agentd demo, as a user, in the sandbox", lambda: as_user("agentd", "demo"))
    checked("deb", "the gateway's user reads its configuration", gateway)
    checked("deb", "dpkg --purge leaves nothing", remove)


def mirror():
    """The name of this machine's release, and where it has its packages from."""
    release = dict(line.split("=", 1) for line in open("/etc/os-release") if "=" in line)
    codename = release["VERSION_CODENAME"].strip().strip('"')
    listed = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)")
    places = [line.split()[0] for line in listed.splitlines() if line.split()[1:] == [codename]]
    expect(places, f"apt has no packages for {codename}: {listed}")
    return codename, places[0]
