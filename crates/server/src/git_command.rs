//! Commands of git that the server itself runs: confined, without hooks, file system monitor, external diffs
//! and prompts, and without the filters and merge drivers of repositories that the user does not trust.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use files::Pool;
use policy::{Access, RootedPolicy, SandboxPolicy};
use sandbox::{Exit, OutputBuffer, Process, Stream};
use tokio::time::Instant;

use services::allowed::Allowed;
use services::command_environment::{command_environment, command_tmpdir};
use services::command_runner::{CommandLine, CommandRunner};
use services::convert::policies::configured_sandbox;
use services::error::Error;
use services::git;
use services::options::Options;

/// Bytes of an error message of git.
const MAX_MESSAGE: usize = 16 * 1024;
/// Options of every command.
const FIXED: [&str; 9] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "diff.external=",
    "protocol.allow=never",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "advice.detachedHead=false",
];
/// Files that git reads of a working folder and its parents.
const READ_IN_FOLDERS: [&str; 4] = [".gitignore", ".gitattributes", ".gitmodules", ".mailmap"];
/// Files that git reads of a repository.
const READ_IN_REPOSITORY: [&str; 10] = [
    "HEAD",
    "config",
    "config.worktree",
    "index",
    "packed-refs",
    "shallow",
    "info/exclude",
    "info/attributes",
    "info/grafts",
    "objects/info/alternates",
];

/// The services for running git.
#[derive(Clone)]
pub(crate) struct GitServices {
    pub(crate) runner: CommandRunner,
    pub(crate) files: Pool,
    pub(crate) options: Arc<Options>,
}

/// The folders that git may write.
pub(crate) enum GitAccess {
    Read,
    /// These, `.git` folders among them.
    Write(Vec<PathBuf>),
}

/// A way to run git.
pub(crate) struct Git<'a> {
    pub(crate) services: &'a GitServices,
    pub(crate) config: &'a config::Config,
    /// Where git runs; `-C` names the repository.
    pub(crate) cwd: PathBuf,
    policy: Allowed<RootedPolicy>,
    /// `-c` options that switch off the programs of the repository's configuration.
    overrides: Vec<String>,
    /// Variables for git.
    variables: Vec<(OsString, OsString)>,
    deadline: Instant,
}

/// The end of a run of git.
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    pub(crate) stdout: Vec<u8>,
    /// The output was longer than the bound, and git was ended there.
    pub(crate) is_cut: bool,
    pub(crate) stderr: String,
}

/// Why git's output is not known.
#[derive(Debug)]
pub(crate) enum GitFailure {
    NotStarted(String),
    TimedOut(String),
    /// The command, and what git said.
    Failed(String, String),
}

/// An argument of git.
pub(crate) type Argument<'a> = &'a (dyn AsRef<OsStr> + Sync);

/// The arguments before those of a command, without `-C`.
pub(crate) fn git_arguments(overrides: &[String]) -> Vec<OsString> {
    let mut argv: Vec<OsString> =
        ["git", "--no-pager", "--no-optional-locks"].map(Into::into).into();
    for option in FIXED.into_iter().chain(overrides.iter().map(String::as_str)) {
        argv.extend(["-c".into(), option.into()]);
    }
    argv
}

/// The environment of git: none of its variables come from outside, and its messages, which are compared with
/// known ones, are in English.
pub(crate) fn git_environment(
    options: &Options,
    config: &config::Config,
) -> Vec<(OsString, OsString)> {
    let mut env = command_environment(options, config);
    env.retain(|(name, _)| {
        name != "LANGUAGE" && name != "LC_ALL" && !name.to_string_lossy().starts_with("GIT_")
    });
    let fixed = [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_EDITOR", "false"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("LC_ALL", "C"),
    ];
    env.extend(fixed.map(|(name, value)| (name.into(), value.into())));
    env
}

/// The first file that git reads in any case and that is not a regular file: git would block on a
/// named pipe. Such files in deeper folders run into the limit on git's time.
pub(crate) fn special_file(cwd: &Path) -> Option<String> {
    let repository = git::folders(cwd);
    let root = repository.as_ref().map_or(cwd, |found| found.root.as_path());
    let folders = cwd.ancestors().take_while(|folder| folder.starts_with(root));
    let mut names: Vec<PathBuf> = folders
        .flat_map(|folder| READ_IN_FOLDERS.iter().map(move |name| folder.join(name)))
        .collect();
    for folder in repository.iter().flat_map(|found| [&found.own, &found.common]) {
        names.extend(READ_IN_REPOSITORY.iter().map(|name| folder.join(name)));
    }
    names.iter().find_map(|path| match files::open(path) {
        Err(error @ files::Error::NotRegular { .. }) => Some(error.to_string()),
        _ => None,
    })
}

impl<'a> Git<'a> {
    /// # Errors
    /// The requirements forbid that anything is written.
    pub(crate) fn new(
        services: &'a GitServices,
        config: &'a config::Config,
        cwd: PathBuf,
        access: GitAccess,
        deadline: Instant,
    ) -> Result<Self, Error> {
        let policy = policy(&services.options, config, &cwd, access)?;
        let (overrides, variables) = (Vec::new(), Vec::new());
        Ok(Self { services, config, cwd, policy, overrides, variables, deadline })
    }

    /// The same with another time limit.
    pub(crate) fn until(&self, deadline: Instant) -> Self {
        Self { deadline, ..self.with_variables(self.variables.clone()) }
    }

    /// The same with a variable.
    pub(crate) fn with_variable(&self, name: &str, value: impl Into<OsString>) -> Self {
        let mut variables = self.variables.clone();
        variables.push((name.into(), value.into()));
        self.with_variables(variables)
    }

    fn with_variables(&self, variables: Vec<(OsString, OsString)>) -> Self {
        Self {
            services: self.services,
            config: self.config,
            cwd: self.cwd.clone(),
            policy: self.policy.clone(),
            overrides: self.overrides.clone(),
            variables,
            deadline: self.deadline,
        }
    }

    /// Switches off the filters and merge drivers that the configuration of the repository of `folder` defines,
    /// unless the user trusts it. Those of the user's own configuration stay.
    pub(crate) async fn distrust(&mut self, folder: &Path) -> Result<(), GitFailure> {
        if self.config.trusted {
            return Ok(());
        }
        let pattern = "^(filter|merge)\\.";
        let list: [Argument<'_>; 8] = [
            &"-C",
            &folder,
            &"config",
            &"--null",
            &"--show-scope",
            &"--name-only",
            &"--get-regexp",
            &pattern,
        ];
        // Without any, git exits with 1.
        let ended = self.run(&list, MAX_NAMES).await?;
        if ended.is_cut {
            let said = "the repository's configuration defines too many filters".to_owned();
            return Err(GitFailure::Failed("git config".to_owned(), said));
        }
        let text = String::from_utf8_lossy(&ended.stdout).into_owned();
        let mut parts = text.split('\0');
        while let (Some(scope), Some(key)) = (parts.next(), parts.next()) {
            if !matches!(scope, "global" | "system") {
                self.switch_off(key);
            }
        }
        Ok(())
    }

    fn switch_off(&mut self, key: &str) {
        let Some((section, _)) = key.rsplit_once('.') else { return };
        let options: &[&str] = match section.starts_with("filter.") {
            true => &["clean=", "smudge=", "process=", "required=false"],
            // A driver that fails leaves a conflict.
            false if section.starts_with("merge.") => &["driver=false"],
            false => return,
        };
        self.overrides.extend(options.iter().map(|option| format!("{section}.{option}")));
    }

    /// Runs git and returns the text that it prints, without the newline at its end.
    pub(crate) async fn text(&self, arguments: &[Argument<'_>]) -> Result<String, GitFailure> {
        let ended = self.run(arguments, MAX_TEXT).await?;
        match ended.exit.success() {
            true => Ok(String::from_utf8_lossy(&ended.stdout).trim_end().to_owned()),
            false => Err(ended.failure(arguments)),
        }
    }

    /// Runs git to its end, or until it has printed more than `max_output` bytes.
    pub(crate) async fn run(
        &self,
        arguments: &[Argument<'_>],
        max_output: usize,
    ) -> Result<Ended, GitFailure> {
        let mut argv = git_arguments(&self.overrides);
        argv.extend(arguments.iter().map(|argument| argument.as_ref().to_owned()));
        let mut env = git_environment(&self.services.options, self.config);
        env.extend(self.variables.iter().cloned());
        let guarded = self.config.trusted_folders.clone();
        let command = CommandLine {
            guarded,
            ..CommandLine::new(argv, self.cwd.clone(), env, self.policy.clone())
        };
        let spawned = self.services.runner.spawn(command).await;
        let mut process =
            spawned.map_err(|error| GitFailure::NotStarted(format!("git: {error}")))?;
        let ended = tokio::time::timeout_at(self.deadline, read(&mut process, max_output)).await;
        ended.map_err(|_| GitFailure::TimedOut(shown(arguments)))
    }
}

impl Ended {
    /// The words of git, as the failure of a run with these arguments.
    pub(crate) fn failure(&self, arguments: &[Argument<'_>]) -> GitFailure {
        let said = self.stderr.trim();
        let said = match (said.is_empty(), self.exit.exec_errno) {
            (_, Some(_)) => "git is not installed, or cannot be executed".to_owned(),
            (true, None) => "it failed and said nothing".to_owned(),
            (false, None) => {
                let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
                let said = lines.take(4).collect::<Vec<_>>().join("; ");
                visible::text(said.trim_start_matches("fatal: ")).into_owned()
            }
        };
        GitFailure::Failed(shown(arguments), said)
    }
}

/// Bytes of git's list of filters.
const MAX_NAMES: usize = 256 * 1024;
/// Bytes of an output of one line.
const MAX_TEXT: usize = 64 * 1024;

async fn read(process: &mut Process, max_output: usize) -> Ended {
    let (mut stdout, mut stderr) = (Vec::new(), OutputBuffer::new(MAX_MESSAGE));
    let mut is_cut = false;
    while let Some(chunk) = process.output.recv().await {
        match chunk.stream {
            Stream::Stderr => stderr.push(&chunk.bytes),
            Stream::Stdout => {
                stdout.extend_from_slice(&chunk.bytes);
                if stdout.len() > max_output {
                    is_cut = true;
                    process.kill();
                    break;
                }
            }
        }
    }
    let exit = process.wait().await;
    Ended { exit, stdout, is_cut, stderr: stderr.text() }
}

/// The command of these arguments, for people: without the folder.
fn shown(arguments: &[Argument<'_>]) -> String {
    let words = arguments.iter().map(|argument| argument.as_ref().to_string_lossy());
    let words: Vec<_> = words.collect();
    let from = if words.first().is_some_and(|first| first == "-C") { 2 } else { 0 };
    let words: Vec<&str> = words.iter().skip(from).map(AsRef::as_ref).take(2).collect();
    format!("git {}", words.join(" "))
}

/// The policy of git: reading, or writing exactly the named folders. Where the user has no sandbox, git has
/// none either: it may not work there.
fn policy(
    options: &Options,
    config: &config::Config,
    cwd: &Path,
    access: GitAccess,
) -> Result<Allowed<RootedPolicy>, Error> {
    let configured = configured_sandbox(config, cwd, command_tmpdir(options, config));
    if configured.is_unconfined() {
        let (allowed, replaced) = Allowed::new(configured, config, cwd);
        if replaced.is_empty() {
            return Ok(allowed.confinement(cwd));
        }
    }
    let GitAccess::Write(folders) = access else { return Ok(Allowed::read_only()) };
    let written = folders.into_iter().map(|folder| (folder, Access::Write));
    let rules = std::iter::once((PathBuf::from("/"), Access::Read)).chain(written).collect();
    let policy = SandboxPolicy::Profile {
        name: "git".to_owned(),
        rules,
        platform_defaults: true,
        network: false,
        managed: false,
    };
    let (allowed, replaced) = Allowed::new(policy, config, cwd);
    match replaced.first() {
        None => Ok(allowed.confinement(cwd)),
        Some(replaced) => {
            Err(Error::denied(format!("git cannot write in the repository: {replaced}")))
        }
    }
}
