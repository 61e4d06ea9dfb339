"""The package for RPM: its contents, what it needs, and the program from it. It is not installed: that needs a
distribution with RPM."""

import shutil
import subprocess

from checks import check as checked, expect, run


def check(packages, folder):
    found = list(packages.glob("*.rpm"))
    if not found or shutil.which("rpm") is None:
        print("the package for RPM is not checked: that needs `rpmbuild` and `rpm`", flush=True)
        return
    [package] = found

    def query(*what):
        return run("rpm", "--query", "--package", package, *what)

    def contents():
        listed = query("--list").splitlines()
        for path in (
            "/usr/bin/agentd",
            "/usr/share/man/man1/agentd.1.gz",
            "/usr/share/doc/agentd/sbom.cdx.json.gz",
            "/usr/share/zsh/site-functions/_agentd",
            "/usr/lib/systemd/user/agentd.socket",
            "/usr/lib/systemd/system/agentd-gateway.service",
            "/usr/share/licenses/agentd/LICENSE",
        ):
            expect(path in listed, f"{path} is not among {listed}")
        expect(query("--configfiles").split() == ["/etc/agentd/gateway.toml"], query("--configfiles"))
        owner = query("--queryformat", "[%{FILENAMES} %{FILEGROUPNAME} %{FILEMODES:octal}\n]")
        expect("/etc/agentd/gateway.toml agentd-gateway 100640" in owner, owner)

    def needs():
        needed = query("--requires")
        expect("libc.so.6(GLIBC_" in needed, needed)

    def program():
        archive = subprocess.run(["rpm2cpio", package], check=True, capture_output=True).stdout
        unpack = ["cpio", "--extract", "--make-directories", "--quiet", "--no-absolute-filenames"]
        subprocess.run(unpack, input=archive, cwd=folder, check=True)
        expect(run(folder / "usr/bin/agentd", "--version").startswith("agentd "), "its version")

    checked("rpm", "has the files, and the configuration belongs to the gateway", contents)
    checked("rpm", "needs the glibc of its program", needs)
    if shutil.which("rpm2cpio") and shutil.which("cpio"):
        checked("rpm", "its program starts", program)
