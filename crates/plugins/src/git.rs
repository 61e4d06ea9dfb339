//! Runs git: confined, with an environment of its own, without configuration, hooks, filters, helpers
//! and prompts.
//!
//! A repository is fetched into a bare one, and its files are read as objects. git never checks anything
//! out, so no attribute, filter, hook, submodule or link of the repository has an effect.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use policy::{ReadAccess, RootedPolicy, SandboxPolicy};
use sandbox::{Limits, OutputBuffer, Outputs, Process, Sandbox, Spawn, Stdin, Stream};
use tokio::time::Instant;

use crate::claimed::{Claimed, remove_abandoned};
use crate::error::{Error, io_at};
use crate::source::is_ssh;

/// Variables that git gets from the environment; nothing else is passed on.
const PASSED: [&str; 12] = [
    "PATH",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "https_proxy",
    "HTTPS_PROXY",
    "http_proxy",
    "no_proxy",
    "NO_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "LD_LIBRARY_PATH",
];

/// Options of each call. The environment names no configuration file, so these are all there is but for
/// the fetched repository's own, which [`Repository::lay_out`] has written.
const OPTIONS: [&str; 17] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.askPass=/bin/false",
    "credential.helper=",
    "protocol.ext.allow=never",
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.http.allow=always",
    "protocol.ssh.allow=always",
    "protocol.file.allow=always",
    "http.followRedirects=false",
    "http.lowSpeedLimit=100",
    "http.lowSpeedTime=30",
    "fetch.unpackLimit=1",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// Prefix of the names of folders for repositories.
const WORK_PREFIX: &str = "agentd-fetch-";
/// Age of such a folder without a lock, which another process may have made just now.
const WORK_GRACE: Duration = Duration::from_secs(600);

/// The way to run git.
#[derive(Clone, Debug)]
pub struct Git {
    pub sandbox: Arc<Sandbox>,
    /// The environment of this process; git gets only the variables for finding programs, proxies,
    /// certificates and the ssh agent.
    pub environment: Vec<(OsString, OsString)>,
    /// Of a fetch.
    pub time_limit: Duration,
    /// Bytes that a fetch may store.
    pub max_bytes: u64,
}

impl Git {
    /// Two minutes, 256 MiB.
    #[must_use]
    pub fn new(sandbox: Arc<Sandbox>, environment: Vec<(OsString, OsString)>) -> Self {
        Self { sandbox, environment, time_limit: Duration::from_secs(120), max_bytes: 256 << 20 }
    }

    /// A folder for the repository of one fetch, in `TMPDIR` or `/tmp`: not in the agent's home, which
    /// the sandbox lets no confined command change.
    /// Deletes those that killed processes have left there.
    pub(crate) fn work_folder(&self) -> Result<Claimed, Error> {
        let named = self.environment.iter().rfind(|(name, _)| name == "TMPDIR");
        let named = named.map(|(_, path)| Path::new(path)).filter(|path| path.is_absolute());
        let parent = named.unwrap_or(Path::new("/tmp"));
        let parent = parent.canonicalize().map_err(io_at(parent))?;
        remove_abandoned(&parent, WORK_PREFIX, WORK_GRACE);
        Claimed::create(&parent, WORK_PREFIX)
    }
}

/// A run of git on one repository, in a folder that is deleted afterwards.
pub(crate) struct Repository<'g> {
    pub(crate) git: &'g Git,
    /// An empty folder: `repository` and `home` are made in it.
    pub(crate) folder: PathBuf,
    pub(crate) url: &'g str,
    pub(crate) deadline: Instant,
}

impl Repository<'_> {
    /// Makes the empty bare repository, with objects named by SHA-256 or by SHA-1. `git init` cannot do it
    /// where Landlock alone confines it: it changes the mode of its files, which Landlock does not limit and
    /// the sandbox therefore refuses.
    pub(crate) fn lay_out(&self, sha256: bool) -> Result<(), Error> {
        let repository = self.folder.join("repository");
        for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
            let path = repository.join(folder);
            std::fs::create_dir_all(&path).map_err(io_at(&path))?;
        }
        let (version, extension) = match sha256 {
            true => (1, "[extensions]\n\tobjectFormat = sha256\n"),
            false => (0, ""),
        };
        let config =
            format!("[core]\n\trepositoryformatversion = {version}\n\tbare = true\n{extension}");
        for (file, text) in [("HEAD", "ref: refs/heads/main\n"), ("config", &config)] {
            let path = repository.join(file);
            std::fs::write(&path, text).map_err(io_at(&path))?;
        }
        Ok(())
    }

    /// Starts git in the repository.
    pub(crate) async fn start(&self, arguments: &[&str], stdin: Stdin) -> Result<Process, Error> {
        let mut argv: Vec<OsString> = vec!["git".into(), "--no-pager".into()];
        for option in OPTIONS {
            argv.extend(["-c".into(), option.into()]);
        }
        argv.extend(["--git-dir".into(), self.folder.join("repository").into()]);
        argv.extend(arguments.iter().map(Into::into));
        let spawn = Spawn {
            argv,
            cwd: self.folder.clone(),
            cwd_is_real: false,
            env: self.environment(),
            policy: self.policy(),
            guarded: Vec::new(),
            granted: Vec::new(),
            tty: None,
            stdin,
            outputs: Outputs::Separate,
            egress: None,
            limits: Limits::default(),
        };
        let started = self.git.sandbox.spawn(spawn).await;
        started.map_err(|error| Error::git(self.url, format!("git was not started: {error}")))
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let given = self.git.environment.iter();
        let mut environment: Vec<(OsString, OsString)> =
            given.filter(|(name, _)| PASSED.iter().any(|passed| name == passed)).cloned().collect();
        let fixed = [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "/bin/false"),
            ("SSH_ASKPASS", "/bin/false"),
            ("SSH_ASKPASS_REQUIRE", "never"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ALLOW_PROTOCOL", "https:http:ssh:file"),
            ("GIT_SSH_VARIANT", "ssh"),
            (
                "GIT_SSH_COMMAND",
                "ssh -oBatchMode=yes -oClearAllForwardings=yes -oForwardAgent=no -oPermitLocalCommand=no",
            ),
            ("LC_ALL", "C"),
        ];
        environment.extend(fixed.map(|(name, value)| (name.into(), value.into())));
        for name in ["HOME", "XDG_CONFIG_HOME", "TMPDIR"] {
            environment.push((name.into(), self.folder.join("home").into()));
        }
        environment
    }

    /// ssh uses the agent's socket, which no sandbox passes in.
    fn policy(&self) -> RootedPolicy {
        if is_ssh(self.url) {
            return RootedPolicy::FULL_ACCESS;
        }
        let policy = SandboxPolicy::WorkspaceWrite {
            writable_roots: vec![self.folder.clone()],
            read: ReadAccess::Full,
            network: true,
            exclude_slash_tmp: true,
            exclude_tmpdir: true,
        };
        policy.rooted(&self.folder)
    }

    /// Runs git to its end; returns its output of at most `max_output` bytes.
    pub(crate) async fn run(
        &self,
        arguments: &[&str],
        max_output: usize,
    ) -> Result<Vec<u8>, Error> {
        let mut process = self.start(arguments, Stdin::Null).await?;
        let (mut stdout, mut stderr) = (Vec::new(), OutputBuffer::new(4096));
        let mut watch = tokio::time::interval(Duration::from_millis(200));
        loop {
            let chunk = tokio::select! {
                chunk = process.output.recv() => chunk,
                _ = watch.tick() => {
                    self.check_bounds()?;
                    continue;
                }
            };
            match chunk {
                None => break,
                Some(chunk) if chunk.stream == Stream::Stderr => stderr.push(&chunk.bytes),
                Some(chunk) => {
                    stdout.extend_from_slice(&chunk.bytes);
                    if stdout.len() > max_output {
                        return Err(Error::git(self.url, "the list of its files is too long"));
                    }
                }
            }
        }
        let exit = process.wait().await;
        self.check_bounds()?;
        if exit.success() {
            return Ok(stdout);
        }
        Err(Error::git(self.url, failure(&stderr.text())))
    }

    /// Dropping the process, as its caller does on an error, ends all of git's processes.
    pub(crate) fn check_bounds(&self) -> Result<(), Error> {
        if Instant::now() >= self.deadline {
            let seconds = self.git.time_limit.as_secs();
            let why =
                format!("git did not end within {seconds} s; check the source and the network");
            return Err(Error::git(self.url, why));
        }
        if stored(&self.folder) > self.git.max_bytes {
            let why = format!("the repository is larger than {} MiB", self.git.max_bytes >> 20);
            return Err(Error::git(self.url, why));
        }
        Ok(())
    }
}

/// Returns git's error message: its first lines, bounded.
fn failure(stderr: &str) -> String {
    let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let said: Vec<&str> = lines.take(4).collect();
    if said.is_empty() {
        return "git failed and said nothing".to_owned();
    }
    let said: String = said.join("; ").chars().take(600).collect();
    format!("git failed: {}", visible::text(&said))
}

/// Bytes of the files in a folder. Files that vanish meanwhile do not count.
fn stored(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => stored(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
