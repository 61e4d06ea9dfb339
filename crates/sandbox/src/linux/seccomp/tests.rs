use super::*;

/// Interprets the filter like the kernel.
fn run(filter: &[Instruction], arch: u32, number: libc::c_long, args: [u32; 3]) -> u32 {
    let (mut at, mut a) = (0, 0u32);
    loop {
        let i = filter[at];
        at += 1;
        let branch = |yes: bool| usize::from(if yes { i.jump_true } else { i.jump_false });
        match i.code {
            LD_W_ABS => {
                a = match i.value {
                    OFFSET_NUMBER => number as u32,
                    OFFSET_ARCH => arch,
                    OFFSET_ARG0 => args[0],
                    OFFSET_ARG1 => args[1],
                    OFFSET_ARG2 => args[2],
                    OFFSET_ARG3 => 0,
                    high if high == OFFSET_ARG2 + 4 => 0,
                    other => panic!("load of {other}"),
                }
            }
            JEQ => at += branch(a == i.value),
            JGE => at += branch(a >= i.value),
            JSET => at += branch(a & i.value != 0),
            ALU_AND => a &= i.value,
            RET => return i.value,
            other => panic!("code {other}"),
        }
    }
}

#[test]
fn decisions() {
    let eperm = ERRNO | 1;
    let check = |network, metadata, number: libc::c_long, args: [i32; 3], expect: u32| {
        let files = if metadata { Files::Mounts } else { Files::Landlock };
        let network = if network { Network::Open } else { Network::None };
        let args = args.map(|arg| arg as u32);
        let got = run(&filter(network, files), AUDIT_ARCH, number, args);
        assert_eq!(got, expect, "{number} {args:?} network {network:?} metadata {metadata}");
    };
    for network in [false, true] {
        check(network, true, libc::SYS_read, [0; 3], ALLOW);
        check(network, true, libc::SYS_ptrace, [0; 3], eperm);
        check(network, true, libc::SYS_io_uring_setup, [0; 3], eperm);
        check(network, true, libc::SYS_clone, [libc::SIGCHLD, 0, 0], ALLOW);
        check(network, true, libc::SYS_clone, [libc::CLONE_NEWUSER, 0, 0], eperm);
        check(network, true, libc::SYS_clone3, [0; 3], ERRNO | libc::ENOSYS as u32);
        check(network, true, libc::SYS_ioctl, [0, 0x5412, 0], eperm);
        check(network, true, libc::SYS_ioctl, [0, 0x5413, 0], ALLOW);
        check(network, true, libc::SYS_socket, [libc::AF_UNIX, 1, 0], eperm);
        check(network, true, libc::SYS_socket, [libc::AF_VSOCK, 1, 0], eperm);
        check(network, true, libc::SYS_socket, [libc::AF_PACKET, 1, 0], eperm);
        check(network, true, libc::SYS_socketpair, [1, libc::SOCK_STREAM, 0], ALLOW);
        let stream = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        check(network, true, libc::SYS_socketpair, [1, stream, 0], ALLOW);
        check(network, true, libc::SYS_socketpair, [1, libc::SOCK_SEQPACKET, 0], ALLOW);
        check(network, true, libc::SYS_socketpair, [1, libc::SOCK_DGRAM, 0], eperm);
        check(network, true, libc::SYS_socketpair, [2, libc::SOCK_STREAM, 0], eperm);
    }
    check(false, true, libc::SYS_socket, [libc::AF_INET, 1, 0], eperm);
    check(true, true, libc::SYS_socket, [libc::AF_INET, 1, 0], ALLOW);
    check(true, true, libc::SYS_socket, [libc::AF_INET6, 1, 0], ALLOW);
    check(true, true, libc::SYS_socket, [libc::AF_NETLINK, 3, 0], ALLOW);
    check(true, true, libc::SYS_socket, [libc::AF_NETLINK, 3, 9], eperm);
    check(true, true, libc::SYS_fchmod, [0; 3], ALLOW);
    check(true, false, libc::SYS_fchmod, [0; 3], eperm);
    check(true, false, libc::SYS_ioctl, [0, FS_IOC_SETFLAGS as i32, 0], eperm);
}

#[test]
fn the_supervisor_is_asked_about_changes() {
    let check = |reads, number: libc::c_long, args: [i32; 3], expect: u32| {
        let args = args.map(|arg| arg as u32);
        let filter = filter(Network::None, Files::Supervisor { reads, signals: false });
        assert_eq!(run(&filter, AUDIT_ARCH, number, args), expect, "{number} {args:?} {reads}");
    };
    let no_such_call = ERRNO | libc::ENOSYS as u32;
    for reads in [false, true] {
        check(reads, libc::SYS_mkdirat, [0; 3], ASK);
        check(reads, libc::SYS_fchmod, [0; 3], ASK);
        check(reads, libc::SYS_utimensat, [0; 3], ASK);
        check(reads, libc::SYS_openat2, [0; 3], no_such_call);
        check(reads, FILE_SETATTR, [0; 3], no_such_call);
        check(reads, libc::SYS_openat, [0, 0, libc::O_WRONLY], ASK);
        check(reads, libc::SYS_openat, [0, 0, libc::O_CREAT], ASK);
        check(reads, libc::SYS_openat, [0, 0, libc::O_TRUNC], ASK);
        check(reads, libc::SYS_read, [0; 3], ALLOW);
        let closed = libc::O_CLOEXEC | libc::O_DIRECTORY;
        check(reads, libc::SYS_openat, [0, 0, closed], if reads { ASK } else { ALLOW });
    }
}

#[test]
fn processes_of_others_keep_their_limits_and_times() {
    let refused = ERRNO | 1;
    for (files, shared) in [
        (Files::Mounts, ALLOW),
        (Files::Landlock, refused),
        (Files::Supervisor { reads: false, signals: false }, refused),
    ] {
        let filter = filter(Network::Open, files);
        let check = |number: libc::c_long, args: [u32; 3], expect: u32| {
            let got = run(&filter, AUDIT_ARCH, number, args);
            assert_eq!(got, expect, "{number} {args:?} {files:?}");
        };
        for number in SHARED {
            check(*number, [0; 3], shared);
        }
        for number in SCHEDULING {
            check(*number, [0, 1, 1], ALLOW);
            check(*number, [7, 1, 1], shared);
        }
        check(libc::SYS_prlimit64, [0, 1, 1], ALLOW);
        check(libc::SYS_prlimit64, [7, 1, 0], ALLOW);
        check(libc::SYS_prlimit64, [7, 1, 1], shared);
        for (number, user) in [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)] {
            check(number, [0, 0, 5], ALLOW);
            check(number, [1, 0, 5], ALLOW);
            check(number, [1, 7, 5], shared);
            check(number, [user, 0, 5], shared);
        }
        for request in CHANGES_BY_REQUEST.iter().chain(&[0x5000_940e, 0x5000_9417]) {
            check(libc::SYS_ioctl, [0, *request, 0], shared);
        }
        for request in CLONES.iter().chain(&[0x8008_6601, 0x5413]) {
            check(libc::SYS_ioctl, [0, *request, 0], ALLOW);
        }
    }
}

#[test]
fn the_supervisor_is_asked_about_signals_where_landlock_is_not() {
    for signals in [false, true] {
        let filter = filter(Network::None, Files::Supervisor { reads: false, signals });
        let check = |number: libc::c_long, args: [u32; 3], expect: u32| {
            let expect = if signals { expect } else { ALLOW };
            assert_eq!(run(&filter, AUDIT_ARCH, number, args), expect, "{number} {args:?}");
        };
        for number in SIGNALS {
            check(*number, [7, 9, 9], ASK);
        }
        check(libc::SYS_pidfd_send_signal, [7, 9, 0], ERRNO | libc::ENOSYS as u32);
        check(libc::SYS_fcntl, [0, libc::F_SETOWN as u32, 7], ERRNO | 1);
        check(libc::SYS_fcntl, [0, libc::F_SETFL as u32, 7], ALLOW);
        check(libc::SYS_ioctl, [0, 0x8901, 7], ERRNO | 1);
        check(libc::SYS_ioctl, [0, 0x8902, 7], ERRNO | 1);
        check(libc::SYS_ioctl, [0, 0x5413, 7], ALLOW);
        check(libc::SYS_write, [0; 3], ALLOW);
    }
}

#[test]
fn the_supervisor_connects() {
    let check = |number: libc::c_long, args: [i32; 3], expect: u32| {
        let filter =
            filter(Network::Supervisor, Files::Supervisor { reads: false, signals: false });
        let args = args.map(|arg| arg as u32);
        assert_eq!(run(&filter, AUDIT_ARCH, number, args), expect, "{number} {args:?}");
    };
    let refused = ERRNO | 1;
    check(libc::SYS_socket, [libc::AF_INET, libc::SOCK_STREAM, 0], ASK);
    check(libc::SYS_socket, [libc::AF_INET6, libc::SOCK_DGRAM, 0], ASK);
    check(libc::SYS_socket, [libc::AF_UNIX, libc::SOCK_STREAM, 0], refused);
    check(libc::SYS_connect, [0; 3], ASK);
    check(libc::SYS_bind, [0; 3], refused);
    check(libc::SYS_listen, [0; 3], refused);
    check(libc::SYS_sendmsg, [0, 0, libc::MSG_FASTOPEN], refused);
    check(libc::SYS_sendmsg, [0, 0, libc::MSG_NOSIGNAL], ALLOW);
    check(libc::SYS_write, [0; 3], ALLOW);
    for (level, option, expect) in [
        (libc::SOL_SOCKET, libc::SO_BINDTODEVICE, refused),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, ALLOW),
        (libc::IPPROTO_IP, libc::IP_OPTIONS, refused),
        (libc::IPPROTO_IP, libc::IP_TOS, ALLOW),
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, refused),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, ALLOW),
        (libc::IPPROTO_IPV6, libc::IPV6_RTHDR, refused),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, ALLOW),
    ] {
        check(libc::SYS_setsockopt, [0, level, option], expect);
    }
}

#[test]
fn foreign_system_calls_are_refused() {
    let i386 = 0x4000_0003;
    assert_eq!(
        run(&filter(Network::Open, Files::Mounts), i386, libc::SYS_read, [0; 3]),
        KILL_PROCESS
    );
    #[cfg(target_arch = "x86_64")]
    {
        let x32_ptrace = libc::SYS_ptrace | libc::c_long::from(X32_BIT);
        let enosys = ERRNO | libc::ENOSYS as u32;
        assert_eq!(
            run(&filter(Network::Open, Files::Mounts), AUDIT_ARCH, x32_ptrace, [0; 3]),
            enosys
        );
    }
}

#[test]
fn bytes_round_trip() {
    let filter = filter(Network::Open, Files::Landlock);
    assert_eq!(from_bytes(&to_bytes(&filter)), filter);
}
