//! A change that is to be reviewed, read with git. Nothing that the repository names is run: git gets
//! no hooks, no file system monitor, no external diff and no filter, and is itself confined to
//! reading, with the network off.

use std::path::Path;
use std::time::Duration;

use sandbox::OutputBuffer;
use session::Settings;

use crate::git_command::{GitServices, git_arguments, git_environment, special_file};
use services::allowed::Allowed;
use services::command_runner::CommandLine;
use services::error::Error;

/// Bytes of a change that the model is sent; it can read the rest itself.
const MAX_DIFF: usize = 256 * 1024;
/// Bytes of one new file.
const MAX_NEW_FILE: u64 = 32 * 1024;
/// New files that are sent with their contents.
const MAX_NEW_FILES: usize = 50;
/// Time limit of git for finding the change to review: a client waits for the answer.
const MAX_LOCATE: Duration = Duration::from_secs(3);
/// Time limit of a run of git.
const MAX_RUN: Duration = Duration::from_secs(20);
/// The subject of a review.
pub(crate) enum ReviewSubject {
    /// Staged, unstaged and new.
    Uncommitted,
    /// Everything since this branch was left.
    Branch(String),
    /// One commit.
    Commit { sha: String, title: Option<String> },
    /// Described by the user's own words.
    Custom(String),
}

/// Where the change is, found before the review begins.
pub(crate) enum ChangeLocation {
    /// Described by the user's own words.
    Custom,
    Uncommitted,
    /// Since this commit.
    Since(String),
    /// In this commit.
    Commit(String),
    /// Unknown, for this reason.
    Unknown(String),
}

/// The change that was read.
#[derive(Default)]
pub(crate) struct Change {
    /// As git shows it.
    diff: String,
    /// The command that shows it, for the model.
    command: String,
    /// Why it could not be read.
    pub(crate) unread: Option<String>,
}

impl ReviewSubject {
    /// For people.
    pub(crate) fn subject(&self) -> String {
        match self {
            Self::Uncommitted => "current changes".to_owned(),
            Self::Branch(branch) => format!("changes against `{branch}`"),
            Self::Commit { sha, title } => {
                let short = short(sha);
                match title.as_deref().map(str::trim).filter(|title| !title.is_empty()) {
                    Some(title) => format!("commit {short}: {title}"),
                    None => format!("commit {short}"),
                }
            }
            Self::Custom(instructions) => instructions.clone(),
        }
    }
}

/// The usual short form of a commit's id; any other name of a commit as it is.
fn short(sha: &str) -> &str {
    let is_id = sha.len() >= 7 && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { &sha[..7] } else { sha }
}

impl Change {
    /// Returns the prompt for the model.
    pub(crate) fn prompt(&self, target: &ReviewSubject) -> String {
        let asked = match target {
            ReviewSubject::Uncommitted => {
                "Review the changes of this working folder that are not committed: staged, \
                 unstaged and new files."
                    .to_owned()
            }
            ReviewSubject::Branch(branch) => {
                format!("Review the changes that were made since the branch `{branch}` was left.")
            }
            ReviewSubject::Commit { .. } => format!("Review {}.", target.subject()),
            ReviewSubject::Custom(instructions) => return instructions.clone(),
        };
        if let Some(why) = &self.unread {
            return format!("{asked}\n\nIt could not be read for you: {why}. Look for yourself.");
        }
        if self.diff.trim().is_empty() {
            return format!("{asked}\n\n`{}` shows no change: say so.", self.command);
        }
        let mut shown = self.diff.as_str();
        let mut cut = "";
        if shown.len() > MAX_DIFF {
            let end = (0..=MAX_DIFF).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or(0);
            shown = &shown[..end];
            cut = "\n\nThe change is longer than what is shown. See the rest with the command.";
        }
        format!("{asked}\n\n<change command=\"{}\">\n{shown}\n</change>{cut}", self.command)
    }
}

/// Finds the change within [`MAX_LOCATE`].
///
/// # Errors
/// Git reports that the repository, the branch or the commit does not exist.
pub(crate) async fn locate(
    services: &GitServices,
    config: &config::Config,
    settings: &Allowed<Settings>,
    target: &ReviewSubject,
) -> Result<ChangeLocation, Error> {
    let git = Git { services, config, settings, overrides: Vec::new() };
    match tokio::time::timeout(MAX_LOCATE, git.locate(target)).await {
        Ok(Ok(located)) => Ok(located),
        Ok(Err(Unread::Missing(what))) => Err(Error::invalid_params(what)),
        Ok(Err(Unread::Failed { said, .. })) => Ok(ChangeLocation::Unknown(said)),
        Err(_) => {
            let seconds = MAX_LOCATE.as_secs();
            Ok(ChangeLocation::Unknown(format!("git did not find it within {seconds} s")))
        }
    }
}

/// The error of a folder without a change.
pub(crate) fn no_repository(cwd: &Path) -> String {
    format!(
        "{} is not in a git repository, so there is no change to review; review with `custom` \
         instructions, or in a thread that works in a repository",
        cwd.display()
    )
}

/// Reads the change, or the reason why it cannot be read.
pub(crate) async fn read(
    services: &GitServices,
    config: &config::Config,
    settings: &Allowed<Settings>,
    located: ChangeLocation,
) -> Change {
    let git = Git { services, config, settings, overrides: Vec::new() };
    git.change(located).await.unwrap_or_else(
        |(Unread::Missing(why) | Unread::Failed { said: why, .. })| Change {
            unread: Some(why),
            ..Change::default()
        },
    )
}

/// Why there is no change to show.
enum Unread {
    /// Git says that it does not exist.
    Missing(String),
    /// Git could not be run, or failed.
    Failed {
        /// The reason, for people.
        said: String,
        /// Git exited with 1 and said nothing, as it does when it finds nothing.
        silent: bool,
    },
}

impl Unread {
    fn failed(said: impl Into<String>) -> Self {
        Self::Failed { said: said.into(), silent: false }
    }

    /// `missing` when git found nothing, which it reports by silence or with one of these phrases;
    /// otherwise the same error.
    fn or_not_found(self, phrases: &[&str], missing: String) -> Self {
        match &self {
            Self::Failed { said, silent }
                if *silent || phrases.iter().any(|phrase| said.contains(phrase)) =>
            {
                Self::Missing(missing)
            }
            _ => self,
        }
    }
}

struct Git<'a> {
    services: &'a GitServices,
    config: &'a config::Config,
    settings: &'a Allowed<Settings>,
    /// `-c` arguments that switch the repository's filters off.
    overrides: Vec<String>,
}

/// Options of a diff, so that it runs no program that the repository chooses.
const DIFF: [&str; 5] =
    ["--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--find-renames"];

impl Git<'_> {
    async fn locate(&self, target: &ReviewSubject) -> Result<ChangeLocation, Unread> {
        if matches!(target, ReviewSubject::Custom(_)) {
            return Ok(ChangeLocation::Custom);
        }
        let cwd = self.settings.cwd.clone();
        let looked = self.services.files.run(&self.settings.cwd, move || special_file(&cwd)).await;
        if let Some(found) = looked.map_err(|error| Unread::failed(error.to_string()))? {
            let why = format!("{found}, so git was not run: it could block on it");
            return Err(Unread::failed(why));
        }
        self.run(&["rev-parse", "--is-inside-work-tree"]).await.map_err(|why| {
            let missing = no_repository(&self.settings.cwd);
            why.or_not_found(&["not a git repository"], missing)
        })?;
        match target {
            ReviewSubject::Custom(_) => Ok(ChangeLocation::Custom),
            ReviewSubject::Uncommitted => Ok(ChangeLocation::Uncommitted),
            ReviewSubject::Branch(branch) => {
                let tip = self.commit(branch, "branch").await?;
                let base = self.run(&["merge-base", "HEAD", &tip]).await.map_err(|why| {
                    let missing =
                        format!("`{branch}` and the current branch have no commit in common");
                    why.or_not_found(&[], missing)
                })?;
                Ok(ChangeLocation::Since(base.trim().to_owned()))
            }
            ReviewSubject::Commit { sha, .. } => {
                self.commit(sha, "commit").await.map(ChangeLocation::Commit)
            }
        }
    }

    async fn change(mut self, located: ChangeLocation) -> Result<Change, Unread> {
        if !matches!(located, ChangeLocation::Custom | ChangeLocation::Unknown(_)) {
            self.switch_filters_off().await;
        }
        match located {
            ChangeLocation::Custom => Ok(Change::default()),
            ChangeLocation::Unknown(why) => Err(Unread::failed(why)),
            ChangeLocation::Uncommitted => self.uncommitted().await,
            ChangeLocation::Since(base) => {
                let diff = self.run(&with("diff", &[&base])).await?;
                Ok(Change { diff, command: format!("git diff {base}"), unread: None })
            }
            ChangeLocation::Commit(sha) => {
                let diff = self
                    .run(&with("show", &["--format=fuller", "--stat", "--patch", &sha]))
                    .await?;
                Ok(Change { diff, command: format!("git show {sha}"), unread: None })
            }
        }
    }

    async fn uncommitted(&self) -> Result<Change, Unread> {
        let has_commits = self.run(&["rev-parse", "--verify", "--quiet", "HEAD"]).await.is_ok();
        let against: &[&str] = if has_commits { &["HEAD"] } else { &["--cached"] };
        let mut diff = self.run(&with("diff", against)).await?;
        let names = self.run(&["ls-files", "--others", "--exclude-standard", "-z"]).await?;
        for (at, name) in names.split('\0').filter(|name| !name.is_empty()).enumerate() {
            if diff.len() > MAX_DIFF {
                break;
            }
            diff.push_str(&format!("\nnew file, not added: {name}\n"));
            if at < MAX_NEW_FILES {
                let path = self.settings.cwd.join(name);
                let read = path.clone();
                let text = self.services.files.run(&path, move || new_file(&read)).await;
                diff.push_str(&text.map_err(|error| Unread::failed(error.to_string()))?);
            }
        }
        let command = if has_commits { "git diff HEAD" } else { "git diff --cached" };
        Ok(Change { diff, command: command.to_owned(), unread: None })
    }

    /// The commit that the name of a branch or commit means.
    async fn commit(&self, name: &str, kind: &str) -> Result<String, Unread> {
        let wanted = format!("{name}^{{commit}}");
        let found =
            self.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted]).await;
        let unknown = [
            "Needed a single revision",
            "unknown revision",
            "bad object",
            "ambiguous",
            "expected commit type",
        ];
        let missing = || format!("the repository has no {kind} `{name}`");
        found.map(|sha| sha.trim().to_owned()).map_err(|why| why.or_not_found(&unknown, missing()))
    }

    /// A filter is a program that the repository's configuration names.
    async fn switch_filters_off(&mut self) {
        // Without filters, git exits with 1.
        let names =
            self.run(&["config", "--null", "--name-only", "--get-regexp", "^filter\\."]).await;
        for key in names.unwrap_or_default().split('\0') {
            let Some((filter, _)) = key.rsplit_once('.') else { continue };
            for option in ["clean=", "smudge=", "process=", "required=false"] {
                self.overrides.push(format!("{filter}.{option}"));
            }
        }
    }

    async fn run(&self, arguments: &[&str]) -> Result<String, Unread> {
        let mut argv = git_arguments(&self.overrides);
        argv.extend(arguments.iter().map(Into::into));
        let env = git_environment(&self.services.options, self.config);
        let cwd = self.settings.cwd.clone();
        let policy = if self.settings.sandbox.is_unconfined() {
            self.settings.sandbox().confinement(&cwd)
        } else {
            Allowed::read_only()
        };
        let guarded = self.config.trusted_folders.clone();
        let command = CommandLine { guarded, ..CommandLine::new(argv, cwd, env, policy) };
        let spawned = self.services.runner.spawn(command).await;
        let mut process = spawned.map_err(|error| Unread::failed(format!("git: {error}")))?;
        let (mut stdout, mut stderr) = (OutputBuffer::new(4 * MAX_DIFF), OutputBuffer::new(4096));
        let exit = tokio::time::timeout(MAX_RUN, process.collect(&mut stdout, &mut stderr)).await;
        let exit = exit.map_err(|_| {
            let command = arguments.join(" ");
            Unread::failed(format!("`git {command}` did not end within {} s", MAX_RUN.as_secs()))
        })?;
        if exit.success() {
            return Ok(String::from_utf8_lossy(&stdout.bytes()).into_owned());
        }
        let said = stderr.bytes();
        let said = String::from_utf8_lossy(&said);
        let Some(first) = said.lines().map(str::trim).find(|line| !line.is_empty()) else {
            let said = format!("`git {}` failed and said nothing", arguments.join(" "));
            return Err(Unread::Failed { said, silent: exit.code == Some(1) });
        };
        Err(Unread::failed(first.trim_start_matches("fatal: ")))
    }
}

fn with<'a>(command: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec![command];
    arguments.extend(DIFF);
    arguments.extend(rest);
    arguments
}

/// The start of a new file, when it is a plain text file; links are not followed.
fn new_file(path: &Path) -> String {
    let opened = files::open_without_links(path);
    match opened.and_then(|opened| opened.start(path, MAX_NEW_FILE)) {
        Ok(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => text.lines().map(|line| format!("+{line}\n")).collect(),
            Err(_) => "(no text)\n".to_owned(),
        },
        Err(files::Error::NotRegular { kind, .. }) => format!("({kind})\n"),
        Err(error) => format!("({error})\n"),
    }
}
