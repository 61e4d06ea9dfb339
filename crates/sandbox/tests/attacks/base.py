"""Attacks at the level of system calls. A case is a function: an @attack returns true if it did its harm, and has to do
so where nothing confines it; a @steady one has to return true everywhere. Each runs in a process of its own."""
import ctypes, errno, fcntl, json, mmap, os, platform, resource, signal, socket, stat, struct, subprocess
import shutil, sys, threading, time

LIBC = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"
# Numbers of x86_64 and aarch64; newer calls have the same everywhere.
NUMBERS = {
    "ioctl": (16, 29), "madvise": (28, 233), "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "semget": (64, 190), "semctl": (66, 191), "msgget": (68, 186), "msgrcv": (70, 188), "msgctl": (71, 187),
    "ptrace": (101, 117), "kill": (62, 129), "pivot_root": (155, 41), "chroot": (161, 51), "acct": (163, 89),
    "settimeofday": (164, 170), "mount": (165, 40), "umount2": (166, 39), "swapoff": (168, 225),
    "reboot": (169, 142), "sethostname": (170, 161), "init_module": (175, 105), "tkill": (200, 130),
    "sched_setattr": (314, 274), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "ioprio_set": (251, 30), "mknodat": (259, 33), "unshare": (272, 97), "move_pages": (279, 239),
    "mkdirat": (258, 34), "linkat": (265, 37), "fchmodat": (268, 53), "fchownat": (260, 54), "utimensat": (280, 88),
    "rt_sigqueueinfo": (129, 138), "tgkill": (234, 131), "perf_event_open": (298, 241),
    "rt_tgsigqueueinfo": (297, 240), "fanotify_init": (300, 262), "prlimit64": (302, 261),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "setns": (308, 268),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272), "renameat2": (316, 276),
    "seccomp": (317, 277), "memfd_create": (319, 279), "kexec_file_load": (320, 294), "bpf": (321, 280),
    "execveat": (322, 281), "userfaultfd": (323, 282), "openat": (257, 56), "truncate": (76, 45),
    "mq_open": (240, 180), "mq_unlink": (241, 181), "mq_timedsend": (242, 182), "quotactl": (179, 60),
    "syslog": (103, 116), "clone": (56, 220), "gettid": (186, 178), "setsockopt": (54, 208),
    "pidfd_send_signal": (424,) * 2, "io_uring_setup": (425,) * 2, "open_tree": (428,) * 2, "move_mount": (429,) * 2,
    "fsopen": (430,) * 2, "fspick": (433,) * 2, "pidfd_open": (434,) * 2, "clone3": (435,) * 2, "openat2": (437,) * 2,
    "pidfd_getfd": (438,) * 2, "process_madvise": (440,) * 2, "mount_setattr": (442,) * 2, "fchmodat2": (452,) * 2,
    "setxattrat": (463,) * 2, "removexattrat": (466,) * 2, "file_setattr": (469,) * 2,
}
AT_FDCWD, AT_EMPTY_PATH, AT_SYMLINK_FOLLOW, AT_NOFOLLOW = -100, 0x1000, 0x400, 0x100
NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_REMOUNT, MS_BIND, MS_PRIVATE_REC, MNT_DETACH = 0x20, 0x1000, 0x44000, 2


class Skip(Exception):
    """The case cannot work here, even where nothing confines it."""


def call(name, *arguments):
    """A system call; raises its error."""
    def register(value):
        if isinstance(value, str):
            value = value.encode()
        if isinstance(value, int) or value is None:
            return ctypes.c_long(value or 0)
        return value if isinstance(value, bytes) else ctypes.cast(value, ctypes.c_void_p)
    number = NUMBERS[name][ARM] if isinstance(name, str) else name
    result = LIBC.syscall(ctypes.c_long(number), *map(register, arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def refused(name, *arguments):
    """The number of the error of a call, 0 for none."""
    try:
        call(name, *arguments)
        return 0
    except OSError as error:
        return error.errno


def reaches(numbers, name, *arguments):
    """Whether a call that cannot work gets as far as one of these errors. Harmless, and never reached if it is refused."""
    got = refused(name, *arguments)
    if got in (errno.ENOSYS, errno.EOPNOTSUPP) and got not in numbers:
        raise Skip(f"the kernel has no {name}")
    return got == 0 or got in numbers


def quietly(function, *arguments):
    try:
        return function(*arguments)
    except OSError:
        return None


CASES = []


def attack(*groups):
    return lambda function: CASES.append((function, "attack", groups)) or function


def steady(*groups):
    return lambda function: CASES.append((function, "steady", groups)) or function


def read(path, length=65536):
    with open(path, "rb") as file:
        return file.read(length)


def write(path, data="x"):
    with open(path, "w") as file:
        file.write(data)


def writable(path):
    """Whether a file of the kernel can be opened for writing. Nothing is written."""
    if not os.path.exists(path) and not CONFINED:
        raise Skip(f"there is no {path}")
    os.close(os.open(path, os.O_WRONLY))
    return True


def alone():
    """Namespaces of this process's own, where they can be made: then mounting needs no privileges."""
    user, group = os.geteuid(), os.getegid()
    if refused("unshare", NEWUSER | NEWNS | NEWUTS):
        return
    quietly(write, "/proc/self/setgroups", "deny")
    quietly(write, "/proc/self/gid_map", f"{group} {group} 1")
    quietly(write, "/proc/self/uid_map", f"{user} {user} 1")
    refused("mount", "none", "/", None, MS_PRIVATE_REC, None)


def build(base):
    """The folder that a command may write, with protected names, and the one outside."""
    for folder in ("work", "out"):
        os.makedirs(f"{base}/{folder}", exist_ok=True)
        for entry in os.scandir(f"{base}/{folder}"):
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
    for folder in (".git/hooks", "mine", "sub/inner-folder", "outer/secret"):
        os.makedirs(f"{base}/work/{folder}")
    for name, text in (("work/.git/config", "old"), ("work/mine/config", "mine"), ("work/sub/inner", "inner"),
                       ("work/file", "old"), ("work/outer/secret/key", "plum"), ("work/outer/open", "said"), ("out/file", "old")):
        write(f"{base}/{name}", text + "\n")
        os.chmod(f"{base}/{name}", 0o644)
    os.symlink("../out", f"{base}/work/link")
    os.symlink("outer/secret", f"{base}/work/way")


def outside():
    """What the attacks aim at: files, processes and objects outside of the sandbox. Prints where they are."""
    base, count = sys.argv[2], len(CASES) if sys.argv[3] == "files" else 0
    build(base)
    os.chdir(base + "/out")
    os.environ["PLUM"] = "plum in the environment"
    victims, ends = [], os.pipe()
    for _ in range(count):
        ready = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            secret = ctypes.create_string_buffer(b"plum in memory")
            held = os.open(base + "/out/held", os.O_RDWR | os.O_CREAT, 0o600)
            os.write(held, b"plum in a file")
            os.unlink(base + "/out/held")
            os.write(ready[1], struct.pack("QQ", ctypes.addressof(secret), held))
            os.close(ends[1])
            os.read(ends[0], 1)
            os._exit(0)
        address, held = struct.unpack("QQ", os.read(ready[0], 16))
        victims.append({"pid": pid, "address": address, "held": held})
    segment = call("shmget", 0, 4096, 0o1666)
    LIBC.shmat.restype = ctypes.c_void_p
    ctypes.memmove(LIBC.shmat(segment, None, 0), b"plum in shared memory", 22)
    messages = call("msgget", 0, 0o1666)
    LIBC.msgsnd(messages, struct.pack("l", 1) + b"plum", 4, 0)
    semaphores = call("semget", 0, 1, 0o1666)
    queue = f"plum-{os.getpid()}"
    call("mq_open", queue, os.O_CREAT | os.O_RDWR, 0o600, None)
    write(f"/dev/shm/{queue}", "plum in a file of shared memory")
    master, terminal = os.openpty()
    os.write(master, b"plum, as typed\n" * 3)
    print(json.dumps({"victims": victims, "segment": segment, "messages": messages, "semaphores": semaphores,
                      "queue": queue, "terminal": os.ttyname(terminal)}), flush=True)
    sys.stdin.read()
    os.close(ends[1])
    for victim in victims:
        quietly(os.kill, victim["pid"], signal.SIGKILL)
    for name, kind in (("shmctl", segment), ("msgctl", messages)):
        refused(name, kind, 0, None)
    refused("semctl", semaphores, 0, 0, 0)
    refused("mq_unlink", queue)
    os.unlink(f"/dev/shm/{queue}")


def run_case(function):
    """What came of a case, which has a process and ten seconds."""
    receiving, sending = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receiving)
        signal.alarm(10)
        try:
            text = "did" if function() else "held"
        except Skip as why:
            text = f"skipped: {why}"
        except Exception as error:
            text = f"held: {error!r}"
        os.write(sending, text.encode()[:1000])
        os._exit(0)
    os.close(sending)
    said = os.read(receiving, 1000).decode()
    os.close(receiving)
    _, status = os.waitpid(pid, 0)
    return said or f"held: ended by {status}"


def main():
    if sys.argv[1] == "outside":
        return outside()
    for function, kind, groups in CASES:
        if sys.argv[1] in (groups or ("files",)):
            if not CONFINED:
                os.chdir("/")
                build(os.path.dirname(WORK))
                os.chdir(WORK)
            print(f"{kind}\t{function.__name__}\t{run_case(function)}", flush=True)


if sys.argv[1] != "outside":
    TARGETS = json.loads(os.environ["TARGETS"])
    WORK, OUT = TARGETS["work"], TARGETS["out"]
    CONFINED = TARGETS["confined"]
    SUPERVISOR = os.getppid()


def victim():
    """A process outside that belongs to the calling case. Cases are forked, so that each counts for itself."""
    frame = sys._getframe(1).f_code.co_name
    names = [function.__name__ for function, _, _ in CASES]
    return TARGETS["victims"][names.index(frame)]
