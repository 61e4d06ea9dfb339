"""packaging/install.sh against a local folder: a release with a small program that a throwaway key signs, every way in
which it could have been changed, and, where it was built, the real tarball."""

import hashlib
import io
import os
import platform
import re
import shutil
import stat
import subprocess
import tarfile

from checks import check as checked, expect, run
from names import CHECKOUT

SCRIPT = CHECKOUT / "packaging/install.sh"
PROCESSOR = platform.machine()
# Those that the script calls, for a PATH without minisign.
TOOLS = (
    "base64 cat chmod cp dd find grep gzip mkdir mktemp mv od openssl rm rmdir sed sh sha256sum tar tr uname wc"
).split()


def shell(folder, *arguments, code=0, path=None, **more):
    """Runs the script as a user whose home is in a folder; returns what it said."""
    environment = {"HOME": str(folder / "home"), "PATH": str(path or os.environ["PATH"]), "LANG": "C.UTF-8", **more}
    return run("/bin/sh", SCRIPT, *arguments, code=code, env=environment, seconds=60)


class Release:
    """A folder of packages with a program that says its version."""

    def __init__(self, folder, version="9.9.9"):
        self.folder, self.version = folder, version
        self.archive = folder / f"agentd-{version}-linux-{PROCESSOR}.tar.gz"
        self.key, self.secret = folder.parent / "release.pub", folder.parent / "release.key"
        folder.mkdir(parents=True)
        self.pack(f"#!/bin/sh\necho agentd {version}\n")
        if not self.key.exists():
            run("minisign", "-G", "-W", "-p", self.key, "-s", self.secret)
        self.sign()

    def pack(self, program):
        files = {"bin/agentd": program, "share/man/man1/agentd.1": "manual", "README.md": "readme"}
        with tarfile.open(self.archive, "w:gz") as archive:
            for name, text in files.items():
                entry = tarfile.TarInfo(f"agentd-{self.version}-linux-{PROCESSOR}/{name}")
                entry.size, entry.mode = len(text), 0o755 if name.startswith("bin") else 0o644
                archive.addfile(entry, io.BytesIO(text.encode()))

    def sign(self, comment=None):
        digest = hashlib.sha256(self.archive.read_bytes()).hexdigest()
        sums = self.folder / "SHA256SUMS"
        sums.write_text(f"{digest}  {self.archive.name}\n")
        comment = comment or f"agentd {self.version}"
        run("minisign", "-S", "-s", self.secret, "-m", sums, "-t", comment)


def check(packages, folder):
    if shutil.which("minisign") is None:
        print("the install script is not tested: that needs `minisign`", flush=True)
        return
    tools = folder / "tools"
    tools.mkdir(parents=True)
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name))
    checked("install", "installs, upgrades and uninstalls a signed release", lambda: life(folder / "life"))
    checked("install", "checks the signature with OpenSSL alone", lambda: life(folder / "openssl", tools))
    for name, change, words in CHANGES:
        checked("install", f"refuses {name}", lambda: refused(folder / name.replace(" ", "-"), change, words, None))
        checked("install", f"refuses {name} (OpenSSL)",
                lambda: refused(folder / f"{name.replace(' ', '-')}-openssl", change, words, tools))
    checked("install", "refuses platforms without a package", lambda: platforms(folder / "platforms", tools))
    checked("install", "needs a key, or the consent to go without", lambda: unsigned(folder / "unsigned"))
    for archive in packages.glob(f"agentd-*-linux-{PROCESSOR}.tar.gz"):
        checked("install", "installs the real program", lambda: real(archive, packages, folder / "real"))


def life(folder, path=None):
    first = Release(folder / "first")
    key = ("--key", first.key)
    program = folder / "home/.local/bin/agentd"
    said = shell(folder, "--from", first.folder, *key, path=path)
    expect("Installed agentd 9.9.9" in said and "not in PATH" in said, said)
    expect(run(program, "--version") == "agentd 9.9.9\n", "another program")
    expect(stat.S_IMODE(program.stat().st_mode) == 0o755, "the mode of the program")
    newer = Release(folder / "newer", "10.0.0")
    shell(folder, "--from", newer.folder, *key, path=path)
    expect(run(program, "--version") == "agentd 10.0.0\n", "it was not upgraded")
    leftovers = [file for file in (folder / "home").rglob("*.new.*")]
    expect(not leftovers, leftovers)
    shell(folder, "--uninstall", path=path)
    left = [file for file in (folder / "home").rglob("*") if file.is_file()]
    expect(not left, left)
    said = shell(folder, "--uninstall", code=1, path=path)
    expect("nothing was installed" in said, said)


def other_program(release):
    release.pack("#!/bin/sh\necho stolen\n")


def other_program_and_sum(release):
    other_program(release)
    digest = hashlib.sha256(release.archive.read_bytes()).hexdigest()
    (release.folder / "SHA256SUMS").write_text(f"{digest}  {release.archive.name}\n")


def signed_by_another(release):
    key, secret = release.folder / "other.pub", release.folder / "other.key"
    run("minisign", "-G", "-W", "-p", key, "-s", secret)
    run("minisign", "-S", "-s", secret, "-m", release.folder / "SHA256SUMS", "-t", f"agentd {release.version}")


def other_comment(release):
    path = release.folder / "SHA256SUMS.minisig"
    path.write_text(path.read_text().replace(f"agentd {release.version}", "agentd 99.0.0"))


def older_release(release):
    # A signature that is right, of a list that names a package of another version.
    release.sign("agentd 10.0.0")


def no_signature(release):
    (release.folder / "SHA256SUMS.minisig").unlink()


def broken_program(release):
    release.pack("#!/bin/sh\nexit 1\n")
    release.sign()


def other_processor(release):
    text = (release.folder / "SHA256SUMS").read_text().replace(PROCESSOR, "riscv64")
    (release.folder / "SHA256SUMS").write_text(text)
    run("minisign", "-S", "-s", release.secret, "-m", release.folder / "SHA256SUMS", "-t", f"agentd {release.version}")


CHANGES = [
    ("another program", other_program, "is not the file that SHA256SUMS lists"),
    ("another program with its checksum", other_program_and_sum, "signature of SHA256SUMS is wrong"),
    ("the signature of another key", signed_by_another, "SHA256SUMS"),
    ("another trusted comment", other_comment, "signature of SHA256SUMS is wrong"),
    ("a package of another version", older_release, "the signature is for"),
    ("a release without a signature", no_signature, "SHA256SUMS.minisig does not exist"),
    ("a program that does not start", broken_program, "does not start on this machine"),
    ("a release for another processor", other_processor, "has no package for"),
]


def refused(folder, change, words, path):
    release = Release(folder / "release")
    change(release)
    said = shell(folder, "--from", release.folder, "--key", release.key, code=1, path=path)
    expect(words in said, said)
    expect(not (folder / "home").exists(), "something was installed")


def platforms(folder, tools):
    """A `uname` that names another machine."""
    release = Release(folder / "release")
    for system, machine, words in (
        ("Darwin", "arm64", "no package for Darwin"),
        ("Linux", "riscv64", "no package for the processor riscv64"),
    ):
        place = folder / machine
        shutil.copytree(tools, place, symlinks=True)
        (place / "uname").unlink()
        (place / "uname").write_text(f"#!/bin/sh\n[ \"$1\" = -s ] && echo {system} || echo {machine}\n")
        (place / "uname").chmod(0o755)
        said = shell(folder, "--from", release.folder, "--key", release.key, code=1, path=place)
        expect(words in said, said)


def unsigned(folder):
    release = Release(folder / "release")
    said = shell(folder, "--from", release.folder, code=1)
    expect("--key" in said and "--without-signature" in said, said)
    no_signature(release)
    said = shell(folder, "--from", release.folder, "--without-signature")
    expect("warning" in said and "Installed" in said, said)
    said = shell(folder, code=1)
    expect("names no release" in said, said)
    said = shell(folder, "--from", "http://127.0.0.1:1", code=1)
    expect("not an https address" in said, said)


def real(archive, packages, folder):
    """The tarball of `cargo xtask package`, with the copy of the script that is next to it."""
    key, secret = folder / "release.pub", folder / "release.key"
    release = folder / "release"
    release.mkdir(parents=True)
    for name in (archive.name, "SHA256SUMS"):
        shutil.copy(packages / name, release / name)
    run("minisign", "-G", "-W", "-p", key, "-s", secret)
    version = re.match(r"agentd-(.+)-linux-", archive.name)[1]
    run("minisign", "-S", "-s", secret, "-m", release / "SHA256SUMS", "-t", f"agentd {version}")
    script = packages / "install.sh"
    environment = {"HOME": str(folder / "home"), "PATH": os.environ["PATH"]}
    done = subprocess.run(["sh", script, "--from", release, "--key", key], env=environment, capture_output=True, text=True)
    expect(done.returncode == 0, done.stdout + done.stderr)
    expect(version in run(folder / "home/.local/bin/agentd", "--version"), "another version")
