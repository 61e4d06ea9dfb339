//! Which prefix to offer for "do not ask again". Offers nothing for programs that run
//! whatever they are given, and nothing for what destroys.

use super::Context;
use super::danger;
use super::known::{SHELLS, base_name};
use super::parse::Command;
use super::places::places;
use super::prefix::program_file;

/// Programs that run other programs or text, or that destroy: a prefix would say too much.
const NEVER: &[&str] = &[
    "R",
    "apt",
    "apt-get",
    "at",
    "awk",
    "batch",
    "builtin",
    "bun",
    "bunx",
    "busybox",
    "cd",
    "chattr",
    "chmod",
    "chown",
    "chroot",
    "command",
    "crontab",
    "csh",
    "dd",
    "deno",
    "doas",
    "docker",
    "emacs",
    "env",
    "eval",
    "exec",
    "expect",
    "find",
    "fish",
    "flock",
    "gawk",
    "gdb",
    "ghci",
    "irb",
    "ionice",
    "java",
    "jshell",
    "kill",
    "killall",
    "ksh",
    "lua",
    "mawk",
    "nc",
    "ncat",
    "nice",
    "node",
    "nohup",
    "npx",
    "nsenter",
    "osascript",
    "parallel",
    "perl",
    "php",
    "pipx",
    "pkexec",
    "pkill",
    "podman",
    "pwsh",
    "rm",
    "rmdir",
    "rsync",
    "ruby",
    "script",
    "sed",
    "setsid",
    "shred",
    "socat",
    "source",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemctl",
    "tcsh",
    "tclsh",
    "tee",
    "time",
    "timeout",
    "toybox",
    "truncate",
    "ts-node",
    "tsx",
    "unshare",
    "uvx",
    "vi",
    "vim",
    "watch",
    "xargs",
    ".",
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
    if dangerous || NEVER.contains(&name) || SHELLS.contains(&name) || runs_text(name) {
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
