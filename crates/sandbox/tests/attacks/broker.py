# Calls that a supervisor answers, made in ways that could mislead or stop it. They work, or fail as anywhere.
def works(name="sub/works"):
    os.mkdir(name)
    os.rmdir(name)
    return True


@steady()
def callers_that_end_at_once():
    """Calls of threads that are dead by the time of the answer."""
    for _ in range(12):
        pid = os.fork()
        if pid == 0:
            for number in range(3):
                threading.Thread(target=lambda: [quietly(works, f"sub/{os.getpid()}-{number}") for _ in range(9)]).start()
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
    return works()


@steady()
def thousands_of_calls_at_once():
    def many(number):
        for _ in range(50):
            os.chmod("sub/inner", 0o600 + number)
        done.append(number)
    done = []
    threads = [threading.Thread(target=many, args=(number,)) for number in range(40)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return len(done) == 40


@steady()
def five_hundred_threads():
    begin, done = threading.Barrier(500), []
    def one(number):
        begin.wait()
        os.chmod("sub/inner", 0o600 + number % 8)
        done.append(number)
    threading.stack_size(65536)
    threads = [threading.Thread(target=one, args=(number,)) for number in range(500)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return len(done) == 500


@steady()
def long_paths():
    fits = "sub/" + "./" * 2000 + "made"
    longer = [("./" * 3000 + "made"), "x" * 4096, "/" * 5000 + "x", "./" * 100000]
    os.mkdir(fits)
    os.rmdir(fits)
    too_long = [refused("mkdirat", AT_FDCWD, path, 0o777) for path in longer]
    return set(too_long) == {errno.ENAMETOOLONG} and refused("mkdirat", AT_FDCWD, "sub/" + "y" * 256, 0o777) == errno.ENAMETOOLONG


@steady()
def folders_deeper_than_paths():
    """What has no path that fits is reached step by step."""
    os.chdir("sub")
    for depth in range(50):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    error = refused("mkdirat", AT_FDCWD, "made", 0o777)
    for depth in range(50):
        os.chdir("..")
        subprocess.run(["rm", "-rf", "d" * 200]) if depth == 49 else None
    return error in (0, errno.EACCES, errno.ENAMETOOLONG)


def page_and_none():
    """Memory that ends where nothing can be read."""
    LIBC.mmap.restype = ctypes.c_void_p
    start = LIBC.mmap(None, ctypes.c_size_t(8192), 3, 0x22, -1, ctypes.c_long(0))
    LIBC.munmap(ctypes.c_void_p(start + 4096), ctypes.c_size_t(4096))
    return start


@steady()
def strings_at_the_end_of_memory():
    start = page_and_none()
    name = b"sub/end\0"
    ctypes.memmove(start + 4096 - len(name), name, len(name))
    done = call("mkdirat", AT_FDCWD, ctypes.c_void_p(start + 4096 - len(name)), 0o777)
    os.rmdir("sub/end")
    ctypes.memset(start, ord("a"), 4096)
    open_end = refused("mkdirat", AT_FDCWD, ctypes.c_void_p(start + 4000), 0o777)
    nowhere = [refused("mkdirat", AT_FDCWD, ctypes.c_void_p(at), 0o777) for at in (0, 8, start + 4096, (1 << 64) - 1, 1 << 47)]
    return done == 0 and open_end == errno.EFAULT and set(nowhere) == {errno.EFAULT}


@steady()
def times_and_values_at_the_end_of_memory():
    start = page_and_none()
    write("sub/times")
    error = refused("utimensat", AT_FDCWD, "sub/times", ctypes.c_void_p(start + 4096 - 16), 0)
    value = refused("setxattrat", AT_FDCWD, "sub/times", 0, "user.x", ctypes.c_void_p(start + 4090), 16)
    os.unlink("sub/times")
    return error == errno.EFAULT and value != 0


@steady()
def a_caller_that_cannot_be_read():
    LIBC.prctl(4, 0, 0, 0, 0)
    return works("sub/inner-folder/works")


@steady()
def children_that_share_memory():
    """Python starts programs by `vfork`; the folder and the files are those of the child."""
    subprocess.run(["sh", "-c", "mkdir works && rmdir works"], cwd=WORK + "/sub", check=True)
    file = open(WORK + "/sub/by-child", "w")
    subprocess.run(["sh", "-c", "echo x >&3; mkdir sub/v && rmdir sub/v"], check=True, pass_fds=[file.fileno()],
                   preexec_fn=lambda: os.dup2(file.fileno(), 3))
    return read(WORK + "/sub/by-child") == b"x\n"


@steady()
def a_folder_of_a_thread_alone():
    """Each thread can have a working folder of its own."""
    made = []
    def inner():
        call("unshare", 0x200) if not CONFINED else None
        made.append(works("sub/inner-folder/works"))
    thread = threading.Thread(target=inner)
    thread.start()
    thread.join()
    return made == [True]


@steady()
def pipes_that_nobody_opens():
    os.mkfifo("sub/pipe")
    started = []
    for _ in range(80):
        pid = os.fork()
        if pid == 0:
            quietly(os.open, "sub/pipe", os.O_WRONLY)
            os._exit(0)
        started.append(pid)
    done = works()
    [os.kill(pid, signal.SIGKILL) for pid in started]
    [os.waitpid(pid, 0) for pid in started]
    os.unlink("sub/pipe")
    return done


@steady()
def descriptors_of_the_wrong_kind():
    reading, writing = os.pipe()
    event, pair = os.eventfd(0), socket.socketpair()
    kinds = [reading, writing, event, os.memfd_create("x"), os.open("file", os.O_RDONLY), pair[0].fileno()]
    errors = {refused("mkdirat", at, "made", 0o777) for at in kinds}
    bad = {refused("mkdirat", at, "made", 0o777) for at in (-1, 9999, 1 << 31)}
    proc = [refused("mkdirat", os.open("/proc/self", os.O_PATH), "made", 0o777)]
    return errors <= {errno.ENOTDIR, errno.EACCES} and bad <= {errno.EBADF} and 0 not in proc


@steady()
def paths_that_are_empty():
    errors = [refused("mkdirat", AT_FDCWD, b"", 0o777), refused("openat", AT_FDCWD, b"", os.O_CREAT | os.O_WRONLY, 0o644),
              refused("truncate", b"", 0), refused("fchmodat", AT_FDCWD, b"", 0o777),
              refused("renameat2", AT_FDCWD, b"", AT_FDCWD, "sub/x", 0)]
    return set(errors) == {errno.ENOENT}


@steady()
def files_named_by_descriptors():
    write("sub/named", "x")
    file = os.open("sub/named", os.O_RDWR)
    for name in (f"/proc/self/fd/{file}", f"/dev/fd/{file}", f"/proc/thread-self/fd/{file}"):
        os.chmod(name, 0o640)
        os.close(os.open(name, os.O_WRONLY))
    call("fchownat", file, b"", os.geteuid(), os.getegid(), AT_EMPTY_PATH)
    os.fchmod(file, 0o600)
    mode = os.stat("sub/named").st_mode & 0o777
    os.unlink("sub/named")
    os.fchmod(file, 0o644)
    os.fchmod(os.memfd_create("x"), 0o600)
    return mode == 0o600


@steady()
def flags_that_do_not_exist():
    write("sub/flagged")
    unknown = 1 << 30
    errors = [refused("linkat", AT_FDCWD, "sub/flagged", AT_FDCWD, "sub/more", unknown),
              refused("renameat2", AT_FDCWD, "sub/flagged", AT_FDCWD, "sub/more", unknown),
              refused("fchownat", AT_FDCWD, "sub/flagged", -1, -1, unknown),
              refused("utimensat", AT_FDCWD, "sub/flagged", None, unknown),
              refused("renameat2", AT_FDCWD, "sub/flagged", AT_FDCWD, "sub/inner", 3)]
    made = os.path.exists("sub/more")
    os.unlink("sub/flagged")
    return all(errors) and not made


@steady()
def a_file_that_is_only_named():
    file = os.open("sub/inner", os.O_PATH)
    folder = os.open("sub", os.O_PATH)
    os.close(os.open("inner", os.O_WRONLY, dir_fd=folder))
    return refused("fchmodat", file, b"", 0o777) != 0 and os.path.samestat(os.fstat(file), os.stat("sub/inner"))


@steady()
def masks_of_processes_differ():
    """Files get the mask of the process that makes them, while another one has another."""
    pid = os.fork()
    end = time.monotonic() + 0.3
    mask, expected, name = (0o000, 0o666, "sub/open") if pid == 0 else (0o077, 0o600, "sub/closed")
    os.umask(mask)
    right = True
    while time.monotonic() < end and right:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        right = os.stat(name).st_mode & 0o777 == expected
        os.unlink(name)
    if pid == 0:
        os._exit(0 if right else 1)
    return right and os.waitpid(pid, 0)[1] == 0


@steady()
def limits_of_open_files_hold():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    opened = []
    try:
        while len(opened) < 100:
            opened.append(os.open(f"sub/many", os.O_CREAT | os.O_RDWR))
    except OSError as error:
        [os.close(file) for file in opened]
        os.unlink("sub/many")
        return error.errno == errno.EMFILE and len(opened) < 64
    return False


@steady()
def a_call_goes_on_after_signals():
    """A handled signal neither fails a call nor makes it twice, where the program asks for that."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    for number in range(40):
        works(f"sub/{number}-signalled")
    signal.setitimer(signal.ITIMER_REAL, 0)
    return True


@steady("hidden")
def what_is_not_hidden_is_read():
    return read("outer/open") == b"said\n" and len(os.listdir(".")) > 3 and works()


os.chdir(WORK) if sys.argv[1] != "outside" else None
main()
