//! Attacks at the level of system calls, each of them a function of `attacks/*.py`. Each does its harm when nothing
//! confines it, which shows that it can, and under no layer of the sandbox: with all layers, without namespaces, and
//! inside the root of a container that forbids them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use policy::{Access, ReadAccess, RootedPolicy, SandboxPolicy};
use sandbox::Layer;
use sandbox::egress::{Egress, EgressPolicy, Outside};

use crate::common::again::{MISSING, NAMESPACE_CALLS, again, without};
use crate::common::{command, namespaces, profile, run, sandbox, workspace};

const PROGRAM: &str = concat!(
    include_str!("../attacks/base.py"),
    "\n\n",
    include_str!("../attacks/kernel.py"),
    "\n\n",
    include_str!("../attacks/others.py"),
    "\n\n",
    include_str!("../attacks/files.py"),
    "\n\n",
    include_str!("../attacks/broker.py"),
);

/// Which of the cases run, and under which policy.
const GROUPS: [&str; 4] = ["files", "network", "managed", "hidden"];

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// What the attacks aim at; ends with this value.
struct Targets {
    _folder: tempfile::TempDir,
    base: PathBuf,
    /// Processes and objects outside of the sandbox.
    outside: Child,
    found: String,
    _stream: [UnixListener; 2],
    _datagrams: UnixDatagram,
    tcp: TcpListener,
    name: String,
}

impl Targets {
    /// For the cases of a group.
    fn new(group: &str) -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let base = folder.path().canonicalize().unwrap();
        let program = base.join("attacks.py");
        fs::write(&program, PROGRAM).unwrap();
        let mut outside = Command::new("python3")
            .arg(&program)
            .arg("outside")
            .arg(&base)
            .arg(group)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut found = String::new();
        BufReader::new(outside.stdout.take().unwrap()).read_line(&mut found).unwrap();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("agentd-attacked-{}-{number}", std::process::id());
        let at = |suffix: &str| SocketAddr::from_abstract_name(format!("{name}{suffix}")).unwrap();
        let stream = [
            UnixListener::bind(base.join("socket")).unwrap(),
            UnixListener::bind_addr(&at("")).unwrap(),
        ];
        let datagrams = UnixDatagram::bind_addr(&at("-datagrams")).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            _folder: folder,
            base,
            outside,
            found,
            _stream: stream,
            _datagrams: datagrams,
            tcp,
            name,
        }
    }

    fn work(&self) -> PathBuf {
        self.base.join("work")
    }

    /// The targets as the program reads them.
    fn described(&self, is_confined: bool, has_own_processes: bool) -> String {
        let found = self.found.trim().strip_prefix('{').unwrap();
        let base = self.base.display();
        let (name, port) = (&self.name, self.tcp.local_addr().unwrap().port());
        let server = std::process::id();
        format!(
            "{{\"work\":\"{base}/work\",\"out\":\"{base}/out\",\"socket\":\"{base}/socket\",\
             \"abstract\":\"{name}\",\"abstract_datagrams\":\"{name}-datagrams\",\"port\":{port},\
             \"server\":{server},\"confined\":{is_confined},\"own_processes\":{has_own_processes},{found}"
        )
    }

    fn policy(&self, group: &str) -> RootedPolicy {
        let work = self.work();
        match group {
            "hidden" => {
                let rules = vec![
                    ("/".into(), Access::Read),
                    (work.clone(), Access::Write),
                    (work.join("outer/secret"), Access::None),
                ];
                profile(rules, true)
            }
            "network" => SandboxPolicy::WorkspaceWrite {
                writable_roots: vec![work],
                read: ReadAccess::Full,
                network: true,
                exclude_slash_tmp: true,
                exclude_tmpdir: true,
            }
            .rooted(Path::new("/")),
            _ => workspace(&work),
        }
    }

    /// Runs the cases of a group: what kind each is, its name and what came of it.
    async fn results(&self, layer: Option<Layer>, group: &str) -> Vec<(String, String, String)> {
        let policy = layer.map_or(RootedPolicy::FULL_ACCESS, |_| self.policy(group));
        let program = self.base.join("attacks.py");
        let mut spawn = command(&["python3", program.to_str().unwrap(), group], policy);
        spawn.cwd = self.work();
        let has_own = layer.is_some_and(|layer| layer == Layer::Namespaces);
        spawn.env.push(("TARGETS".into(), self.described(layer.is_some(), has_own).into()));
        if group == "managed" && layer.is_some() {
            let policy = EgressPolicy { local: false, ..EgressPolicy::default() };
            spawn.egress = Some(Arc::new(Egress::new(policy, None, Outside::real())));
        }
        let ran = run(&sandbox(layer.unwrap_or_default()), spawn).await;
        assert!(ran.ok(), "{ran:?}");
        let results = ran.stdout.lines().map(|line| {
            let mut parts = line.splitn(3, '\t').map(str::to_owned);
            (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap())
        });
        results.collect()
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        drop(self.outside.stdin.take());
        let _ = self.outside.wait();
    }
}

/// Requires that no attack of any group does its harm, and that everything ordinary works.
async fn held(layer: Layer) {
    let mut through = Vec::new();
    for group in GROUPS {
        let targets = Targets::new(group);
        for (kind, name, result) in targets.results(Some(layer), group).await {
            let is_right = (kind == "steady") == (result == "did");
            if !is_right {
                through.push(format!("{group}: {kind} {name}: {result}"));
            }
        }
    }
    assert!(through.is_empty(), "{layer:?}:\n{}", through.join("\n"));
}

#[tokio::test]
async fn each_attack_succeeds_where_nothing_confines_it() {
    let mut otherwise = Vec::new();
    let mut count = 0;
    for group in GROUPS {
        let targets = Targets::new(group);
        for (kind, name, result) in targets.results(None, group).await {
            count += 1;
            match result.strip_prefix("skipped: ") {
                Some(why) => {
                    let _ = writeln!(std::io::stderr(), "skipped: {name}: {why}");
                }
                None if result == "did" => {}
                None => otherwise.push(format!("{group}: {kind} {name}: {result}")),
            }
        }
    }
    assert!(count >= 180, "{count} cases");
    assert!(otherwise.is_empty(), "these could not fail:\n{}", otherwise.join("\n"));
}

#[tokio::test]
async fn no_attack_succeeds_with_all_layers() {
    if namespaces() {
        held(Layer::Namespaces).await;
    }
}

#[tokio::test]
async fn no_attack_succeeds_without_namespaces() {
    held(Layer::Landlock).await;
}

/// The tests below run this test again where namespaces are forbidden; alone it tests nothing.
#[tokio::test]
async fn no_attack_succeeds_with_what_is_left() {
    if std::env::var_os(MISSING).is_some() {
        held(Layer::Auto).await;
    }
}

#[test]
fn no_attack_of_an_ordinary_user_succeeds() {
    const NOBODY: u32 = 65534;
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        let _ = writeln!(std::io::stderr(), "skipped: every test here runs as an ordinary user");
        return;
    }
    let tests = [
        "attacks::no_attack_succeeds_with_all_layers",
        "attacks::no_attack_succeeds_without_namespaces",
    ];
    again(&tests, |command| {
        command.uid(NOBODY).gid(NOBODY).env("HOME", "/nonexistent");
    });
}

/// Set in a container's root.
const INSIDE: &str = "AGENTD_TEST_IN_CONTAINER";

/// Runs inside of the root that the test below makes; alone it tests nothing.
#[test]
fn in_the_root_of_a_container() {
    if std::env::var_os(INSIDE).is_some() {
        without(&NAMESPACE_CALLS, "attacks::no_attack_succeeds_with_what_is_left");
    }
}

/// Makes a root as containers have it: a layer that can be written over the machine's files, own processes, terminals
/// and devices, and no capabilities.
const CONTAINER: &str = r#"
set -e
top=$1
shift
mount --make-rprivate /
mount -t tmpfs none "$top"
mkdir "$top/upper" "$top/helper" "$top/root"
root="$top/root"
mount -t overlay none "$root" -o "lowerdir=/,upperdir=$top/upper,workdir=$top/helper$1"
mount -t proc none "$root/proc"
mount -t tmpfs -o mode=755 none "$root/dev"
for device in null zero full random urandom tty; do
    : > "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 none "$root/dev/pts"
mount -t tmpfs -o mode=1777 none "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mkdir -p "$root/old"
cd "$root"
pivot_root . old
umount -l /old
shift
exec setpriv --bounding-set=-all --inh-caps=-all "$@"
"#;

#[test]
fn no_attack_succeeds_inside_the_root_of_a_container() {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let how: &[&str] = if is_root { &["-mpif"] } else { &["-Urmpif"] };
    let possible = Command::new("unshare").args(how).arg("true").output();
    if !possible.is_ok_and(|ran| ran.status.success()) || !namespaces() {
        let _ = writeln!(std::io::stderr(), "skipped: a container's root cannot be made here");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut command = Command::new("unshare");
    command.args(how).args(["sh", "-c", CONTAINER, "sh"]).arg(folder.path());
    command.arg(if is_root { "" } else { ",userxattr" }).arg(program);
    command.args(["--exact", "attacks::in_the_root_of_a_container", "--nocapture"]);
    let ran = command.env(INSIDE, "1").current_dir("/").output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success() && text.contains("1 passed"), "{ran:?}");
}
