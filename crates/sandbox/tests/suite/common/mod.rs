//! Shared parts of the tests that run commands.

pub(crate) mod again;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use policy::{Access, ReadAccess, RootedPolicy, SandboxPolicy};
use sandbox::{
    Config, Exit, Layer, Limits, LimitsBy, OutputBuffer, Outputs, Sandbox, Spawn, Stdin,
    THIS_PROGRAM,
};

pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(crate) fn sandbox(layer: Layer) -> Sandbox {
    limited_sandbox(layer, LimitsBy::Auto)
}

pub(crate) fn limited_sandbox(layer: Layer, limits_by: LimitsBy) -> Sandbox {
    Sandbox::new(Config {
        supervisor: THIS_PROGRAM.into(),
        layer,
        descriptors: None,
        kept: Vec::new(),
        limits_by,
    })
}

/// The layers to test. Namespaces and Landlock must work on the test machine, unless the environment
/// says otherwise.
pub(crate) fn layers() -> Vec<Layer> {
    let mut layers = Vec::new();
    if std::env::var_os("AGENTD_TEST_NO_LANDLOCK").is_none() {
        layers.push(Layer::Landlock);
    }
    if std::env::var_os("AGENTD_TEST_NO_NAMESPACES").is_none() {
        layers.push(Layer::Namespaces);
    }
    layers
}

pub(crate) fn namespaces() -> bool {
    layers().contains(&Layer::Namespaces)
}

pub(crate) fn command(argv: &[&str], policy: RootedPolicy) -> Spawn {
    Spawn {
        argv: argv.iter().map(OsString::from).collect(),
        cwd: PathBuf::from("/"),
        cwd_is_real: false,
        env: vec![("PATH".into(), PATH.into())],
        policy,
        guarded: Vec::new(),
        granted: Vec::new(),
        tty: None,
        stdin: Stdin::Null,
        outputs: Outputs::Separate,
        egress: None,
        limits: Limits::default(),
    }
}

pub(crate) fn shell(script: &str, policy: RootedPolicy) -> Spawn {
    command(&["sh", "-c", script], policy)
}

pub(crate) fn read_only() -> RootedPolicy {
    RootedPolicy::READ_ONLY
}

pub(crate) fn profile(rules: Vec<(PathBuf, Access)>, platform_defaults: bool) -> RootedPolicy {
    let name = "p".to_owned();
    SandboxPolicy::Profile { name, rules, platform_defaults, network: false, managed: false }
        .rooted(Path::new("/"))
}

pub(crate) fn workspace(root: &Path) -> RootedPolicy {
    SandboxPolicy::WorkspaceWrite {
        writable_roots: vec![root.to_owned()],
        read: ReadAccess::Full,
        network: false,
        exclude_slash_tmp: true,
        exclude_tmpdir: true,
    }
    .rooted(Path::new("/"))
}

pub(crate) struct Finished {
    pub(crate) exit: Exit,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn ok(&self) -> bool {
        self.exit.success()
    }
}

impl std::fmt::Debug for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}\nstdout: {}\nstderr: {}", self.exit, self.stdout, self.stderr)
    }
}

pub(crate) async fn run(sandbox: &Sandbox, spawn: Spawn) -> Finished {
    let mut process = sandbox.spawn(spawn).await.unwrap();
    let (mut stdout, mut stderr) = (OutputBuffer::default(), OutputBuffer::default());
    let exit = process.collect(&mut stdout, &mut stderr).await;
    Finished { exit, stdout: stdout.text(), stderr: stderr.text() }
}

/// A folder outside `/tmp`, which no policy includes by default.
pub(crate) fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = folder.path().canonicalize().unwrap();
    (folder, path)
}

/// Waits until no process has this id; fails after a generous bound.
pub(crate) async fn gone(pid: i32) {
    let stat = format!("/proc/{pid}/stat");
    for _ in 0..2000 {
        let alive = std::fs::read_to_string(&stat).is_ok_and(
            |stat| !matches!(stat.rsplit(") ").next(), Some(rest) if rest.starts_with('Z')),
        );
        if !alive {
            return;
        }
        // tidy: sleep because the end of a process that is not ours has no event to wait for.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("process {pid} is still there");
}
