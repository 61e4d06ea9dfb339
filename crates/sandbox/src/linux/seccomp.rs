//! The system call filter of confined commands. Refuses calls that no sandboxed command needs, and
//! those that would lead out of the sandbox. Builds the filter; a layer installs it.
//!
//! If the network is off, no socket can be created, otherwise only internet sockets. Unix sockets
//! are always refused: neither a read-only mount nor a network namespace prevents connections to
//! `docker.sock` or a session bus, whose servers act outside of the sandbox. A connected pair
//! (`socketpair`) is allowed if its type cannot be connected elsewhere later.

use super::sys::Instruction;

const ALLOW: u32 = 0x7fff_0000;
/// The supervisor answers the call; without one, the call fails with ENOSYS.
const ASK: u32 = 0x7fc0_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the system call filter knows x86_64 and aarch64 only");

/// System calls of the x32 ABI share the architecture of x86_64 and have this bit set.
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;
const OFFSET_ARG0: u32 = 16;
const OFFSET_ARG1: u32 = 24;
const OFFSET_ARG2: u32 = 32;
const OFFSET_ARG3: u32 = 40;

/// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and, for `unshare`, NEWTIME.
const NEW_NAMESPACES: u32 = 0x7e02_0000;

/// Refused with EPERM whatever the arguments.
const REFUSED: &[libc::c_long] = &[
    // Other processes' memory and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Runs system calls without this filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Kernel keys are shared with processes outside of the sandbox.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Large attack surface, no use for ordinary commands.
    libc::SYS_userfaultfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Changes of owner, mode, times and attributes, which Landlock does not control.
const METADATA: &[libc::c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Objects of the machine that have a number or a name instead of a path, so that Landlock does not control them. In
/// namespaces, a command has its own.
const SHARED: &[libc::c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Change how the process or thread with the number in the first argument is scheduled. Zero is the caller.
const SCHEDULING: &[libc::c_long] = &[
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
];

// Newer than the constants of the libc crate. The numbers are the same on all architectures.
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
const OPEN_TREE_ATTR: libc::c_long = 467;
const FILE_SETATTR: libc::c_long = 469;

/// Changes of names and contents by path. Landlock controls them, more strictly than a workspace policy does; the
/// supervisor makes those that the policy allows.
pub(crate) const BY_PATH: &[libc::c_long] = &[
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_truncate,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    libc::SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
];

/// Sends a signal to the process or thread, or with `kill` the processes, of a number.
pub(crate) const SIGNALS: &[libc::c_long] = &[
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
];

/// Have the kernel signal a process when something arrives.
const OWNERS_OF_FILES: [i32; 2] = [libc::F_SETOWN, 15];
const OWNERS_OF_SOCKETS: [u32; 2] = [0x8901, 0x8902];

/// Opens a file, with flags in the third argument or, where there is a second call, in its second.
pub(crate) const OPEN: &[libc::c_long] = &[
    libc::SYS_openat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
];

/// Without these, programs use older calls, whose arguments a supervisor can read once and for all.
const NEWER: &[libc::c_long] =
    &[libc::SYS_openat2, libc::SYS_fchmodat2, SETXATTRAT, REMOVEXATTRAT, FILE_SETATTR];

/// Types into the terminal that a command reads.
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
/// Change attributes of a file that is not open for writing, which Landlock does not control: flags, versions,
/// verity, encryption, and the attributes of FAT.
const CHANGES_BY_REQUEST: [u32; 7] =
    [FS_IOC_SETFLAGS, 0x401c_5820, 0x4008_6604, 0x4008_7602, 0x4080_6685, 0x800c_6613, 0x4004_7211];
/// The requests of Btrfs. Some of them make, replace and remove entries of a folder that is open for reading.
const BTRFS: u32 = 0x9400;
const REQUEST_KIND: u32 = 0xff00;
/// Requests of that kind that all file systems have, for files that are open for writing.
const CLONES: [u32; 3] = [0x4004_9409, 0x4020_940d, 0xc018_9436];

/// Who decides about changes of files beyond what Landlock allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// The mounts of the command's namespaces.
    Mounts,
    /// No one: owners, modes and times cannot be changed, because Landlock cannot restrict that to writable roots.
    Landlock,
    /// The supervisor, which is asked about each change, with `reads` also about each file that is only read, and with
    /// `signals` about each signal.
    Supervisor { reads: bool, signals: bool },
}

/// The network of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// No socket is opened.
    None,
    /// Internet sockets are.
    Open,
    /// The supervisor opens and connects TCP sockets, and there are no others.
    Supervisor,
}

/// A filter of one instruction, which changes nothing.
pub(crate) fn allow_all() -> Instruction {
    ret(ALLOW)
}

/// The filter.
pub(crate) fn filter(network: Network, files: Files) -> Vec<Instruction> {
    let mut program = vec![
        load(OFFSET_ARCH),
        jump_if_equal(AUDIT_ARCH, 1, 0),
        ret(KILL_PROCESS),
        load(OFFSET_NUMBER),
    ];
    #[cfg(target_arch = "x86_64")]
    program.extend([jump(JGE, X32_BIT, 0, 1), refuse(libc::ENOSYS)]);
    let mut each = |numbers: &[libc::c_long], action: u32| {
        for number in numbers {
            program.extend([jump_if_equal(nr(*number), 0, 1), ret(action)]);
        }
    };
    let refused = ERRNO | libc::EPERM.unsigned_abs();
    each(REFUSED, refused);
    match files {
        Files::Mounts => {}
        Files::Landlock => {
            each(SHARED, refused);
            each(METADATA, refused);
        }
        Files::Supervisor { reads, signals } => {
            if signals {
                each(SIGNALS, ASK);
                // Programs use `kill` without it. The descriptor could change while the supervisor looks at it.
                each(&[libc::SYS_pidfd_send_signal], ERRNO | libc::ENOSYS.unsigned_abs());
            }
            each(SHARED, refused);
            each(NEWER, ERRNO | libc::ENOSYS.unsigned_abs());
            each(METADATA, ASK);
            each(BY_PATH, ASK);
            for (number, flags) in OPEN.iter().zip([OFFSET_ARG2, OFFSET_ARG1]) {
                when(&mut program, *number, &open_rules(flags, reads));
            }
        }
    }
    // On ENOSYS, the C library falls back to `clone`, whose flags a filter can check.
    program.extend([jump_if_equal(nr(libc::SYS_clone3), 0, 1), refuse(libc::ENOSYS)]);
    when(&mut program, libc::SYS_clone, &clone_rules());
    if matches!(files, Files::Supervisor { signals: true, .. }) {
        refuse_owners(&mut program);
    }
    when(&mut program, libc::SYS_ioctl, &ioctl_rules(files == Files::Mounts));
    if files != Files::Mounts {
        refuse_processes_of_others(&mut program);
    }
    when(&mut program, libc::SYS_socketpair, &socketpair_rules());
    when(&mut program, libc::SYS_socket, &socket_rules(network));
    if network == Network::Supervisor {
        program.extend([jump_if_equal(nr(libc::SYS_connect), 0, 1), ret(ASK)]);
        for number in [libc::SYS_bind, libc::SYS_listen] {
            program.extend([jump_if_equal(nr(number), 0, 1), refuse(libc::EPERM)]);
        }
        when(&mut program, libc::SYS_setsockopt, &option_rules());
        for (number, flags) in SENDS.iter().zip([OFFSET_ARG3, OFFSET_ARG2, OFFSET_ARG3]) {
            when(&mut program, *number, &send_rules(flags));
        }
    }
    program.push(ret(ALLOW));
    program
}

/// The filter in the form in which it is sent to a supervisor: instructions in native byte order.
pub(crate) fn to_bytes(filter: &[Instruction]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(filter));
    for instruction in filter {
        bytes.extend(instruction.code.to_ne_bytes());
        bytes.extend([instruction.jump_true, instruction.jump_false]);
        bytes.extend(instruction.value.to_ne_bytes());
    }
    bytes
}

/// The reverse of [`to_bytes`]; ignores an incomplete last instruction.
pub(crate) fn from_bytes(bytes: &[u8]) -> Vec<Instruction> {
    let (instructions, _) = bytes.as_chunks::<8>();
    let instruction = |b: &[u8; 8]| Instruction {
        code: u16::from_ne_bytes([b[0], b[1]]),
        jump_true: b[2],
        jump_false: b[3],
        value: u32::from_ne_bytes([b[4], b[5], b[6], b[7]]),
    };
    instructions.iter().map(instruction).collect()
}

fn clone_rules() -> Vec<Instruction> {
    vec![load(OFFSET_ARG0), jump(JSET, NEW_NAMESPACES, 0, 1), refuse(libc::EPERM), ret(ALLOW)]
}

fn ioctl_rules(metadata: bool) -> Vec<Instruction> {
    let mut rules = vec![load(OFFSET_ARG1)];
    let attributes: &[u32] = if metadata { &[] } else { &CHANGES_BY_REQUEST };
    for request in [TIOCSTI, TIOCLINUX].iter().chain(attributes) {
        rules.extend([jump_if_equal(*request, 0, 1), refuse(libc::EPERM)]);
    }
    if !metadata {
        for request in CLONES {
            rules.extend([jump_if_equal(request, 0, 1), ret(ALLOW)]);
        }
        rules.push(Instruction { code: ALU_AND, jump_true: 0, jump_false: 0, value: REQUEST_KIND });
        rules.extend([jump_if_equal(BTRFS, 0, 1), refuse(libc::EPERM)]);
    }
    rules.push(ret(ALLOW));
    rules
}

/// Lets no process become the one that the kernel signals for a file or socket.
fn refuse_owners(program: &mut Vec<Instruction>) {
    let mut rules = vec![load(OFFSET_ARG1)];
    for command in OWNERS_OF_FILES {
        rules.extend([jump_if_equal(command.unsigned_abs(), 0, 1), refuse(libc::EPERM)]);
    }
    rules.push(ret(ALLOW));
    when(program, libc::SYS_fcntl, &rules);
    // Other requests are decided about later.
    for request in OWNERS_OF_SOCKETS {
        let number = [jump_if_equal(nr(libc::SYS_ioctl), 0, 3), load(OFFSET_ARG1)];
        program.extend(number);
        program.extend([jump_if_equal(request, 0, 1), refuse(libc::EPERM)]);
        program.push(load(OFFSET_NUMBER));
    }
}

/// Lets limits and times of the calling process change, and not those of the machine's other processes. Landlock does
/// not control them, and without namespaces they have numbers.
fn refuse_processes_of_others(program: &mut Vec<Instruction>) {
    for number in SCHEDULING {
        let itself = [load(OFFSET_ARG0), jump_if_equal(0, 1, 0), refuse(libc::EPERM), ret(ALLOW)];
        when(program, *number, &itself);
    }
    let limits = [
        load(OFFSET_ARG0),
        jump_if_equal(0, 5, 0),
        // The address of new limits: without, they are only read.
        load(OFFSET_ARG2),
        jump_if_equal(0, 0, 2),
        load(OFFSET_ARG2 + 4),
        jump_if_equal(0, 1, 0),
        refuse(libc::EPERM),
        ret(ALLOW),
    ];
    when(program, libc::SYS_prlimit64, &limits);
    for (number, user) in [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)] {
        // The caller or its group, and not all processes of its user.
        let own = [
            load(OFFSET_ARG1),
            jump_if_equal(0, 1, 0),
            refuse(libc::EPERM),
            load(OFFSET_ARG0),
            jump_if_equal(user, 0, 1),
            refuse(libc::EPERM),
            ret(ALLOW),
        ];
        when(program, number, &own);
    }
}

/// Asks about what can change a file, or create one. The flags are not in memory, so that they stay as they are.
fn open_rules(flags: u32, reads: bool) -> Vec<Instruction> {
    if reads {
        return vec![ret(ASK)];
    }
    let changes = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
    vec![load(flags), jump(JSET, changes.unsigned_abs(), 0, 1), ret(ASK), ret(ALLOW)]
}

/// Allows Unix pairs of type STREAM or SEQPACKET; a datagram socket could be connected elsewhere.
fn socketpair_rules() -> Vec<Instruction> {
    const TYPE_MASK: u32 = 0xf;
    vec![
        load(OFFSET_ARG0),
        jump_if_equal(libc::AF_UNIX.unsigned_abs(), 1, 0),
        refuse(libc::EPERM),
        load(OFFSET_ARG1),
        Instruction { code: ALU_AND, jump_true: 0, jump_false: 0, value: TYPE_MASK },
        jump_if_equal(libc::SOCK_STREAM.unsigned_abs(), 1, 0),
        jump_if_equal(libc::SOCK_SEQPACKET.unsigned_abs(), 0, 1),
        ret(ALLOW),
        refuse(libc::EPERM),
    ]
}

/// The calls that can connect a socket while they send.
const SENDS: [libc::c_long; 3] = [libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg];

/// Refuses options that lead a connection elsewhere than the supervisor has connected it: one that the kernel makes
/// later, a route or a device of the caller's choice.
fn option_rules() -> Vec<Instruction> {
    const REFUSED: [(i32, &[u32]); 4] = [
        (libc::SOL_SOCKET, &[25, 62]),
        (libc::IPPROTO_IP, &[4]),
        (libc::IPPROTO_TCP, &[30]),
        (libc::IPPROTO_IPV6, &[5, 6, 54, 55, 57, 59]),
    ];
    let mut rules = Vec::new();
    for (level, options) in REFUSED {
        let skip = u8::try_from(options.len() * 2 + 1).unwrap_or(u8::MAX);
        rules.extend([load(OFFSET_ARG1), jump_if_equal(level.unsigned_abs(), 0, skip)]);
        rules.push(load(OFFSET_ARG2));
        for option in options {
            rules.extend([jump_if_equal(*option, 0, 1), refuse(libc::EPERM)]);
        }
    }
    rules.push(ret(ALLOW));
    rules
}

/// Refuses to connect by sending.
fn send_rules(flags: u32) -> Vec<Instruction> {
    let connects = libc::MSG_FASTOPEN.unsigned_abs();
    vec![load(flags), jump(JSET, connects, 0, 1), refuse(libc::EPERM), ret(ALLOW)]
}

/// Allows internet sockets, and the netlink protocol that lists interfaces and routes.
fn socket_rules(network: Network) -> Vec<Instruction> {
    let internet = match network {
        Network::None => return vec![refuse(libc::EPERM)],
        Network::Open => ret(ALLOW),
        Network::Supervisor => ret(ASK),
    };
    vec![
        load(OFFSET_ARG0),
        jump_if_equal(libc::AF_INET.unsigned_abs(), 1, 0),
        jump_if_equal(libc::AF_INET6.unsigned_abs(), 0, 1),
        internet,
        jump_if_equal(libc::AF_NETLINK.unsigned_abs(), 1, 0),
        refuse(libc::EPERM),
        load(OFFSET_ARG2),
        jump_if_equal(libc::NETLINK_ROUTE.unsigned_abs(), 1, 0),
        refuse(libc::EPERM),
        ret(ALLOW),
    ]
}

/// Runs `rules`, which must return, for a system call.
fn when(program: &mut Vec<Instruction>, number: libc::c_long, rules: &[Instruction]) {
    let skip = u8::try_from(rules.len()).expect("the rules of one call are a few dozen at most");
    program.push(jump_if_equal(nr(number), 0, skip));
    program.extend_from_slice(rules);
}

fn nr(number: libc::c_long) -> u32 {
    u32::try_from(number).expect("system call numbers are small and positive")
}

const LD_W_ABS: u16 = 0x20;
const JEQ: u16 = 0x15;
const JGE: u16 = 0x35;
const JSET: u16 = 0x45;
const ALU_AND: u16 = 0x54;
const RET: u16 = 0x06;

fn load(offset: u32) -> Instruction {
    Instruction { code: LD_W_ABS, jump_true: 0, jump_false: 0, value: offset }
}

fn jump(code: u16, value: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction { code, jump_true, jump_false, value }
}

fn jump_if_equal(value: u32, jump_true: u8, jump_false: u8) -> Instruction {
    jump(JEQ, value, jump_true, jump_false)
}

fn ret(value: u32) -> Instruction {
    Instruction { code: RET, jump_true: 0, jump_false: 0, value }
}

fn refuse(errno: i32) -> Instruction {
    ret(ERRNO | errno.unsigned_abs())
}

#[cfg(test)]
mod tests;
