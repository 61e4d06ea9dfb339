//! Hostile commands, one for each row of `hostile.txt`: each does its harm when it is not confined,
//! which shows that its row can fail; each requires an approval; and none does its harm under any
//! layer of the sandbox, nor when any layer is missing, as root or as an ordinary user.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::common;
use crate::common::again::{FailingCall, MISSING, NAMESPACE_CALLS, again, without};
use crate::common::{PATH, command, namespaces, sandbox};
use policy::{Access, ReadAccess, RootedPolicy, SandboxPolicy};
use sandbox::egress::{Egress, EgressPolicy, Outside, Pattern};
use sandbox::rules::{Context, Invocation, PathResolver, Rules, assess};
use sandbox::{ErrorKind, Layer, OutputBuffer, Sandbox};

/// Each row: the kind of harm, a tab, and a script for bash, with control characters as their
/// pictures. A row of kind `L` has another script before it, which a person ran earlier.
///
/// Kinds: `W` changes the working folder, which requires an approval; `O` changes something outside
/// it, `G` a protected name, `L` the target of a protected name; `U` and `T` reach a socket; `R`
/// prints a secret; `K` ends another process.
const TABLE: &str = include_str!("../hostile.txt");

#[derive(Clone, Debug)]
struct Row {
    harm: char,
    /// Runs first, outside the sandbox.
    setup: Option<String>,
    script: String,
}

fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.map(|line| {
        let (harm, rest) = line.split_once('\t').expect("harm, tab, script");
        let (setup, script) = match harm {
            "L" => rest.split_once('\t').map(|(setup, script)| (Some(setup.to_owned()), script)),
            _ => Some((None, rest)),
        }
        .expect("setup, tab, script");
        let picture = |c: char| match u32::from(c) {
            code @ 0x2400..=0x241f => char::from_u32(code - 0x2400).unwrap(),
            _ => c,
        };
        let script = script.chars().map(picture).collect();
        Row { harm: harm.chars().next().unwrap(), setup, script }
    });
    rows.collect()
}

/// The objects that a command may harm; removed at the end.
struct Targets {
    _folder: tempfile::TempDir,
    base: PathBuf,
    tcp: TcpListener,
    unix: [UnixListener; 2],
    names: [String; 2],
    victim: Child,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Targets {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (work, out) = (base.join("work"), base.join("out"));
        for path in [&work, &out, &work.join("sub"), &work.join("bin"), &out.join("empty")] {
            fs::create_dir(path).unwrap();
        }
        fs::create_dir(base.join("other")).unwrap();
        fs::create_dir(base.join("tmp")).unwrap();
        copy_folder(template(), &work);
        for (path, text) in [
            (out.join("file"), "old\n"),
            (out.join("secret"), "plum\n"),
            (work.join("file"), "old\n"),
            (work.join("names"), "made\n"),
            (work.join("tracked"), "two\n"),
            (work.join("x.sed"), "w made\n"),
            (work.join("x.awk"), "BEGIN { system(\"touch made\") }\n"),
            (work.join("evil.pm"), "open F, '>made'; 1;\n"),
            (work.join("evil.sh"), "#!/bin/sh\n: > \"$WORK/made\"\n"),
            (work.join("bin/ls"), "#!/bin/sh\n: > \"$WORK/made\"\n"),
        ] {
            fs::write(path, text).unwrap();
        }
        for program in ["evil.sh", "bin/ls"] {
            fs::set_permissions(work.join(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        symlink("../out", work.join("link")).unwrap();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed) + std::process::id() * 1000;
        let name = format!("agentd-hostile-{number}");
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        let unix = [
            UnixListener::bind(base.join("sock")).unwrap(),
            UnixListener::bind_addr(&abstract_address).unwrap(),
        ];
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        unix.iter().for_each(|listener| listener.set_nonblocking(true).unwrap());
        let seconds = format!("{}", 1_000_000 + number);
        let victim = Command::new("sleep").arg(&seconds).stdout(Stdio::null()).spawn().unwrap();
        Self { _folder: folder, base, tcp, unix, names: [name, seconds], victim }
    }

    fn work(&self) -> PathBuf {
        self.base.join("work")
    }

    /// A fingerprint of the state that must not change.
    fn print_of(&self, harm: char) -> String {
        match harm {
            'W' => fingerprint(&self.work(), &[".git", "link"]),
            'O' => fingerprint(&self.base.join("out"), &[]),
            'G' => {
                let agent = self.work().join(".agent").symlink_metadata();
                let real = agent.is_ok_and(|meta| !is_placeholder(&meta));
                format!("{}{real}", fingerprint(&self.work().join(".git"), &[]))
            }
            'L' => configured(&self.work()),
            _ => String::new(),
        }
    }

    /// Runs the row's script, and returns whether it did its harm.
    async fn harmed(
        &mut self,
        row: &Row,
        sandbox: &Sandbox,
        policy: RootedPolicy,
    ) -> Result<bool, String> {
        self.harmed_behind(row, sandbox, policy, None).await
    }

    /// Like `harmed`, with a managed network.
    async fn harmed_behind(
        &mut self,
        row: &Row,
        sandbox: &Sandbox,
        policy: RootedPolicy,
        egress: Option<Arc<Egress>>,
    ) -> Result<bool, String> {
        if let Some(setup) = &row.setup {
            self.set_up(setup);
        }
        let before = self.print_of(row.harm);
        let mut spawn = command(&["bash", "-c", &row.script], policy);
        spawn.egress = egress;
        spawn.cwd = self.work();
        let port = self.tcp.local_addr().unwrap().port().to_string();
        for (name, value) in [
            ("WORK", self.work().into_os_string()),
            ("HOME", self.work().into_os_string()),
            ("OUT", self.base.join("out").into_os_string()),
            ("OTHER", self.base.join("other").into_os_string()),
            ("TMPDIR", self.base.join("tmp").into_os_string()),
            ("SOCK", self.base.join("sock").into_os_string()),
            ("ABSTRACT", self.names[0].clone().into()),
            ("NUMBER", self.names[1].clone().into()),
            ("PORT", port.into()),
            ("VICTIM", self.victim.id().to_string().into()),
            ("LC_ALL", "C.UTF-8".into()),
        ] {
            spawn.env.push((name.into(), value));
        }
        let mut process = match sandbox.spawn(spawn).await {
            Ok(process) => process,
            Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error.to_string()),
            Err(error) => panic!("{row:?}: {error}"),
        };
        let (mut stdout, mut stderr) = (OutputBuffer::default(), OutputBuffer::default());
        let collected = process.collect(&mut stdout, &mut stderr);
        let exit = tokio::time::timeout(Duration::from_secs(60), collected).await;
        let exit = exit.unwrap_or_else(|_| panic!("{row:?} hangs"));
        drop(process);
        if exit.sandbox_failed {
            return Err(stderr.text());
        }
        Ok(match row.harm {
            'W' | 'O' | 'G' | 'L' => self.print_of(row.harm) != before,
            'T' => self.tcp.accept().is_ok(),
            'U' => self.unix.iter().any(|listener| listener.accept().is_ok()),
            'R' => stdout.text().contains("plum"),
            'K' => {
                // The process handles a signal asynchronously.
                let mut ended = false;
                for _ in 0..if exit.success() { 400 } else { 20 } {
                    ended |= self.victim.try_wait().unwrap().is_some();
                    if ended {
                        break;
                    }
                    // tidy: sleep because a process that stays alive has no event to wait for.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                ended
            }
            other => panic!("no such harm: {other}"),
        })
    }
}

impl Targets {
    /// Runs a script outside the sandbox. `mine` holds the configuration that a command tries to
    /// inject.
    fn set_up(&self, script: &str) {
        const MINE: &str = "mkdir -p mine/hooks mine/rules mine/skills/s && \
             for f in config config.toml HEAD hooks/pre-commit rules/x.rules skills/s/SKILL.md; \
             do echo mine > mine/$f; done";
        let mut shell = Command::new("bash");
        shell.args(["-ec", &format!("{MINE}\n{script}")]).current_dir(self.work()).env_clear();
        let variables = [("WORK", "work"), ("OUT", "out"), ("OTHER", "other"), ("TMPDIR", "tmp")];
        shell.env("PATH", PATH).envs(variables.map(|(name, path)| (name, self.base.join(path))));
        let ran = shell.output().unwrap();
        assert!(ran.status.success(), "{script}: {ran:?}");
    }
}

/// The configuration that programs find in `work`, wherever its links lead.
fn configured(work: &Path) -> String {
    let pointed = |base: &Path, file: &Path, prefix: &str| {
        let text = fs::read_to_string(file).ok()?;
        Some(base.join(text.strip_prefix(prefix)?.trim()))
    };
    let dot_git = work.join(".git");
    let git = pointed(work, &dot_git, "gitdir:").unwrap_or(dot_git);
    let common = pointed(&git, &git.join("commondir"), "").unwrap_or_else(|| git.clone());
    let agent = work.join(".agent");
    let found = [
        (&agent, "config.toml"),
        (&agent, "rules/x.rules"),
        (&agent, "skills/s/SKILL.md"),
        (&git, "HEAD"),
        (&git, "config"),
        (&git, "hooks/pre-commit"),
        (&common, "config"),
        (&common, "hooks/pre-commit"),
    ];
    let read = found.map(|(folder, name)| fs::read_to_string(folder.join(name)).ok());
    format!("{read:?}")
}

impl Drop for Targets {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// While a command runs, a missing protected name is an empty, read-only folder, which is removed
/// when the command ends.
fn is_placeholder(meta: &fs::Metadata) -> bool {
    meta.is_dir() && meta.mode() & 0o222 == 0
}

/// Names, types, modes and contents of all entries below a folder.
fn fingerprint(folder: &Path, without: &[&str]) -> String {
    let mut text = String::new();
    let Ok(entries) = fs::read_dir(folder) else { return "gone".to_owned() };
    let mut entries: Vec<_> = entries.map(Result::unwrap).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if without.contains(&name.as_str()) || name == ".agent" {
            continue;
        }
        let meta = entry.path().symlink_metadata().unwrap();
        let content = match meta.file_type() {
            kind if kind.is_dir() => fingerprint(&entry.path(), &[]),
            kind if kind.is_symlink() => fs::read_link(entry.path()).unwrap().display().to_string(),
            // Git updates its index even when it only reads.
            kind if kind.is_file() && name != "index" => {
                String::from_utf8_lossy(&fs::read(entry.path()).unwrap_or_default()).into_owned()
            }
            _ => String::new(),
        };
        text.push_str(&format!("{name} {:o} {content:?}\n", meta.mode()));
    }
    text
}

/// A repository with one commit, and an archive, created once.
fn template() -> &'static Path {
    static MADE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = MADE.get_or_init(|| {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().canonicalize().unwrap();
        fs::write(path.join("tracked"), "one\n").unwrap();
        let script = "git init -q -b main . && git add tracked && \
             git -c user.name=x -c user.email=x commit -q -m x && tar -cf a.tar tracked";
        let mut git = Command::new("sh");
        git.args(["-c", script]).current_dir(&path).env_clear();
        let made = git.env("PATH", PATH).env("HOME", &path).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        (folder, path)
    });
    path
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

fn policy(row: &Row, work: &Path) -> RootedPolicy {
    let read = match row.harm {
        'R' => ReadAccess::Restricted { platform_defaults: true, roots: vec![work.to_owned()] },
        _ => ReadAccess::Full,
    };
    let links = row.harm == 'L';
    let mut writable_roots = vec![work.to_owned()];
    writable_roots.extend(links.then(|| work.with_file_name("other")));
    SandboxPolicy::WorkspaceWrite {
        writable_roots,
        read,
        network: false,
        exclude_slash_tmp: true,
        exclude_tmpdir: !links,
    }
    .rooted(Path::new("/"))
}

#[tokio::test]
async fn every_attack_succeeds_without_a_sandbox() {
    let sandbox = sandbox(Layer::Auto);
    let mut harmless = Vec::new();
    for row in rows() {
        let mut targets = Targets::new();
        if targets.harmed(&row, &sandbox, RootedPolicy::FULL_ACCESS).await != Ok(true) {
            harmless.push(row);
        }
    }
    assert!(rows().len() >= 150);
    assert!(harmless.is_empty(), "these rows could not fail: {harmless:#?}");
}

#[test]
fn every_attack_needs_approval_and_is_shown_whole() {
    let work = Path::new("/w");
    let resolver = PathResolver::new(PATH.as_ref(), &[work.to_owned()]);
    let context = Context { cwd: work, resolver: &resolver };
    for row in rows().into_iter().filter(|row| row.harm != 'R') {
        let assessed = assess(Invocation::Script(&row.script), &context, &Rules::default());
        assert!(!assessed.known_safe, "{row:?} runs without asking");
        let shown = visible::text(&row.script).into_owned();
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
    }
}

/// The expected result for every row that does not change the working folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    /// The script runs and does no harm.
    Held,
    /// The script is not started.
    Refused,
}

async fn check(sandbox: &Sandbox, expect: Expect) {
    let mut through = Vec::new();
    let mut otherwise = Vec::new();
    let mut targets = Targets::new();
    for mut row in rows().into_iter().filter(|row| row.harm != 'W') {
        match expect {
            Expect::Held => targets = Targets::new(),
            // No script runs, so the world is not changed.
            Expect::Refused => row.setup = None,
        }
        let policy = policy(&row, &targets.work());
        match targets.harmed(&row, sandbox, policy).await {
            Ok(true) => through.push(row),
            Ok(false) if expect == Expect::Refused => otherwise.push((row, String::new())),
            Err(why) if expect == Expect::Held => otherwise.push((row, why)),
            Ok(false) | Err(_) => {}
        }
    }
    assert!(through.is_empty(), "these got through: {through:#?}");
    assert!(otherwise.is_empty(), "these were not {expect:?}: {otherwise:#?}");
}

#[tokio::test]
async fn namespaces_stop_every_attack() {
    if namespaces() {
        check(&sandbox(Layer::Namespaces), Expect::Held).await;
    }
}

/// Permission profiles mount path by path, and must have the same effect.
#[tokio::test]
async fn profiles_stop_every_attack_with_links() {
    for layer in common::layers() {
        profiles_stop_every_attack_under(layer).await;
    }
}

async fn profiles_stop_every_attack_under(layer: Layer) {
    let sandbox = sandbox(layer);
    for row in rows().into_iter().filter(|row| row.harm == 'L') {
        let mut targets = Targets::new();
        let mut rules = vec![(PathBuf::from("/"), Access::Read)];
        rules.extend(["work", "other", "tmp"].map(|name| (targets.base.join(name), Access::Write)));
        let policy = common::profile(rules, true);
        assert_eq!(targets.harmed(&row, &sandbox, policy).await, Ok(false), "{row:?}");
    }
}

/// Even when the destination is allowed, the script must ask the proxy for it.
#[tokio::test]
async fn no_attack_bypasses_the_proxy() {
    for layer in common::layers() {
        no_attack_bypasses_the_proxy_under(layer).await;
    }
}

async fn no_attack_bypasses_the_proxy_under(layer: Layer) {
    let sandbox = sandbox(layer);
    let policy = EgressPolicy {
        allowed: vec![Pattern::parse("*").unwrap()],
        local: true,
        socks_port: Some(1080),
        udp: true,
        ..EgressPolicy::default()
    };
    let egress = Arc::new(Egress::new(policy, None, Outside::real()));
    // Git uses the proxy, as intended.
    let asks = |row: &Row| row.script.contains("git ls-remote");
    for row in rows().into_iter().filter(|row| "TUOGK".contains(row.harm) && !asks(row)) {
        let mut targets = Targets::new();
        let work = targets.work();
        let harmed =
            targets.harmed_behind(&row, &sandbox, self::policy(&row, &work), Some(egress.clone()));
        assert_eq!(harmed.await, Ok(false), "{row:?}");
    }
}

#[tokio::test]
async fn landlock_alone_stops_every_attack() {
    check(&sandbox(Layer::Landlock), Expect::Held).await;
}

/// The tests below run this test again with a layer missing; alone it tests nothing, because the
/// other tests cover a machine with all layers.
#[tokio::test]
async fn the_remaining_layers_hold() {
    if std::env::var_os(MISSING).is_some() {
        check(&sandbox(Layer::Auto), Expect::Held).await;
    }
}

/// The tests below run this test again; alone, no layer is missing and no command is refused.
#[tokio::test]
async fn everything_is_refused() {
    if std::env::var_os(MISSING).is_some() {
        check(&sandbox(Layer::Auto), Expect::Refused).await;
    }
}

#[test]
fn an_ordinary_user_is_confined() {
    const NOBODY: u32 = 65534;
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        let _ = writeln!(std::io::stderr(), "skipped: every test here runs as an ordinary user");
        return;
    }
    let tests = [
        "hostile::every_attack_succeeds_without_a_sandbox",
        "hostile::namespaces_stop_every_attack",
        "hostile::landlock_alone_stops_every_attack",
    ];
    again(&tests, |command| {
        command.uid(NOBODY).gid(NOBODY).env("HOME", "/nonexistent");
    });
}

#[test]
fn namespaces_suffice_without_landlock() {
    let missing = [FailingCall::call(libc::SYS_landlock_create_ruleset, libc::ENOSYS)];
    without(&missing, "hostile::the_remaining_layers_hold");
}

#[test]
fn landlock_suffices_without_namespaces() {
    without(&NAMESPACE_CALLS, "hostile::the_remaining_layers_hold");
}

#[test]
fn without_seccomp_nothing_runs() {
    let missing = [
        FailingCall::call(libc::SYS_seccomp, libc::ENOSYS),
        FailingCall::with(libc::SYS_prctl, 22, libc::EINVAL),
    ];
    without(&missing, "hostile::everything_is_refused");
}

#[test]
fn without_landlock_and_namespaces_nothing_runs() {
    let mut missing = vec![FailingCall::call(libc::SYS_landlock_create_ruleset, libc::ENOSYS)];
    missing.extend(NAMESPACE_CALLS);
    without(&missing, "hostile::everything_is_refused");
}

/// The converse: a script that runs without an approval, however odd, changes nothing even when it
/// is not confined. The scripts are combinations of pieces of borderline cases.
#[tokio::test]
async fn commands_without_approval_change_nothing() {
    const AWK: &[&str] = &[
        "{",
        "}",
        "print",
        "\"made\"",
        "$1",
        ">",
        "|",
        "/a/",
        "/",
        "[",
        "]",
        "\"touch made\"",
        ";",
        "getline",
        "NR",
        "==",
        "1",
        " ",
        ",",
        "x",
        "=",
        "(",
        ")",
        "~",
        "\\",
        "system(",
        "printf",
        "#",
        "BEGIN",
        "^",
        "\n",
        "!",
        "if",
        "length",
        "\"",
    ];
    const SED: &[&str] = &[
        "s/",
        "a",
        "/",
        "w made",
        "e",
        "p",
        "d",
        ";",
        "1",
        ",",
        "$",
        "!",
        "[",
        "]",
        "\\",
        "{",
        "}",
        "x",
        "g",
        "touch made",
        "|",
        " ",
        "\n",
        "^",
        "/a/",
        "#",
        "r file",
        "y/",
        "q",
        "=",
        "old",
        "s|",
    ];
    const SHELL: &[&str] = &[
        "ls",
        "cat file",
        "echo ",
        "$(touch made)",
        "`touch made`",
        "> made",
        " < file",
        " 2>&1",
        " >/dev/null",
        " | ",
        " && ",
        "; ",
        "'",
        "\"",
        "$HOME",
        "$?",
        "$((1+1))",
        "{a,b}",
        "*",
        " ",
        "[[ -f file ]]",
        "xargs ",
        "touch made",
        "find . -exec ",
        " {} \\;",
        " {} +",
        "sed -n 1p ",
        "awk 1 ",
        "LC_ALL=C ",
        "\n",
        "#",
        "\\",
        "-i",
        "sort -o made ",
        "-o",
        "head -1 ",
        "timeout 1 ",
    ];
    const ACCEPTED: usize = 120;
    let sandbox = sandbox(Layer::Auto);
    let mut targets = Targets::new();
    let resolver = PathResolver::new(PATH.as_ref(), &[targets.work()]);
    let mut random = 0x5EED_u64;
    let mut roll = |below: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap() % below
    };
    for (program, pieces) in [("awk", AWK), ("sed", SED), ("", SHELL)] {
        let mut accepted = 0;
        while accepted < ACCEPTED {
            let count = 1 + roll(9);
            let text: String = (0..count).map(|_| pieces[roll(pieces.len())]).collect();
            let script = match program {
                "" => text,
                _ => format!("{program} '{}' file names", text.replace('\'', "")),
            };
            let work = targets.work();
            let context = Context { cwd: &work, resolver: &resolver };
            let rules = Rules::default();
            if !assess(Invocation::Script(&script), &context, &rules).known_safe {
                continue;
            }
            accepted += 1;
            for harm in ['W', 'O', 'G'] {
                let row = Row { harm, setup: None, script: script.clone() };
                let harmed = targets.harmed(&row, &sandbox, RootedPolicy::FULL_ACCESS).await;
                assert_eq!(harmed, Ok(false), "{script:?} changed something");
            }
        }
    }
}
