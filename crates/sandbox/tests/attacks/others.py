# Signals to processes outside. Signal 0 asks for the same permission as any other, and does nothing.
def protected_processes():
    """The supervisor of the command, the first process, and the launcher of commands."""
    return [TARGETS["server"]] if TARGETS["own_processes"] else [TARGETS["server"], SUPERVISOR, 1]


@attack()
def a_process_is_killed():
    pid = victim()["pid"]
    os.kill(pid, signal.SIGKILL)
    return True


@attack()
def a_process_is_stopped():
    pid = victim()["pid"]
    os.kill(pid, signal.SIGSTOP)
    return True


@attack()
def a_group_is_killed():
    pid = victim()["pid"]
    os.killpg(pid, signal.SIGKILL)
    return True


@attack()
def a_thread_is_killed():
    pid = victim()["pid"]
    return call("tkill", pid, signal.SIGKILL) == 0


@attack()
def a_thread_of_a_process_is_killed():
    pid = victim()["pid"]
    return call("tgkill", pid, pid, signal.SIGKILL) == 0


@attack()
def a_signal_is_queued():
    pid = victim()["pid"]
    return call("rt_sigqueueinfo", pid, 34, struct.pack("iii", 34, 0, -1) + bytes(116)) == 0


@attack()
def a_signal_is_queued_for_a_thread():
    pid = victim()["pid"]
    return call("rt_tgsigqueueinfo", pid, pid, 34, struct.pack("iii", 34, 0, -1) + bytes(116)) == 0


@attack()
def a_process_is_killed_by_descriptor():
    pid = victim()["pid"]
    return call("pidfd_send_signal", call("pidfd_open", pid, 0), signal.SIGKILL, None, 0) == 0


@attack()
def a_folder_of_proc_is_a_descriptor_of_a_process():
    pid = victim()["pid"]
    folder = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY)
    return call("pidfd_send_signal", folder, signal.SIGKILL, None, 0) == 0


@attack()
def a_pipe_signals_its_owner():
    """The kernel signals the owner of a pipe whenever something arrives, with a signal of its user's choice."""
    pid = victim()["pid"]
    reading, writing = os.pipe()
    fcntl.fcntl(reading, 10, signal.SIGTERM)
    fcntl.fcntl(reading, fcntl.F_SETOWN, pid)
    fcntl.fcntl(reading, fcntl.F_SETFL, os.O_NONBLOCK | getattr(os, "O_ASYNC", 0o20000))
    os.write(writing, b"x")
    for _ in range(40):
        state = read(f"/proc/{pid}/stat").decode().rsplit(") ")[1][0]
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


@attack()
def a_terminal_signals_a_group():
    """Typed text that interrupts goes to the group in front, which must be of the terminal's session."""
    pid = victim()["pid"]
    if not CONFINED:
        os.killpg(pid, 0)
        return True
    terminal = own_terminal()
    fcntl.ioctl(terminal, 0x5410, struct.pack("i", pid))
    return True


@attack()
def the_supervisor_the_first_process_and_the_server_are_signalled():
    def signalled(pid):
        try:
            os.kill(pid, 0)
            return True
        except OSError:
            return False
    return any(signalled(pid) for pid in protected_processes())


@attack()
def the_first_process_is_killed():
    """Of namespaces, whose end would be the end of all in there; this one is alive to say so."""
    if not TARGETS["own_processes"]:
        return not CONFINED
    for name in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
        quietly(os.kill, 1, name)
    return read("/proc/1/stat").decode().rsplit(") ")[1][0] in "TtZX"


@attack()
def memory_of_the_first_process_is_read():
    found = ["/proc/1/environ", f"/proc/{SUPERVISOR}/environ"]
    return any(quietly(read, path) is not None for path in found)


@attack()
def descriptors_of_the_supervisor_are_seen():
    found = [f"/proc/{pid}/fd/{number}" for pid in (1, SUPERVISOR) for number in range(9)]
    return any(quietly(os.readlink, path) for path in found)


# Limits and times of other processes.
@attack()
def limits_of_others_change():
    pid = victim()["pid"]
    call("prlimit64", pid, resource.RLIMIT_CORE, struct.pack("QQ", 0, 0), None)
    return True


@attack()
def processors_of_others_change():
    os.sched_setaffinity(victim()["pid"], {0})
    return True


@attack()
def the_scheduler_of_others_changes():
    os.sched_setscheduler(victim()["pid"], os.SCHED_IDLE, os.sched_param(0))
    return True


@attack()
def the_scheduler_of_others_changes_by_attributes():
    return call("sched_setattr", victim()["pid"], struct.pack("IIQiIQQQ", 48, 5, 0, 0, 0, 0, 0, 0), 0) == 0


@attack()
def the_priority_of_others_changes():
    os.setpriority(os.PRIO_PROCESS, victim()["pid"], 19)
    return True


@attack()
def the_priority_of_a_group_changes():
    os.setpriority(os.PRIO_PGRP, victim()["pid"], 19)
    return True


@attack()
def the_priority_of_files_changes():
    return call("ioprio_set", 1, victim()["pid"], 3 << 13) == 0


@steady()
def its_own_limits_and_times_change():
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.setpriority(os.PRIO_PROCESS, 0, 5)
    os.setpriority(os.PRIO_PGRP, 0, 5)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.prlimit(0, resource.RLIMIT_NOFILE)
    return os.getpriority(os.PRIO_PROCESS, 0) == 5


@steady()
def its_own_processes_are_signalled():
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        time.sleep(9)
        os._exit(0)
    for _ in range(100):
        if quietly(os.getpgid, pid) == pid:
            break
        time.sleep(0.01)
    os.killpg(pid, signal.SIGTERM)
    return os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGTERM


# Sockets.
def opens(family, kind, protocol=0):
    try:
        socket.socket(family, kind, protocol).close()
        return True
    except OSError as error:
        if error.errno in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT) and not CONFINED:
            raise Skip(f"the kernel has none ({os.strerror(error.errno)})") from error
        raise


@attack()
def internet_sockets_are_opened():
    return opens(socket.AF_INET, socket.SOCK_STREAM)


@attack()
def datagrams_are_sent():
    return opens(socket.AF_INET6, socket.SOCK_DGRAM)


@attack("files", "network", "managed")
def the_name_of_a_socket_is_connected():
    socket.socket(socket.AF_UNIX).connect(TARGETS["socket"])
    return True


@attack("files", "network", "managed")
def an_abstract_socket_is_connected():
    socket.socket(socket.AF_UNIX).connect(b"\0" + TARGETS["abstract"].encode())
    return True


@attack("files", "network", "managed")
def one_of_a_pair_is_connected_elsewhere():
    one, _other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.connect(b"\0" + TARGETS["abstract_datagrams"].encode())
    return True


@attack("files", "network", "managed")
def a_pair_of_raw_sockets_is_connected_elsewhere():
    """The kernel makes datagram sockets of them."""
    numbers = (ctypes.c_int * 2)()
    if LIBC.socketpair(socket.AF_UNIX, socket.SOCK_RAW, 0, numbers) < 0:
        return False
    socket.socket(fileno=numbers[0]).connect(b"\0" + TARGETS["abstract_datagrams"].encode())
    return True


@attack("files", "network", "managed")
def the_machine_below_is_connected():
    return opens(40, socket.SOCK_STREAM)


@attack("files", "network", "managed")
def ciphers_of_the_kernel_are_used():
    return opens(38, socket.SOCK_SEQPACKET)


@attack("files", "network", "managed")
def packets_are_captured():
    return opens(17, socket.SOCK_RAW, 0x300)


@attack("files", "network", "managed")
def raw_packets_are_sent():
    return opens(socket.AF_INET, socket.SOCK_RAW, 1)


@attack("files", "network", "managed")
def events_of_devices_are_received():
    return opens(16, socket.SOCK_RAW, 15)


@attack("files", "network", "managed")
def the_audit_is_reached():
    return opens(16, socket.SOCK_RAW, 9)


@attack("files", "network", "managed")
def generic_netlink_is_reached():
    return opens(16, socket.SOCK_RAW, 16)


@attack("files", "network", "managed")
def the_firewall_is_reached():
    return opens(16, socket.SOCK_RAW, 12)


@attack("files", "network", "managed")
def diagnoses_of_sockets_are_reached():
    return opens(16, socket.SOCK_RAW, 4)


@attack("files", "network", "managed")
def packets_bypass_the_kernel():
    return opens(44, socket.SOCK_RAW)


@attack("files", "network", "managed")
def files_are_served_to_others():
    """A socket with a name, in a folder that the command can write."""
    socket.socket(socket.AF_UNIX).bind(WORK + "/sub/socket")
    return True


@attack("managed")
def a_connection_by_datagrams():
    return opens(socket.AF_INET, socket.SOCK_DGRAM) and not TARGETS["own_processes"]


@attack("managed")
def a_connection_without_the_proxy():
    socket.create_connection(("127.0.0.1", TARGETS["port"]), 2)
    return True


@attack("managed")
def a_connection_while_sending():
    one = socket.socket()
    one.sendto(b"x", 0x20000000, ("127.0.0.1", TARGETS["port"]))
    return True


@attack("managed")
def a_connection_when_something_is_sent():
    """The kernel remembers the address, and connects by itself later."""
    one = socket.socket()
    one.setsockopt(socket.IPPROTO_TCP, 30, 1)
    one.connect(("127.0.0.1", TARGETS["port"]))
    return one.send(b"x") == 1


@attack("managed")
def a_route_is_chosen():
    """Packets of a connection go to another machine first."""
    one = socket.socket()
    one.setsockopt(socket.IPPROTO_IP, 4, bytes([0x83, 11, 4]) + socket.inet_aton("192.0.2.1") + socket.inet_aton("127.0.0.1") + b"\0")
    return not TARGETS["own_processes"]


@attack("managed")
def a_route_is_chosen_in_the_newer_internet():
    one = socket.socket(socket.AF_INET6)
    header = struct.pack("BBBBBBH", 0, 2, 4, 0, 0, 0, 0) + socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    try:
        one.setsockopt(socket.IPPROTO_IPV6, 57, header)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOPROTOOPT) and not CONFINED:
            raise Skip("the kernel has no such header") from error
        raise
    return not TARGETS["own_processes"]


@attack("managed")
def a_device_is_chosen():
    socket.socket().setsockopt(socket.SOL_SOCKET, 25, b"lo\0")
    return not TARGETS["own_processes"]


@attack("managed")
def connections_are_awaited():
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    one.listen()
    return not TARGETS["own_processes"]
