//! The arguments of `agentd exec`. Options may stand before or after `resume` and `review`.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::bail;
use clap::{Subcommand, ValueEnum};
use protocol::{Dialect, ReviewTarget, SandboxMode, ThreadSource, ThreadWorktreeParams};

use super::review_output::ReviewOutput;

/// The dialect whose events `--experimental-json` prints.
const EVENTS: &str = "codex";

#[derive(Default, clap::Args)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    /// The prompt; with `-` or without one, it is read from standard input
    prompt: Option<String>,
    /// Work in this folder
    #[arg(short = 'C', long, value_name = "DIR", global = true)]
    pub(super) cd: Option<PathBuf>,
    /// The model to use
    #[arg(short, long, global = true)]
    pub(super) model: Option<String>,
    /// The provider to use: `default`, `offline`, or one of config.toml
    #[arg(long, value_name = "ID", global = true)]
    pub(super) model_provider: Option<String>,
    /// Use the local model server in `oss_provider`, or else the one that is running
    #[arg(long, conflicts_with = "model_provider", global = true)]
    pub(super) oss: bool,
    /// The sandbox mode of commands
    #[arg(short, long, value_name = "MODE", global = true)]
    pub(super) sandbox: Option<Sandbox>,
    /// Let commands also write in this folder, with the sandbox `workspace-write`; may be repeated
    #[arg(long = "add-dir", value_name = "DIR", global = true)]
    pub(super) add_dirs: Vec<PathBuf>,
    /// Do not store the thread
    #[arg(long, conflicts_with = "resume", global = true)]
    pub(super) ephemeral: bool,
    /// Work in a new git worktree, on a branch of this name; without NAME, the first words of the prompt
    /// name it
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        global = true
    )]
    pub(super) worktree: Option<String>,
    /// Continue a stored thread; the same as `exec resume THREAD_ID`
    #[arg(long, value_name = "THREAD_ID", global = true)]
    resume: Option<String>,
    /// The source of a new thread: `user`, `subagent`, `memory_consolidation`, or a name of
    /// your own
    #[arg(long, value_name = "SOURCE", global = true)]
    thread_source: Option<String>,
    /// An image file to send with the prompt; may be repeated
    #[arg(short, long = "image", value_name = "FILE", global = true)]
    pub(super) images: Vec<PathBuf>,
    /// Require the final message to follow the JSON Schema in this file
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) output_schema: Option<PathBuf>,
    /// Also write the final message to this file
    #[arg(short, long, value_name = "FILE", global = true)]
    pub(super) output_last_message: Option<PathBuf>,
    /// Print every notification to standard output as one JSON object per line, and nothing else
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Print the events of the dialect `codex`, one JSON object per line, and nothing else; its
    /// variables and configuration keys apply
    #[arg(long, conflicts_with = "json", global = true)]
    pub(super) experimental_json: bool,
    /// With `--experimental-json`: also work outside a git repository. Otherwise any folder is accepted
    #[arg(long, global = true)]
    skip_git_repo_check: bool,
    #[command(subcommand)]
    action: Option<Action>,
    /// For `agentd review`.
    #[arg(skip)]
    pub(super) review_output: Option<ReviewOutput>,
}

/// The arguments of `agentd review`.
pub(crate) struct ReviewRequest {
    pub(crate) uncommitted: bool,
    pub(crate) instructions: Option<String>,
    pub(crate) base: Option<String>,
    pub(crate) commit: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) cd: Option<PathBuf>,
    pub(crate) model: Option<String>,
    pub(crate) model_provider: Option<String>,
    pub(crate) ephemeral: bool,
    /// A file for the result.
    pub(crate) output: Option<PathBuf>,
    pub(crate) printed: ReviewOutput,
}

#[derive(Subcommand)]
enum Action {
    /// Continue a stored thread
    Resume(ResumeArguments),
    /// Review changes
    Review(ReviewArguments),
}

#[derive(clap::Args)]
struct ResumeArguments {
    /// The thread
    #[arg(required_unless_present = "last")]
    thread_id: Option<String>,
    /// The prompt; with `-` or without one, it is read from standard input
    prompt: Option<String>,
    /// Continue the latest thread of this folder
    #[arg(long)]
    last: bool,
}

#[derive(clap::Args)]
struct ReviewArguments {
    /// The subject of the review, in words; with `-`, read from standard input
    #[arg(required_unless_present_any = ["uncommitted", "base", "commit"])]
    instructions: Option<String>,
    /// Review the staged, unstaged and untracked changes
    #[arg(long, conflicts_with_all = ["base", "commit", "instructions"])]
    uncommitted: bool,
    /// Review the changes since the branch diverged from this one
    #[arg(long, value_name = "BRANCH", conflicts_with_all = ["commit", "instructions"])]
    base: Option<String>,
    /// Review this commit
    #[arg(long, value_name = "SHA", conflicts_with = "instructions")]
    commit: Option<String>,
    /// Title of that commit
    #[arg(long, requires = "commit", conflicts_with = "instructions")]
    title: Option<String>,
}

/// The sandbox mode of commands.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Sandbox {
    /// Read files
    ReadOnly,
    /// Also write in the working folder and the temporary folders
    WorkspaceWrite,
    /// Run without a sandbox
    DangerFullAccess,
}

/// The thread that a run uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thread<'a> {
    New,
    Stored(&'a str),
    /// The one of the working folder that was used last.
    Last,
}

/// The task for the agent.
pub(super) enum Task<'a> {
    /// A turn with this prompt; `None` to read it from standard input.
    Turn(Option<&'a str>),
    Review(ReviewTarget),
    /// A review of what is described on standard input.
    ReviewOfInput,
}

impl Arguments {
    /// Those that run a review.
    pub(crate) fn of_review(request: ReviewRequest) -> Self {
        let ReviewRequest { uncommitted, instructions, base, commit, title, .. } = request;
        let review = ReviewArguments { instructions, uncommitted, base, commit, title };
        Self {
            cd: request.cd,
            model: request.model,
            model_provider: request.model_provider,
            ephemeral: request.ephemeral,
            output_last_message: request.output,
            action: Some(Action::Review(review)),
            review_output: Some(request.printed),
            ..Self::default()
        }
    }

    /// The dialect that the flags select.
    pub(crate) fn dialect(&self) -> Option<Dialect> {
        self.experimental_json.then(|| Dialect::named(EVENTS)).flatten()
    }

    /// Returns whether standard output has the events of the dialect.
    pub(crate) fn prints_thread_events(&self) -> bool {
        self.experimental_json
    }

    /// Returns whether standard output is for events alone.
    pub(super) fn prints_events(&self) -> bool {
        self.json || self.experimental_json
    }

    /// Returns whether the working folder must be in a git repository, as the dialect has it: its programs ask for
    /// another folder with a flag.
    pub(super) fn needs_repository(&self) -> bool {
        self.experimental_json && !self.skip_git_repo_check
    }

    /// Returns whether the final message is compared with the schema of `--output-schema`. The programs of the
    /// dialect do it themselves, and expect any message.
    pub(super) fn checks_answer(&self) -> bool {
        !self.experimental_json
    }

    /// The thread to use.
    ///
    /// # Errors
    /// When the arguments contradict each other.
    pub(super) fn thread(&self) -> anyhow::Result<Thread<'_>> {
        let thread = match (&self.action, self.resume.as_deref()) {
            (Some(Action::Resume(_)), Some(_)) => {
                bail!("both `resume` and `--resume` name a thread: use one of them")
            }
            (Some(Action::Resume(ResumeArguments { last: true, .. })), None) => Thread::Last,
            (Some(Action::Resume(resume)), None) => {
                resume.thread_id.as_deref().map_or(Thread::Last, Thread::Stored)
            }
            (_, Some(id)) => Thread::Stored(id),
            (_, None) => Thread::New,
        };
        if self.ephemeral && thread != Thread::New {
            bail!("--ephemeral: the continued thread is already stored");
        }
        if self.worktree.is_some() && thread != Thread::New {
            bail!("--worktree: the thread that is continued has its folder already");
        }
        Ok(thread)
    }

    /// Returns the task.
    ///
    /// # Errors
    /// When the arguments contradict each other.
    pub(super) fn task(&self) -> anyhow::Result<Task<'_>> {
        let before = self.prompt.as_deref();
        let inside = match &self.action {
            None => return Ok(Task::Turn(before)),
            Some(Action::Review(review)) => {
                if before.is_some() {
                    bail!("write the instructions of `review` after it, not before it");
                }
                if let (Some(_), _) | (_, false) = (&self.output_schema, self.images.is_empty()) {
                    bail!("`review` takes neither --output-schema nor --image");
                }
                return Ok(review.task());
            }
            // With `--last`, the only text is the prompt.
            Some(Action::Resume(ResumeArguments { thread_id, prompt, last: true })) => {
                if thread_id.is_some() && prompt.is_some() {
                    bail!("`resume --last` takes no thread id: drop one of the two");
                }
                thread_id.as_deref()
            }
            Some(Action::Resume(resume)) => resume.prompt.as_deref(),
        };
        if before.is_some() && inside.is_some() {
            bail!("there are two prompts, before and after `resume`: use one of them");
        }
        Ok(Task::Turn(inside.or(before)))
    }

    /// The worktree of a new thread.
    pub(super) fn worktree(&self) -> Option<ThreadWorktreeParams> {
        let name = self.worktree.as_deref()?;
        let prompt = self.prompt.as_deref().filter(|prompt| *prompt != "-");
        Some(ThreadWorktreeParams::named(Some(name), prompt))
    }

    /// For whom the thread is started.
    pub(super) fn thread_source(&self) -> Option<ThreadSource> {
        self.thread_source.as_deref().map(ThreadSource::from)
    }
}

/// Returns whether a command line, which cannot be parsed, names `exec` and `--experimental-json`.
pub(super) fn names_thread_events(line: impl IntoIterator<Item = OsString>) -> bool {
    let (mut is_exec, mut is_flagged) = (false, false);
    for argument in line.into_iter().skip(1).take_while(|argument| argument != "--") {
        is_exec |= argument == "exec";
        is_flagged |= argument == "--experimental-json";
    }
    is_exec && is_flagged
}

/// Returns the parser's message about a command line, without the usage.
pub(super) fn reason(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = text.find("\n\nUsage:").or_else(|| text.find("\n\nFor more information"));
    text[..end.unwrap_or(text.len())].trim().to_owned()
}

impl ReviewArguments {
    fn task(&self) -> Task<'_> {
        let target = if self.uncommitted {
            ReviewTarget::UncommittedChanges {}
        } else if let Some(branch) = &self.base {
            ReviewTarget::BaseBranch { branch: branch.clone() }
        } else if let Some(sha) = &self.commit {
            ReviewTarget::Commit { sha: sha.clone(), title: self.title.clone() }
        } else {
            match self.instructions.as_deref() {
                None | Some("-") => return Task::ReviewOfInput,
                Some(text) => ReviewTarget::Custom { instructions: text.to_owned() },
            }
        };
        Task::Review(target)
    }
}

impl From<Sandbox> for SandboxMode {
    fn from(sandbox: Sandbox) -> Self {
        match sandbox {
            Sandbox::ReadOnly => Self::ReadOnly,
            Sandbox::WorkspaceWrite => Self::WorkspaceWrite,
            Sandbox::DangerFullAccess => Self::DangerFullAccess,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn parse(line: &[&str]) -> Result<Arguments, clap::Error> {
        let command = Arguments::augment_args(clap::Command::new("exec"));
        let matches = command.try_get_matches_from(std::iter::once(&"exec").chain(line))?;
        Arguments::from_arg_matches(&matches)
    }

    #[test]
    fn threads_and_prompts() {
        let check = |line: &[&str], thread: Thread<'_>, prompt: Option<&str>| {
            let arguments = parse(line).unwrap();
            assert_eq!(arguments.thread().unwrap(), thread, "{line:?}");
            let Task::Turn(found) = arguments.task().unwrap() else { panic!("{line:?}") };
            assert_eq!(found, prompt, "{line:?}");
        };
        check(&[], Thread::New, None);
        check(&["do it"], Thread::New, Some("do it"));
        check(&["--resume", "t", "more"], Thread::Stored("t"), Some("more"));
        check(&["resume", "t"], Thread::Stored("t"), None);
        check(&["resume", "t", "more"], Thread::Stored("t"), Some("more"));
        check(&["resume", "--last", "more"], Thread::Last, Some("more"));
        check(&["resume", "--last"], Thread::Last, None);
        check(
            &["--experimental-json", "--sandbox", "read-only", "resume", "t", "--image", "a.png"],
            Thread::Stored("t"),
            None,
        );
    }

    #[test]
    fn options_stand_on_either_side() {
        for line in [["--image", "a.png", "resume", "t"], ["resume", "t", "--image", "a.png"]] {
            assert_eq!(parse(&line).unwrap().images, [PathBuf::from("a.png")], "{line:?}");
        }
        assert!(parse(&["resume", "t", "--experimental-json"]).unwrap().dialect().is_some());
        assert!(parse(&["--json", "hello"]).unwrap().dialect().is_none());
    }

    #[test]
    fn reviews() {
        let target = |line: &[&str]| {
            let line = [&["review"][..], line].concat();
            match parse(&line).unwrap().task().unwrap() {
                Task::Review(target) => Some(target),
                Task::ReviewOfInput => None,
                Task::Turn(_) => panic!("{line:?}"),
            }
        };
        assert_eq!(target(&["--uncommitted"]), Some(ReviewTarget::UncommittedChanges {}));
        let branch = "main".to_owned();
        assert_eq!(target(&["--base", "main"]), Some(ReviewTarget::BaseBranch { branch }));
        let commit = ReviewTarget::Commit { sha: "a".into(), title: Some("t".into()) };
        assert_eq!(target(&["--commit", "a", "--title", "t"]), Some(commit));
        let instructions = "look".to_owned();
        assert_eq!(target(&["look"]), Some(ReviewTarget::Custom { instructions }));
        assert_eq!(target(&["-"]), None);
    }

    #[test]
    fn the_flag_is_found_in_a_line_that_cannot_be_parsed() {
        let check = |line: &[&str], expect: bool| {
            let line = std::iter::once(&"agentd").chain(line).map(OsString::from);
            assert_eq!(names_thread_events(line), expect);
        };
        check(&["exec", "--zork", "--experimental-json"], true);
        check(&["-c", "a=1", "exec", "--experimental-json", "review"], true);
        check(&["exec", "--json", "--zork"], false);
        check(&["exec", "--zork", "--", "--experimental-json"], false);
        check(&["app-server", "--experimental-json"], false);
        let Err(error) = parse(&["resume"]) else { panic!("no error") };
        let text = reason(&error);
        assert!(text.contains("<THREAD_ID>") && !text.contains("Usage"), "{text}");
        let Err(error) = parse(&["--sandbox", "zork"]) else { panic!("no error") };
        let text = reason(&error);
        assert!(text.starts_with("invalid value 'zork'") && !text.contains("--help"), "{text}");
    }

    #[test]
    fn contradictions_are_refused() {
        for line in [
            &["resume"][..],
            &["review"],
            &["review", "--uncommitted", "--base", "main"],
            &["review", "--title", "t", "words"],
            &["--json", "--experimental-json", "p"],
            &["--ephemeral", "--resume", "t"],
        ] {
            assert!(parse(line).is_err(), "{line:?}");
        }
        for line in [&["--ephemeral", "resume", "t"][..], &["--resume", "t", "resume", "u"]] {
            assert!(parse(line).unwrap().thread().is_err(), "{line:?}");
        }
        for line in [
            &["a", "resume", "t", "b"][..],
            &["a", "review", "--uncommitted"],
            &["review", "--uncommitted", "--image", "a.png"],
            &["resume", "--last", "t", "b"],
        ] {
            assert!(parse(line).unwrap().task().is_err(), "{line:?}");
        }
    }
}
