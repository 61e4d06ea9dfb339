# Mounts and namespaces.
@attack()
def a_file_system_is_mounted():
    alone()
    call("mount", "none", WORK + "/sub", "tmpfs", 0, None)
    return os.stat(WORK + "/sub").st_dev != os.stat(WORK).st_dev


@attack()
def a_protected_name_is_covered():
    alone()
    call("mount", WORK + "/mine", WORK + "/.git", None, MS_BIND, None)
    return read(WORK + "/.git/config") == b"mine\n"


@attack()
def a_protected_name_is_unmounted():
    alone()
    refused("mount", WORK + "/.git", WORK + "/.git", None, MS_BIND, None)
    call("umount2", WORK + "/.git", MNT_DETACH)
    return True


@attack()
def any_mount_is_unmounted():
    alone()
    refused("mount", WORK, WORK, None, MS_BIND, None)
    return any(refused("umount2", path, MNT_DETACH) == 0 for path in ("/proc", "/dev/shm", "/dev", WORK, "/"))


@attack()
def a_mount_is_made_writable():
    alone()
    refused("mount", OUT, OUT, None, MS_BIND, None)
    return any(refused("mount", "none", path, None, MS_REMOUNT | MS_BIND, None) == 0 for path in (OUT, WORK + "/.git", "/"))


@attack()
def a_tree_is_copied():
    alone()
    return call("open_tree", AT_FDCWD, OUT, 1) >= 0


@attack()
def a_tree_is_moved():
    alone()
    tree = quietly(call, "open_tree", AT_FDCWD, OUT, 1)
    tree = os.open(OUT, os.O_PATH) if tree is None else tree
    call("move_mount", tree, b"", AT_FDCWD, WORK + "/sub", 4)
    return os.path.exists(WORK + "/sub/file")


@attack()
def a_file_system_is_configured():
    alone()
    return call("fsopen", "tmpfs", 0) >= 0


@attack()
def a_mount_is_picked():
    alone()
    refused("mount", "none", WORK + "/sub", "tmpfs", 0, None)
    return call("fspick", AT_FDCWD, WORK + "/sub", 0) >= 0


@attack()
def attributes_of_a_mount_change():
    alone()
    refused("mount", OUT, OUT, None, MS_BIND, None)
    call("mount_setattr", AT_FDCWD, OUT, 0, struct.pack("QQQQ", 0, 1, 0, 0), 32)
    return True


@attack()
def an_overlay_is_mounted():
    alone()
    for name in ("upper", "helper"):
        os.makedirs(f"{WORK}/sub/{name}", exist_ok=True)
    options = f"lowerdir={OUT},upperdir={WORK}/sub/upper,workdir={WORK}/sub/helper,userxattr"
    error = refused("mount", "none", OUT, "overlay", 0, options)
    if error and not CONFINED:
        raise Skip(f"no overlay here ({os.strerror(error)})")
    return error == 0


@attack()
def the_root_is_changed():
    alone()
    return reaches((errno.ENOENT,), "pivot_root", "/", WORK + "/none")


@attack()
def the_root_is_confined():
    alone()
    call("chroot", OUT)
    return os.path.exists("/file")


@attack()
def users_are_made():
    return call("unshare", NEWUSER) == 0


@attack()
def namespaces_are_made_by_clone():
    pid = call("clone", NEWUSER | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


@attack()
def namespaces_are_made_by_clone3():
    arguments = struct.pack("11Q", NEWUSER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    pid = call("clone3", arguments, len(arguments))
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


@attack()
def namespaces_are_nested():
    """One more of users inside of the first, with all rights in there."""
    alone()
    return call("unshare", NEWUSER | NEWNS | NEWPID | NEWNET) == 0


@attack()
def namespaces_of_others_are_entered():
    at = f"/proc/{victim()['pid']}/ns/mnt"
    if os.path.exists(at) and os.geteuid() != 0 and not CONFINED:
        raise Skip("an ordinary user cannot enter them")
    call("setns", os.open(at, os.O_RDONLY), 0)
    return True


# /proc and /sys.
@attack()
def memory_is_read_by_proc():
    found = victim()
    with open(f"/proc/{found['pid']}/mem", "rb", buffering=0) as memory:
        memory.seek(found["address"])
        return memory.read(4) == b"plum"


@attack()
def memory_is_written_by_proc():
    found = victim()
    with open(f"/proc/{found['pid']}/mem", "r+b", buffering=0) as memory:
        memory.seek(found["address"])
        return memory.write(b"pear") == 4


@attack()
def maps_are_read():
    return len(read(f"/proc/{victim()['pid']}/maps")) > 0


@attack()
def an_environment_is_read():
    return b"PATH=" in read(f"/proc/{victim()['pid']}/environ")


@attack()
def descriptors_are_opened_by_proc():
    found = victim()
    return read(f"/proc/{found['pid']}/fd/{found['held']}") == b"plum in a file"


@attack()
def a_root_is_entered_by_proc():
    return len(os.listdir(f"/proc/{victim()['pid']}/root/")) > 0


@attack()
def a_folder_is_entered_by_proc():
    return "file" in os.listdir(f"/proc/{victim()['pid']}/cwd/")


@attack()
def mapped_files_are_listed():
    return len(os.listdir(f"/proc/{victim()['pid']}/map_files")) > 0


@attack()
def the_order_of_the_memory_killer_changes():
    write(f"/proc/{victim()['pid']}/oom_score_adj", "500")
    return True


@attack()
def dumps_of_others_change():
    write(f"/proc/{victim()['pid']}/coredump_filter", "0x7f")
    return True


@attack()
def marks_of_others_are_cleared():
    write(f"/proc/{victim()['pid']}/clear_refs", "1")
    return True


@attack()
def system_requests_are_made():
    return writable("/proc/sysrq-trigger")


@attack()
def the_program_of_cores_changes():
    return writable("/proc/sys/kernel/core_pattern")


@attack()
def settings_of_the_kernel_change():
    return writable("/proc/sys/vm/drop_caches")


@attack()
def sysfs_is_written():
    return writable("/sys/kernel/uevent_helper") if os.path.exists("/sys/kernel/uevent_helper") else \
        writable("/sys/kernel/mm/transparent_hugepage/enabled")


@attack()
def memory_of_the_kernel_is_read():
    if not os.path.exists("/proc/kcore") and not CONFINED:
        raise Skip("there is no /proc/kcore")
    return len(read("/proc/kcore", 64)) == 64


@attack()
def messages_of_the_kernel_are_written():
    return writable("/dev/kmsg")


@attack()
def messages_of_the_kernel_are_read():
    return call("syslog", 10, None, 0) > 0


@attack()
def a_control_group_is_made():
    if not os.path.isdir("/sys/fs/cgroup") and not CONFINED:
        raise Skip("there are no control groups")
    for top in ["/sys/fs/cgroup"] + [entry.path for entry in os.scandir("/sys/fs/cgroup") if entry.is_dir()]:
        if quietly(os.mkdir, top + "/attacked-by-a-test") or os.path.isdir(top + "/attacked-by-a-test"):
            os.rmdir(top + "/attacked-by-a-test")
            return True
    return False


def control_files(*names):
    found = [os.path.join(top, name) for top, _, files in os.walk("/sys/fs/cgroup") for name in files if name in names]
    if not found and not CONFINED:
        raise Skip("there is no such file")
    return any(quietly(writable, path) for path in found[:50])


@attack()
def processes_change_their_control_group():
    return control_files("cgroup.procs")


@attack()
def the_end_of_a_control_group_starts_a_program():
    return control_files("release_agent", "notify_on_release")


# Memory of other processes.
@attack()
def a_process_is_attached():
    pid = victim()["pid"]
    call("ptrace", 16, pid, 0, 0)
    return True


@attack()
def a_process_is_seized():
    pid = victim()["pid"]
    call("ptrace", 0x4206, pid, 0, 0)
    return True


def vectors(found, buffer):
    pair = lambda address, length: (ctypes.c_ulong * 2)(address, length)
    return pair(ctypes.addressof(buffer), 4), pair(found["address"], 4)


@attack()
def memory_is_read_by_vectors():
    found, buffer = victim(), ctypes.create_string_buffer(8)
    here, there = vectors(found, buffer)
    call("process_vm_readv", found["pid"], here, 1, there, 1, 0)
    return buffer.value == b"plum"


@attack()
def memory_is_written_by_vectors():
    found, buffer = victim(), ctypes.create_string_buffer(b"pear")
    here, there = vectors(found, buffer)
    return call("process_vm_writev", found["pid"], here, 1, there, 1, 0) == 4


@attack()
def a_descriptor_is_taken():
    found = victim()
    held = call("pidfd_getfd", call("pidfd_open", found["pid"], 0), found["held"], 0)
    return os.pread(held, 4, 0) == b"plum"


@attack()
def processes_are_compared():
    return call("kcmp", victim()["pid"], os.getpid(), 1, 0, 0) >= 0


@attack()
def pages_of_others_are_found():
    found, status = victim(), (ctypes.c_int * 1)(-1)
    call("move_pages", found["pid"], 1, (ctypes.c_ulong * 1)(found["address"] & ~4095), None, status, 0)
    return status[0] >= 0


@attack()
def memory_of_others_is_advised():
    found = victim()
    there = (ctypes.c_ulong * 2)(found["address"] & ~4095, 4096)
    return call("process_madvise", call("pidfd_open", found["pid"], 0), there, 1, 20, 0) >= 0


@attack()
def others_are_measured():
    attributes = struct.pack("II", 1, 128) + struct.pack("Q", 1) + bytes(24) + struct.pack("Q", 0x60) + bytes(80)
    error = refused("perf_event_open", attributes, victim()["pid"], -1, -1, 0)
    if error in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES) and not CONFINED:
        raise Skip(f"no such measurement here ({os.strerror(error)})")
    return error == 0


# Objects that processes share by a number or a name.
@attack()
def shared_memory_is_read():
    LIBC.shmat.restype = ctypes.c_void_p
    at = LIBC.shmat(TARGETS["segment"], None, 0)
    return at not in (None, ctypes.c_void_p(-1).value) and ctypes.string_at(at, 4) == b"plum"


@attack()
def messages_are_received():
    buffer = ctypes.create_string_buffer(64)
    return call("msgrcv", TARGETS["messages"], buffer, 32, 0, 0o4000) == 4


@attack()
def semaphores_are_changed():
    return call("semctl", TARGETS["semaphores"], 0, 16, 5) == 0


@attack()
def semaphores_are_removed():
    return call("semctl", TARGETS["semaphores"], 0, 0, 0) == 0


@attack()
def shared_memory_is_removed():
    return call("shmctl", TARGETS["segment"], 0, None) == 0


@attack()
def a_message_queue_is_written():
    queue = call("mq_open", TARGETS["queue"], os.O_RDWR, 0, None)
    call("mq_timedsend", queue, b"pear", 4, 0, None)
    return True


@attack()
def a_message_queue_is_removed():
    return call("mq_unlink", TARGETS["queue"]) == 0


@attack()
def files_of_shared_memory_are_read():
    return read(f"/dev/shm/{TARGETS['queue']}").startswith(b"plum")


@attack()
def a_user_keyring_is_reached():
    key = call("add_key", "user", "attacked-by-a-test", b"x", 1, -4)
    call("keyctl", 9, key, -4, 0, 0)
    return True


@attack()
def keys_are_requested():
    return reaches((errno.ENOKEY,), "request_key", "user", "of-nobody", None, -4)


# Ways around the filter of calls.
@attack()
def a_ring_is_made():
    return call("io_uring_setup", 4, bytes(120)) >= 0


@attack()
def faults_are_handled():
    return call("userfaultfd", 1) >= 0


@attack()
def programs_of_the_kernel_are_loaded():
    return reaches((errno.ENOENT, errno.EBADF), "bpf", 13, bytes(64), 64)


@attack()
def a_program_without_a_file_writes():
    """The program is in memory alone; what it does is the harm."""
    program = call("memfd_create", "program", 0)
    os.write(program, read("/bin/touch", 1 << 24))
    pid = os.fork()
    if pid == 0:
        arguments = [b"touch", (OUT + "/made").encode(), None]
        vector = (ctypes.c_char_p * 3)(*arguments)
        refused("execveat", program, b"", vector, (ctypes.c_char_p * 1)(None), AT_EMPTY_PATH)
        os._exit(1)
    os.waitpid(pid, 0)
    return os.path.exists(OUT + "/made")


def filter_of(number, action):
    """Applies an action to one call and allows the others."""
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, action), (6, 0, 0, 0x7fff0000)]
    program = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(program)
    return struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(buffer)), buffer


@attack()
def a_filter_of_its_own_allows_more():
    LIBC.prctl(38, 1, 0, 0, 0)
    program, _kept = filter_of(NUMBERS["keyctl"][ARM], 0x7fff0000)
    call("seccomp", 1, 1, program)
    return call("keyctl", 0, -3, 1) > 0


@attack()
def a_listener_of_its_own_allows_more():
    """Another thread lets the call go on."""
    LIBC.prctl(38, 1, 0, 0, 0)
    got, end = [], threading.Event()
    program, _kept = filter_of(NUMBERS["keyctl"][ARM], 0x7fc00000)
    def caller():
        try:
            got.append(call("seccomp", 1, 8, program))
            end.set()
            got.append(call("keyctl", 0, -3, 1))
        except OSError as error:
            got.append(error)
        end.set()
    thread = threading.Thread(target=caller, daemon=True)
    thread.start()
    end.wait(5)
    if isinstance(got[0], int):
        notice = ctypes.create_string_buffer(80)
        fcntl.ioctl(got[0], 0xc0502100, notice)
        fcntl.ioctl(got[0], 0xc0182101, notice.raw[:8] + struct.pack("qiI", 0, 0, 1))
        thread.join(5)
    return isinstance(got[-1], int) and len(got) == 2


# Rights.
@attack()
def a_program_gains_rights():
    said = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
    if os.geteuid() != 0 and not CONFINED:
        raise Skip("an ordinary user gains nothing by starting a program")
    return "CapEff:\t0000000000000000" not in said


@attack()
def a_program_with_a_user_bit_gains_rights():
    """`mount` and `su` have it; they gain nothing that mounts."""
    if os.geteuid() != 0 and not CONFINED:
        raise Skip("they ask an ordinary user for a password")
    os.mkdir(WORK + "/sub/place")
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", WORK + "/sub/place"], stderr=subprocess.DEVNULL)
    plain = subprocess.run(["su", "-c", "test -w /etc/shadow && cat /proc/kallsyms > /dev/null"], stderr=subprocess.DEVNULL,
                           stdin=subprocess.DEVNULL)
    capable = subprocess.run(["su", "-c", "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status"], stderr=subprocess.DEVNULL,
                             stdin=subprocess.DEVNULL)
    return done.returncode == 0 or (plain.returncode == 0 and capable.returncode == 0)


@attack()
def an_owner_changes():
    if os.geteuid() != 0 and not CONFINED:
        raise Skip("an ordinary user cannot")
    os.chown(WORK + "/sub/inner", 12345, 12345)
    return True


@attack()
def a_device_is_made():
    if os.geteuid() != 0 and not CONFINED:
        raise Skip("an ordinary user cannot")
    os.mknod(WORK + "/sub/device", stat.S_IFCHR | 0o666, os.makedev(1, 1))
    return True


# The machine.
@attack()
def the_clock_is_set():
    if os.geteuid() != 0 and not CONFINED:
        raise Skip("an ordinary user cannot")
    return call("settimeofday", None, None) == 0


@attack()
def the_host_name_is_set():
    alone()
    name = socket.gethostname()
    return call("sethostname", name, len(name)) == 0


@attack()
def memory_is_taken_from_the_swap():
    return reaches((errno.ENOENT,), "swapoff", "/nonexistent")


@attack()
def a_module_is_loaded():
    return reaches((errno.EFAULT, errno.ENOEXEC), "init_module", None, 0, b"")


@attack()
def the_machine_is_restarted():
    return reaches((errno.EINVAL,), "reboot", 0, 0, 0, None)


@attack()
def another_kernel_is_loaded():
    return reaches((errno.EBADF, errno.EINVAL), "kexec_file_load", -1, -1, 0, None, 1 << 31)


@attack()
def accounts_are_kept():
    return reaches((errno.ENOENT,), "acct", "/nonexistent")


@attack()
def all_accesses_are_watched():
    if os.geteuid() != 0 and not CONFINED:
        raise Skip("an ordinary user cannot")
    return call("fanotify_init", 4, os.O_RDONLY) >= 0


@attack()
def a_file_system_is_frozen():
    """Of one that cannot be."""
    folder = os.open("/proc", os.O_RDONLY)
    return reaches((errno.EOPNOTSUPP,), "ioctl", folder, 0xc0045877, 0)


# Terminals.
@attack()
def typed_text_is_read():
    terminal = os.open(TARGETS["terminal"], os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    return b"plum" in os.read(terminal, 100)


@attack()
def a_terminal_of_others_is_written():
    terminal = os.open(TARGETS["terminal"], os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    return os.write(terminal, b"\x1b]0;pear\x07") > 0


def own_terminal():
    """A terminal of this process's own, as its controlling one."""
    master, terminal = os.openpty()
    os.setsid()
    fcntl.ioctl(terminal, 0x540e, 0)
    return terminal


@attack()
def text_is_typed():
    if os.path.exists("/proc/sys/dev/tty/legacy_tiocsti") and read("/proc/sys/dev/tty/legacy_tiocsti") == b"0\n" \
            and os.geteuid() != 0 and not CONFINED:
        raise Skip("the kernel allows it to administrators only")
    fcntl.ioctl(own_terminal(), 0x5412, b"x")
    return True


@attack()
def text_is_selected():
    """A terminal that is no console, where the call does nothing."""
    return reaches((errno.ENOTTY, errno.EINVAL), "ioctl", own_terminal(), 0x541c, b"\x06")


@steady()
def terminals_of_its_own_work():
    master, terminal = os.openpty()
    os.write(terminal, b"said")
    again = os.open(os.ttyname(terminal), os.O_RDWR | os.O_NOCTTY)
    os.write(again, b" twice")
    said = b""
    while len(said) < 10:
        said += os.read(master, 100)
    return said == b"said twice"
