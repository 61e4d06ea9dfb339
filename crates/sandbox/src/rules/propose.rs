//! Which prefix to offer for "do not ask again". Offers nothing for programs that run
//! whatever they are given, and nothing for what destroys.

use super::Context;
use super::danger;
use super::known::{SHELLS, base_name};
use super::parse::Command;
use super::places::places;
use super::prefix::{AmendmentError, program_file};
use super::word::quote;

/// Programs of which no prefix may be allowed: it would say too much. By kind.
const NEVER: [&[&str]; 5] =
    [SHELLS_AND_INTERPRETERS, STARTERS, EDITORS_AND_PAGERS, DESTROYERS, CARRIERS];

/// Shells, interpreters and build tools: they run whatever text they are given.
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

/// Editors and pagers: they start a shell, or write any file.
#[rustfmt::skip]
const EDITORS_AND_PAGERS: &[&str] = &[
    "ed", "emacs", "emacsclient", "ex", "info", "less", "man", "micro", "more", "most", "nano",
    "nvi", "nvim", "pg", "pico", "rview", "rvim", "vi", "view", "vim", "vimdiff",
];

/// What they change or end cannot be brought back, or is the machine.
#[rustfmt::skip]
const DESTROYERS: &[&str] = &[
    "apt", "apt-get", "cd", "chattr", "chgrp", "chmod", "chown", "dd", "fdisk", "halt", "init",
    "insmod", "install", "kill", "killall", "mkfs", "modprobe", "parted", "pkill", "poweroff",
    "reboot", "rm", "rmdir", "rsync", "scp", "setcap", "sfdisk", "sftp", "shred", "shutdown", "srm",
    "swapoff", "systemctl", "tee", "telinit", "truncate", "unlink", "wipefs",
];

/// They carry files or commands to and from other machines.
#[rustfmt::skip]
const CARRIERS: &[&str] = &[
    "ftp", "lftp", "nc", "ncat", "netcat", "rclone", "rlogin", "rsh", "socat", "telnet",
];

/// Programs that do what their first words say: the name alone says too little.
#[rustfmt::skip]
const NEED_A_VERB: &[&str] = &[
    "ant", "apk", "brew", "dnf", "dotnet", "dpkg", "flatpak", "gmake", "gradle", "helm", "ip",
    "iptables", "kubectl", "launchctl", "mount", "mvn", "nft", "ninja", "openssl", "pacman",
    "rake", "rpm", "service", "sysctl", "umount", "useradd", "userdel", "usermod", "yum", "zypper",
];

/// Subcommands that say enough about what a program will do. Of git those that take no
/// option which names a program.
const SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("cargo", &["bench", "build", "check", "clippy", "doc", "fmt", "metadata", "test", "tree"]),
    (
        "git",
        &[
            "add",
            "branch",
            "checkout",
            "cherry-pick",
            "commit",
            "init",
            "merge",
            "mv",
            "restore",
            "stash",
            "switch",
            "tag",
        ],
    ),
    ("go", &["build", "fmt", "list", "mod", "test", "vet"]),
    ("npm", &["ci", "install", "test"]),
    ("pnpm", &["install", "test"]),
    ("yarn", &["install", "test"]),
];

/// Verbs with which a program runs whatever the words after it name.
const STARTING_VERBS: &[(&str, &[&str])] = &[
    ("bundle", &["exec"]),
    ("go", &["run"]),
    ("npm", &["exec", "explore", "x"]),
    ("pipenv", &["run"]),
    ("pnpm", &["dlx", "exec"]),
    ("poetry", &["run"]),
    ("rustup", &["run"]),
    ("uv", &["run", "tool"]),
    ("yarn", &["dlx", "exec", "node"]),
];

/// Whether a program runs another that its arguments name.
pub(super) fn starts_others(name: &str) -> bool {
    STARTERS.contains(&name)
}

/// Whether a person who was asked about `commands` may allow `prefix` from now on: it is what was
/// `proposed`, or the beginning of one of the commands, and leaves something to say no to.
///
/// # Errors
/// Why not, in words for a person.
pub fn check_amendment(
    prefix: &[String],
    proposed: Option<&[String]>,
    commands: &[Vec<String>],
) -> Result<(), AmendmentError> {
    if prefix.is_empty() {
        return Err(AmendmentError::Empty);
    }
    if proposed == Some(prefix) {
        return Ok(());
    }
    if says_too_little(prefix) {
        return Err(AmendmentError::TooMuch(quote(prefix)));
    }
    if commands.is_empty() {
        return Err(AmendmentError::NotAmendable);
    }
    match commands.iter().any(|command| command.starts_with(prefix)) {
        true => Ok(()),
        false => Err(AmendmentError::NotAsked(quote(prefix))),
    }
}

/// The words of each command, up to the first that is not known before it runs.
pub(super) fn amendable(commands: &[Command]) -> Vec<Vec<String>> {
    let known = |command: &Command| -> Vec<String> {
        let known = command.words.iter().take_while(|word| !word.expands);
        known.map(|word| word.text.clone()).collect()
    };
    commands.iter().map(known).filter(|words| !words.is_empty()).collect()
}

/// Whether commands with this prefix can do anything.
fn says_too_little(prefix: &[String]) -> bool {
    let Some((program, rest)) = prefix.split_first() else { return true };
    let name = base_name(program);
    if runs_anything(name) {
        return true;
    }
    let starts = STARTING_VERBS.iter().find(|(program, _)| *program == name);
    let has_verbs = starts.is_some()
        || NEED_A_VERB.contains(&name)
        || SUBCOMMANDS.iter().any(|(program, _)| *program == name);
    match rest.split_first() {
        None => has_verbs,
        // What comes before the verb may rewrite what the verb does.
        Some((verb, _)) if verb.starts_with('-') => has_verbs,
        Some((verb, more)) => {
            more.is_empty() && starts.is_some_and(|(_, verbs)| verbs.contains(&verb.as_str()))
        }
    }
}

/// Programs for which no prefix is proposed nor taken.
fn runs_anything(name: &str) -> bool {
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || ".-".contains(c));
    let listed =
        |name: &str| NEVER.iter().any(|kind| kind.contains(&name)) || SHELLS.contains(&name);
    listed(name) || listed(unversioned) || runs_text(name)
}

/// The words that commands must begin with to run without asking, should the person agree:
/// program and subcommand where that says enough, else the whole command.
pub(super) fn amendment(commands: &[Command], context: &Context<'_>) -> Option<Vec<String>> {
    let [command] = commands else {
        return None;
    };
    let place = places(commands, context.cwd).pop()?;
    program_file(command, &place, context)?;
    let argv = command.argv();
    let name = base_name(argv.first()?);
    let dangerous = danger::any_dangerous(commands);
    if dangerous || runs_anything(name) {
        return None;
    }
    if command.words.iter().any(|word| word.expands) {
        return subcommand(name, &argv)
            .filter(|prefix| command.words.iter().take(prefix.len()).all(|word| !word.expands));
    }
    // What comes before git's subcommand may rewrite its configuration.
    let configured = name == "git" && argv.get(1).is_some_and(|word| word.starts_with('-'));
    match subcommand(name, &argv) {
        Some(prefix) => Some(prefix),
        None => (!configured).then_some(argv),
    }
}

/// `python3.12` and its like.
fn runs_text(name: &str) -> bool {
    ["python", "pypy", "mkfs"].iter().any(|stem| name.starts_with(stem))
}

fn subcommand(name: &str, argv: &[String]) -> Option<Vec<String>> {
    let (_, known) = SUBCOMMANDS.iter().find(|(program, _)| *program == name)?;
    let verb = argv.get(1)?;
    known.contains(&verb.as_str()).then(|| argv[..2].to_vec())
}
