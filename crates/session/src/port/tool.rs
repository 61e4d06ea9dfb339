//! The driver's part of a tool call: looking up, running, and reporting.

use std::path::PathBuf;

use super::item::{Action, Change, ChangeKind};
use super::permission::Permissions;
use super::settings::SandboxPolicy;
use super::tool_error::ToolError;
use crate::Id;

/// A tool call that needs the world before it can be decided.
#[derive(Clone, Debug)]
pub enum ToolRequest {
    /// A shell script.
    Script { script: String, workdir: Option<String>, shell: Option<String>, login: bool },
    /// A plain argument vector.
    Argv { argv: Vec<String>, workdir: Option<String> },
    /// A patch.
    Patch { text: String },
    /// An image to look at.
    Image { path: String },
    /// Permissions that the model asks for: folders as it names them.
    Permissions { read: Vec<String>, write: Vec<String>, network: bool },
}

/// A command to run.
#[derive(Clone, Debug)]
pub struct ExecSpec {
    /// The call from `Prepare`.
    pub call: u64,
    /// The tool call to run.
    pub request: ToolRequest,
    /// The place.
    pub cwd: PathBuf,
    /// True if `cwd` is the real path that was decided about: the command must not start where a
    /// link has come to lead since.
    pub cwd_is_real: bool,
    /// Its access: full access when the user let it run outside the sandbox.
    pub sandbox: SandboxPolicy,
    /// Folders of `sandbox` that were granted: real paths, which hold only while they lead nowhere
    /// else.
    pub granted: Vec<PathBuf>,
    /// True if it gets a terminal.
    pub tty: bool,
    /// Killed after so many milliseconds.
    pub timeout_ms: Option<u64>,
}

/// The result of inspecting a tool call.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// It is a command.
    Command(Assessment),
    /// It is a patch, or a command that is one.
    Patch(PatchPlan),
    /// It is an image, or one that could not be read.
    Image(Result<ImageData, ToolError>),
    /// The permissions that the sandbox policy does not include yet, or why they can never be
    /// granted.
    Permissions(Result<Permissions, ToolError>),
    /// It is a job that writes this file, or one that cannot be done.
    JobOutput(Result<JobOutput, ToolError>),
    /// It cannot be done; the message is for the model and the clients.
    Refused { attempted: Attempted, message: String },
}

/// The intended action of a call that cannot be done, as far as it could be read.
#[derive(Clone, Debug)]
pub enum Attempted {
    /// Run a command.
    Command {
        /// The command in display form.
        display: String,
        /// Its working folder.
        cwd: PathBuf,
    },
    /// Change files.
    Patch {
        /// The changes that could be read.
        changes: Vec<Change>,
    },
}

/// The assessment of a command by the command rules.
#[derive(Clone, Debug, Default)]
pub struct Assessment {
    /// The command in display form.
    pub display: String,
    /// Its working folder as it was named, absolute.
    pub cwd: PathBuf,
    /// Where that leads, with links resolved: the command runs there or not at all.
    pub real_cwd: PathBuf,
    /// The apparent actions of the command.
    pub actions: Vec<Action>,
    /// True if it is known to be harmless.
    pub known_safe: bool,
    /// True if it is known to be destructive.
    pub dangerous: bool,
    /// True if it runs a script of a skill; known under granular policies only.
    pub is_skill_script: bool,
    /// The decision of a rule, with its justification.
    pub rule: Option<(RuleDecision, Option<String>)>,
    /// True if that rule is an administrator's: hooks do not consent in the user's place.
    pub is_rule_required: bool,
    /// The command prefix to offer for a lasting permission.
    pub amendment: Option<Vec<String>>,
    /// The commands that it consists of, as far as their words are known: the user may allow a
    /// prefix of one of them permanently. Opaque here.
    pub amendable: Vec<Vec<String>>,
    /// A script without how it is written: scripts with one form do the same. `None` when that is
    /// not known.
    pub normal_form: Option<Vec<String>>,
}

/// The decision of a command rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleDecision {
    /// Run without asking.
    Allow,
    /// Ask.
    Prompt,
    /// Do not run.
    Forbidden,
}

/// A patch whose hunks were found.
#[derive(Clone, Debug)]
pub struct PatchPlan {
    /// Its files.
    pub changes: Vec<Change>,
    /// Every path that it writes or removes.
    pub targets: Vec<PatchTarget>,
    /// The reason why the sandbox policy does not let all of them be written; `None` if it does.
    pub outside: Option<String>,
    /// Real path of the working folder, if making that writable would let all of them be written and
    /// the user can grant it.
    pub grantable_folder: Option<PathBuf>,
}

/// A path that a patch writes or removes. The patch is applied there or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchTarget {
    /// As the patch names it, absolute.
    pub path: PathBuf,
    /// Where it leads, with links resolved.
    pub real: PathBuf,
}

/// The file that a job over the rows of a table writes its results to when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOutput {
    /// The job's id.
    pub job: Id,
    /// True if it is a job that the call continues; otherwise a new one gets the id.
    pub is_continued: bool,
    /// The file. The results are written there or not at all.
    pub target: PatchTarget,
    /// True if results that the job wrote earlier are replaced.
    pub replaces: bool,
    /// The reason why the sandbox policy does not let it be written; `None` if it does.
    pub outside: Option<String>,
}

impl JobOutput {
    /// The patch that would write the file. Its contents are not known before the job ends.
    pub(crate) fn as_patch(&self) -> PatchPlan {
        let kind = match self.replaces {
            true => ChangeKind::Update { move_to: None },
            false => ChangeKind::Add,
        };
        let path = self.target.path.display().to_string();
        PatchPlan {
            changes: vec![Change { path, kind, diff: String::new() }],
            targets: vec![self.target.clone()],
            outside: self.outside.clone(),
            grantable_folder: None,
        }
    }
}

/// An image for the model.
#[derive(Clone, Debug)]
pub struct ImageData {
    /// Its absolute path.
    pub path: String,
    /// Its contents as a `data:` URL.
    pub data_url: String,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, or by a signal (128 + n).
    Code(i32),
    /// Killed at its timeout.
    TimedOut,
    /// Ended because of what it used.
    Limited {
        /// 128 + n: a signal ended it.
        code: i32,
        /// The limit, its value and what was used.
        reason: String,
    },
    /// It could not be started.
    NotStarted(String),
    /// It was not started, because the sandbox policy cannot be enforced on this machine.
    Unconfined(String),
}
