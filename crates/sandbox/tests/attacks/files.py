# Files that the policy protects, and those outside.
CONFIG = ".git/config"


def changed():
    """Whether something that the policy protects is no longer what it was."""
    def is_whole(path):
        found = quietly(os.lstat, path)
        return found is not None and found.st_nlink == 1 and found.st_mode == 0o100644 and int(found.st_mtime) != 1 \
            and read(path) == b"old\n" and not os.listxattr(path)
    def is_made(path):
        found = quietly(os.lstat, path)
        # While a command runs, an empty folder can stand for a protected name.
        return found is not None and found.st_mode != 0o41755
    made = any(is_made(WORK + name) for name in ("/.agent", "/.git/made", "/../out/made"))
    return made or not is_whole(WORK + "/" + CONFIG) or not is_whole(OUT + "/file")


def tries(*attempts):
    """Runs each attempt, errors aside. True if one had an effect, which unconfined is undone for the next case."""
    for attempt in attempts:
        quietly(attempt)
    return changed()


@attack()
def a_protected_file_gets_another_name():
    tries(lambda: os.link(CONFIG, "sub/taken"), lambda: call("linkat", os.open(CONFIG, os.O_PATH), b"", AT_FDCWD, "sub/t2", AT_EMPTY_PATH),
          lambda: call("linkat", AT_FDCWD, f"/proc/self/fd/{os.open(CONFIG, os.O_RDONLY)}", AT_FDCWD, "sub/t3", AT_SYMLINK_FOLLOW),
          lambda: call("linkat", os.open(".git", os.O_PATH), "config", AT_FDCWD, "sub/t4", 0))
    return changed()


@attack()
def a_file_outside_gets_a_name():
    return tries(lambda: os.link(OUT + "/file", "sub/taken"), lambda: os.link("/proc/self/root" + OUT + "/file", "sub/t2"),
                 lambda: os.link("../out/file", "t3"))


@attack()
def a_file_without_a_name_gets_a_protected_one():
    file = os.open("sub", os.O_TMPFILE | os.O_RDWR, 0o644)
    return tries(lambda: call("linkat", AT_FDCWD, f"/proc/self/fd/{file}", AT_FDCWD, ".git/made", AT_SYMLINK_FOLLOW),
                 lambda: call("linkat", file, b"", AT_FDCWD, ".agent", AT_EMPTY_PATH))


@attack()
def names_are_exchanged():
    exchange = lambda old, new: lambda: call("renameat2", AT_FDCWD, old, AT_FDCWD, new, 2)
    return tries(exchange("sub", ".git"), exchange("file", CONFIG), exchange(".git", "sub/inner"),
                 exchange("file", OUT + "/file"))


@attack()
def a_name_is_left_as_a_whiteout():
    renames = lambda old, new: lambda: call("renameat2", AT_FDCWD, old, AT_FDCWD, new, 4)
    return tries(renames(CONFIG, "sub/taken"), renames("file", ".git/made"), renames(OUT + "/file", "sub/t2"))


@attack()
def a_name_is_moved():
    renames = lambda old, new, flags=0: lambda: call("renameat2", AT_FDCWD, old, AT_FDCWD, new, flags)
    return tries(renames("sub", ".agent", 1), renames("file", ".git/made", 1), renames(".git/", "sub/x"),
                 renames("sub/../.git", "taken"), renames("file", OUT + "/made"))


@attack()
def the_root_is_moved():
    if CONFINED:
        quietly(os.rename, WORK, WORK + ".moved")
        quietly(os.rename, os.path.dirname(WORK), os.path.dirname(WORK) + ".moved")
        return not os.path.exists(WORK)
    os.rename(WORK, WORK + ".moved")
    os.rename(WORK + ".moved", WORK)
    return True


@attack()
def newer_ways_to_open():
    def opened(path, flags, resolve, folder=AT_FDCWD):
        how = struct.pack("QQQ", flags, 0o644 if flags & os.O_CREAT else 0, resolve)
        os.write(call("openat2", folder, path, how, len(how)), b"new\n")
    top = os.open("/", os.O_PATH)
    return tries(lambda: opened(CONFIG, os.O_WRONLY, 0), lambda: opened(CONFIG, os.O_WRONLY, 4),
                 lambda: opened(OUT + "/file", os.O_WRONLY, 0x10, top), lambda: opened(".agent", os.O_WRONLY | os.O_CREAT, 8),
                 lambda: opened("config", os.O_RDWR, 0, os.open(".git", os.O_PATH)))


@attack()
def handles_are_opened():
    handle, mount = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128)), (ctypes.c_int * 1)()
    call("name_to_handle_at", AT_FDCWD, CONFIG, handle, mount, 0)
    if os.geteuid() != 0 and not CONFINED:
        raise Skip("an ordinary user cannot open them")
    return os.write(call("open_by_handle_at", os.open(".", os.O_RDONLY), handle, os.O_WRONLY), b"x") == 1


@attack()
def what_is_open_is_opened_again():
    def again(path, way):
        file = os.open(path, way)
        for name in (f"/proc/self/fd/{file}", f"/dev/fd/{file}", f"/proc/thread-self/fd/{file}", f"/proc/{os.getpid()}/fd/{file}"):
            quietly(lambda: os.write(os.open(name, os.O_WRONLY), b"new\n"))
            quietly(lambda: os.open(name, os.O_WRONLY | os.O_TRUNC))
            quietly(lambda: os.truncate(name, 0))
    return tries(*[lambda p=p, w=w: again(p, w) for p in (CONFIG, OUT + "/file") for w in (os.O_PATH, os.O_RDONLY)])


@attack()
def paths_lead_through_proc():
    places = ["/proc/self/cwd/", "/proc/thread-self/cwd/", f"/proc/{os.getpid()}/cwd/", f"/proc/self/root{WORK}/",
              f"/proc/self/task/{call('gettid')}/cwd/"]
    return tries(*[lambda p=p: write(p + CONFIG) for p in places], *[lambda p=p: os.mkdir(p + ".agent") for p in places],
                 *[lambda p=p: os.chmod(p + CONFIG, 0o777) for p in places], *[lambda p=p: os.utime(p + "../out/file", (1, 1)) for p in places])


@attack()
def folders_are_opened_first():
    def at(folder, name):
        opened = os.open(folder, os.O_RDONLY)
        quietly(lambda: os.close(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, dir_fd=opened)))
        quietly(lambda: os.mkdir("made", dir_fd=opened))
        quietly(lambda: os.chmod(name, 0o777, dir_fd=opened))
        quietly(lambda: os.symlink("x", "made", dir_fd=opened))
        quietly(os.fchdir, opened)
        quietly(lambda: write("made"))
        os.chdir(WORK)
    return tries(lambda: at(".git", "config"), lambda: at(OUT, "file"), lambda: at("/", OUT[1:] + "/file"))


@attack()
def the_working_folder_is_moved():
    """What `..` is changes with it."""
    os.makedirs("sub/deep/er")
    os.chdir("sub/deep/er")
    os.rename(WORK + "/sub/deep/er", WORK + "/er")
    done = tries(lambda: write("../.git/config"), lambda: os.mkdir("../.agent"), lambda: os.rename("../file", "../.git/made"))
    os.chdir(WORK)
    return done or changed()


@attack()
def protected_names_are_spelled_otherwise():
    names = [".agent", ".agent/", "./.agent", ".//.agent", "sub/../.agent", "sub/./../.agent/", WORK + "/.agent"]
    makers = [os.mkdir, os.mkfifo, lambda name: os.symlink("sub", name), lambda name: os.rename("sub/inner", name),
              lambda name: os.link("file", name), write, lambda name: call("mknodat", AT_FDCWD, name, stat.S_IFREG | 0o644, 0)]
    return tries(*[lambda m=m, n=n: m(n) for n in names for m in makers])


@attack()
def attributes_of_files_change():
    def of(path):
        file = os.open(path, os.O_RDONLY)
        for attempt in (lambda: os.chmod(path, 0o777), lambda: os.fchmod(file, 0o777), lambda: os.utime(path, (1, 1)),
                        lambda: os.utime(file, (1, 1)), lambda: os.setxattr(path, "user.made", b"x"),
                        lambda: call("fchmodat2", AT_FDCWD, path, 0o777, 0), lambda: call("fchmodat2", file, b"", 0o777, AT_EMPTY_PATH),
                        lambda: call("utimensat", file, b"", struct.pack("QQQQ", 1, 0, 1, 0), AT_EMPTY_PATH),
                        lambda: os.chmod(f"/proc/self/fd/{file}", 0o777), lambda: os.chmod(f"/dev/fd/{file}", 0o777)):
            quietly(attempt)
    return tries(*[lambda p=p: of(p) for p in (CONFIG, OUT + "/file", ".git/../.git/config", "link/file")])


@attack()
def flags_of_files_change():
    """`chattr` needs no file that is open for writing."""
    file, flags = os.open(OUT + "/file", os.O_RDONLY), (ctypes.c_long * 1)()
    if refused("ioctl", file, 0x80086601, flags) and not CONFINED:
        raise Skip("the file system has no flags")
    return call("ioctl", file, 0x40086602, (ctypes.c_long * 1)(flags[0] ^ 0x40)) == 0


@attack()
def attributes_change_by_newer_calls():
    return is_reached(0x401c5820)


def reaches_or_none(numbers, name, *arguments):
    return refused(name, *arguments) in (0, *numbers)


def is_reached(request, *numbers):
    """A file system that has no such request says so. A refused one never gets there."""
    file = os.open(OUT, os.O_RDONLY)
    return reaches_or_none((errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.EFAULT, *numbers), "ioctl", file, request, 0) \
        and (not CONFINED or not TARGETS["own_processes"])


@attack()
def a_file_is_sealed_for_good():
    """By fs-verity, which needs a file that is open for reading."""
    return is_reached(0x40806685)


@attack()
def a_folder_is_encrypted():
    return is_reached(0x800c6613)


@attack()
def a_version_is_set():
    return is_reached(0x40087602)


@attack()
def a_volume_is_made():
    """Of Btrfs: its requests make and remove entries of a folder that is open for reading."""
    return is_reached(0x5000940e)


@attack()
def a_copy_of_a_volume_is_made():
    return is_reached(0x50009417)


@attack()
def a_volume_is_removed():
    return is_reached(0x5000940f)


@attack()
def attributes_of_foreign_file_systems_change():
    return is_reached(0x40047211)


@attack()
def a_link_is_swapped_meanwhile():
    """One thread exchanges a folder for a link to the outside while others make, change and remove what is in it."""
    os.mkdir("a")
    os.symlink(OUT, "b")
    end = time.monotonic() + (1.0 if CONFINED else 0.7)
    def swap():
        while time.monotonic() < end:
            refused("renameat2", AT_FDCWD, "a", AT_FDCWD, "b", 2)
    def use():
        while time.monotonic() < end:
            for attempt in (lambda: os.close(os.open("a/made", os.O_CREAT | os.O_WRONLY)), lambda: os.chmod("a/file", 0o777),
                            lambda: os.truncate("a/file", 0), lambda: os.unlink("a/made"), lambda: os.utime("a/file", (1, 1)),
                            lambda: os.mkdir("a/made"), lambda: os.rmdir("a/made"), lambda: os.rename("a/file", "a/made"),
                            lambda: os.link("a/file", "sub/taken"), lambda: os.setxattr("a/file", "user.x", b"")):
                quietly(attempt)
            if not CONFINED and changed():
                return
    threads = [threading.Thread(target=work) for work in (swap, use, use)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return changed()


@attack()
def letter_case_is_ignored():
    write("sub/Case")
    if not os.path.exists("sub/CASE"):
        raise Skip("the file system distinguishes letter case")
    return tries(lambda: write(".GIT/config"), lambda: os.mkdir(".Agent"), lambda: os.rename(".giT", "sub/x"))


# A permission profile with a hidden folder: `WORK/outer/secret`, and everything else can be written.
def told(path):
    return quietly(read, path) == b"plum\n"


@attack("hidden")
def a_hidden_file_is_read():
    name = "outer/secret/key"
    ways = [name, "./outer//secret/../secret/key", WORK + "/" + name, "/proc/self/cwd/" + name, f"/proc/self/root{WORK}/{name}", "way/key"]
    return any(told(way) for way in ways)


@attack("hidden")
def a_hidden_folder_is_opened():
    folder = os.open("outer/secret", os.O_PATH)
    return any(quietly(lambda: os.read(os.open("key", os.O_RDONLY, dir_fd=at), 9)) == b"plum\n" for at in (folder,)) \
        or told(f"/proc/self/fd/{folder}/key")


@attack("hidden")
def a_hidden_file_is_opened_again():
    file = os.open("outer/secret/key", os.O_PATH)
    return told(f"/proc/self/fd/{file}") or told(f"/dev/fd/{file}") or told(f"/proc/{os.getpid()}/fd/{file}")


@attack("hidden")
def the_folder_above_is_moved():
    for new in ("moved", "sub/moved"):
        quietly(os.rename, "outer", new)
        if told(new + "/secret/key"):
            return os.rename(new, "outer") is None
    return False


@attack("hidden")
def a_hidden_folder_is_moved():
    return tries_hidden(lambda: os.rename("outer/secret", "seen"), lambda: call("renameat2", AT_FDCWD, "outer/secret", AT_FDCWD, "sub", 2),
                        lambda: os.rename("outer/secret/key", "seen2"), seen=["seen/key", "sub/key", "seen2"])


@attack("hidden")
def a_hidden_file_gets_a_name():
    return tries_hidden(lambda: os.link("outer/secret/key", "seen"), lambda: os.link("way/key", "seen2"),
                        lambda: call("linkat", os.open("outer/secret/key", os.O_PATH), b"", AT_FDCWD, "seen3", AT_EMPTY_PATH),
                        lambda: call("linkat", AT_FDCWD, f"/proc/self/fd/{os.open('outer/secret/key', os.O_PATH)}", AT_FDCWD, "seen4", AT_SYMLINK_FOLLOW),
                        seen=["seen", "seen2", "seen3", "seen4"])


def tries_hidden(*attempts, seen):
    for attempt in attempts:
        quietly(attempt)
    return any(told(name) for name in seen)


@attack("hidden")
def a_hidden_file_is_read_through_a_swapped_link():
    """Exchanged with a file that can be read, while it is opened."""
    write("sub/plain", "plain")
    os.symlink("sub/plain", "one")
    os.symlink("outer/secret/key", "two")
    end, found = time.monotonic() + 1, []
    def swap():
        while time.monotonic() < end and not found:
            refused("renameat2", AT_FDCWD, "one", AT_FDCWD, "two", 2)
    thread = threading.Thread(target=swap)
    thread.start()
    while time.monotonic() < end and not found:
        if told("one"):
            found.append(1)
    thread.join()
    return bool(found)


@attack("hidden")
def a_hidden_file_is_executed_or_mapped():
    file = os.open("outer/secret/key", os.O_RDONLY)
    return mmap.mmap(file, 4, prot=mmap.PROT_READ)[:4] == b"plum"
