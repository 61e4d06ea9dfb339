//! Programs by name.

/// Shells whose `-c` scripts are assessed.
pub(super) const SHELLS: &[&str] = &["bash", "dash", "sh", "zsh"];

/// Programs of which no prefix can be allowed, because it would allow too much.
const NEVER: [&[&str]; 5] =
    [SHELLS_AND_INTERPRETERS, STARTERS, EDITORS_AND_PAGERS, DESTROYERS, CARRIERS];

/// Shells, interpreters and build tools, which run any text.
#[rustfmt::skip]
const SHELLS_AND_INTERPRETERS: &[&str] = &[
    ".", "R", "Rscript", "ash", "awk", "bb", "builtin", "bun", "bunx", "busybox", "clojure",
    "command", "csh", "deno", "elixir", "elvish", "erl", "eval", "exec", "expect", "fish", "gawk",
    "ghci", "groovy", "guile", "ipython", "ipython3", "irb", "java", "jruby", "jshell", "julia",
    "ksh", "ksh93", "lua", "luajit", "m4", "mawk", "mksh", "mono", "mysql", "node", "nodejs", "npx",
    "nu", "ocaml", "octave", "oksh", "osascript", "perl", "php", "pipx", "posh", "powershell",
    "psql", "pwsh", "qemu-aarch64", "qemu-x86_64", "racket", "rbash", "rlwrap", "ruby", "sbcl",
    "scala", "sed", "source", "sqlite3", "tclsh", "tcsh", "toybox", "ts-node", "tsx", "uvx", "wine",
    "wish", "xonsh", "yash", "zsh",
];

/// Programs that start others.
#[rustfmt::skip]
const STARTERS: &[&str] = &[
    "at", "batch", "bwrap", "capsh", "cgexec", "choom", "chroot", "chrt", "coproc", "crontab",
    "dbus-run-session", "doas", "docker", "entr", "env", "fakeroot", "faketime", "find", "firejail",
    "flock", "gdb", "gdbserver", "hyperfine", "i386", "ionice", "ld-linux-x86-64.so.2",
    "ld-linux.so.2", "ld.so", "linux32", "linux64", "lldb", "ltrace", "nice", "nohup", "nsenter",
    "nsjail", "numactl", "parallel", "perf", "pkexec", "podman", "prlimit", "proot", "proxychains",
    "run-parts", "runcon", "runuser", "screen", "script", "setarch", "setpriv", "setsid", "setuid",
    "sg", "ssh", "sshpass", "start-stop-daemon", "stdbuf", "strace", "su", "sudo",
    "systemd-inhibit", "systemd-nspawn", "systemd-run", "tar", "taskset", "tcpdump", "time",
    "timeout", "tini", "tmux", "torsocks", "uname26", "unbuffer", "unshare", "valgrind", "watch",
    "watchexec", "x86_64", "xargs", "xterm", "xvfb-run",
];

/// Editors and pagers, which start a shell or write any file.
#[rustfmt::skip]
const EDITORS_AND_PAGERS: &[&str] = &[
    "ed", "emacs", "emacsclient", "ex", "info", "less", "man", "micro", "more", "most", "nano",
    "nvi", "nvim", "pg", "pico", "rview", "rvim", "vi", "view", "vim", "vimdiff",
];

/// Programs with irrecoverable effects, or effects on the machine.
#[rustfmt::skip]
const DESTROYERS: &[&str] = &[
    "apt", "apt-get", "cd", "chattr", "chgrp", "chmod", "chown", "dd", "fdisk", "halt", "init",
    "insmod", "install", "kill", "killall", "mkfs", "modprobe", "parted", "pkill", "poweroff",
    "reboot", "rm", "rmdir", "rsync", "scp", "setcap", "sfdisk", "sftp", "shred", "shutdown", "srm",
    "swapoff", "systemctl", "tee", "telinit", "truncate", "unlink", "wipefs",
];

/// Programs that transfer files or commands between machines.
#[rustfmt::skip]
const CARRIERS: &[&str] = &[
    "ftp", "lftp", "nc", "ncat", "netcat", "rclone", "rlogin", "rsh", "socat", "telnet",
];

/// Programs whose first words determine the effect.
#[rustfmt::skip]
pub(super) const NEED_A_VERB: &[&str] = &[
    "ant", "apk", "brew", "dnf", "dotnet", "dpkg", "flatpak", "gmake", "gradle", "helm", "ip",
    "iptables", "kubectl", "launchctl", "mount", "mvn", "nft", "ninja", "openssl", "pacman",
    "rake", "rpm", "service", "sysctl", "umount", "useradd", "userdel", "usermod", "yum", "zypper",
];

/// The name of a program: the part after the last `/`.
pub(super) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns whether a program runs another one that its arguments name.
pub(super) fn starts_others(name: &str) -> bool {
    STARTERS.contains(&name)
}

/// Returns whether no prefix of a program is proposed or accepted.
pub(super) fn runs_anything(name: &str) -> bool {
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || ".-".contains(c));
    let listed =
        |name: &str| NEVER.iter().any(|kind| kind.contains(&name)) || SHELLS.contains(&name);
    listed(name) || listed(unversioned) || runs_text(name)
}

/// Names such as `python3.12`.
fn runs_text(name: &str) -> bool {
    ["python", "pypy", "mkfs"].iter().any(|stem| name.starts_with(stem))
}
