//! Looks at what a tool call names, off the actor: images and patched files are read, commands are
//! judged by the rules. One look of a thread after the other, so that results come in the order of
//! the calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox::rules::{Decision, Invocation, PathResolver};
use session::{
    Assessment, Attempted, Id, ImageData, Input, PatchPlan, Prepared, Settings, ToolError,
    ToolRequest,
};
use tokio::sync::oneshot;

use crate::convert::settings::confinement;
use crate::error::Error;
use crate::server::Core;
use crate::thread::actor::Actor;
use crate::thread::patches::PlannedPatch;
use crate::thread::{Command, patches};
use crate::{permitted, rules, warnings};

/// Answer to a command that is not only a patch.
const MIXED_PATCH: &str = "`apply_patch` is a tool, not a program: call the tool with the patch, and \
    run other commands on their own. A command that is nothing but `apply_patch <<'EOF'`, with \
    quotes around the delimiter, the patch, and `EOF` is understood too.";

/// What is known of a thread when one of its tool calls is looked at.
#[derive(Clone)]
pub(super) struct Inspector {
    pub(super) core: Arc<Core>,
    pub(super) config: Arc<config::Config>,
    pub(super) settings: Settings,
}

/// A patch that was found to apply, or what was to be changed and why it cannot be.
pub(super) type Planned = Result<(PatchPlan, PlannedPatch), (Vec<session::Change>, String)>;

impl Actor {
    pub(super) fn inspector(&self) -> Inspector {
        Inspector {
            core: self.core.clone(),
            config: self.config.clone(),
            settings: self.machine.settings().clone(),
        }
    }

    /// Looks at a tool call and reports what it found.
    pub(super) fn prepare(&mut self, call: u64, _turn: &Id, request: ToolRequest) {
        let attempted = self.inspector().attempted(&request);
        let refused = move |message: String| {
            Command::Input(match attempted {
                None => {
                    let outcome = Prepared::Image(Err(ToolError::new(message)));
                    Input::Prepared { call, outcome }
                }
                Some(attempted) => {
                    Input::Prepared { call, outcome: Prepared::Refused { attempted, message } }
                }
            })
        };
        self.inspect(move |inspector| inspector.look(call, request), refused);
    }

    /// Writes what was planned. What the user approved beyond the sandbox's roots is allowed for
    /// exactly these files.
    pub(super) fn apply(&mut self, call: u64, turn: &Id) {
        let Some(patch) = self.patches.take(call) else {
            let outcome = Err(ToolError::new("the patch is gone; give it again"));
            return self.soon(Input::Applied { call, outcome });
        };
        let turn = turn.clone();
        let unknown = move |why: String| {
            let why = format!(
                "{why}. The patch may still be applied when it does: read the files before you \
                 give it again"
            );
            Command::Input(Input::Applied { call, outcome: Err(ToolError::new(why)) })
        };
        let work = move |inspector: &Inspector| {
            let outcome = inspector.apply_patch(&patch);
            Command::Applied { call, turn, patch, outcome }
        };
        self.inspect(work, unknown);
    }

    /// Does `work` off the runtime's threads after what was begun before, and gives the thread the
    /// command that comes of it, or `unanswered` when the file system does not answer.
    fn inspect(
        &mut self,
        work: impl FnOnce(&Inspector) -> Command + Send + 'static,
        unanswered: impl FnOnce(String) -> Command + Send + 'static,
    ) {
        let inspector = self.inspector();
        let sender = self.sender.clone();
        let (done, next) = oneshot::channel::<()>();
        let before = self.inspected.replace(next);
        tokio::spawn(async move {
            if let Some(before) = before {
                // Its sender is dropped when it has reported.
                let _ = before.await;
            }
            let (core, place) = (inspector.core.clone(), inspector.settings.cwd.clone());
            let found = core.files.run(&place, move || work(&inspector)).await;
            let command = found.unwrap_or_else(|error| unanswered(error.to_string()));
            // A thread that has ended needs no answer.
            let _ = sender.send(command).await;
            drop(done);
        });
    }

    /// Allows a command prefix from now on.
    pub(super) fn allow(&self, cwd: &Path, prefix: &[String]) {
        let (inspector, id) = (self.inspector(), self.id.clone());
        let peers: Vec<_> = self.subscribers.iter().cloned().collect();
        let (cwd, prefix) = (cwd.to_owned(), prefix.to_vec());
        tokio::spawn(async move {
            let core = inspector.core.clone();
            let work = {
                let cwd = cwd.clone();
                move || inspector.core.rules.allow(&prefix, &cwd, &inspector.resolver())
            };
            let allowed = core.files.run(&cwd, work).await;
            let why = match allowed {
                Ok(Ok(())) => return,
                Ok(Err(why)) => why.to_string(),
                Err(error) => error.to_string(),
            };
            let message = format!("the command was run, but will be asked about again: {why}");
            for peer in &peers {
                warnings::tell_about_thread(peer, &id, message.clone());
            }
        });
    }
}

impl Inspector {
    fn look(&self, call: u64, request: ToolRequest) -> Command {
        let outcome = match request {
            ToolRequest::Image { path } => {
                let image = self.read_image(&path);
                let outcome =
                    Prepared::Image(image.map_err(|error| ToolError::new(error.to_string())));
                return Command::Input(Input::Prepared { call, outcome });
            }
            ToolRequest::Patch { text } => {
                let cwd = &self.settings.cwd;
                // Models that know the shell write their command into the tool's input.
                return match patch::embedded(&text) {
                    Some(embedded) => self.embedded(call, &embedded, cwd),
                    None => planned(call, self.plan_patch(&text, cwd)),
                };
            }
            ToolRequest::Script { login: true, script, workdir, .. }
                if !self.config.allow_login_shell =>
            {
                let message =
                    "login shells are switched off (`allow_login_shell`); leave `login` out";
                refused_command(script, self.workdir(workdir.as_deref()), message)
            }
            ToolRequest::Script { script, workdir, .. } => {
                let cwd = self.workdir(workdir.as_deref());
                if let Some(embedded) = patch::embedded(&script) {
                    return self.embedded(call, &embedded, &cwd);
                }
                match patch::is_mixed(&script) {
                    true => refused_command(script, cwd, MIXED_PATCH),
                    false => self.assess(Invocation::Script(&script), script.clone(), cwd),
                }
            }
            ToolRequest::Argv { argv, workdir } => {
                let cwd = self.workdir(workdir.as_deref());
                if let Some(embedded) = patch::embedded_argv(&argv) {
                    return self.embedded(call, &embedded, &cwd);
                }
                match patch::is_mixed_argv(&argv) {
                    true => refused_command(sandbox::rules::quote(&argv), cwd, MIXED_PATCH),
                    false => {
                        self.assess(Invocation::Argv(&argv), sandbox::rules::quote(&argv), cwd)
                    }
                }
            }
        };
        Command::Input(Input::Prepared { call, outcome })
    }

    /// What a request is for, before anything of it was looked at; `None` for an image.
    fn attempted(&self, request: &ToolRequest) -> Option<Attempted> {
        let command = |display: String, workdir: &Option<String>| {
            let cwd = self.workdir(workdir.as_deref());
            Some(Attempted::Command { display, cwd })
        };
        match request {
            ToolRequest::Image { .. } => None,
            ToolRequest::Patch { .. } => Some(Attempted::Patch { changes: Vec::new() }),
            ToolRequest::Script { script, workdir, .. } => command(script.clone(), workdir),
            ToolRequest::Argv { argv, workdir } => command(sandbox::rules::quote(argv), workdir),
        }
    }

    fn embedded(&self, call: u64, embedded: &patch::Embedded, cwd: &Path) -> Command {
        let folder = embedded.workdir.as_ref();
        let cwd = folder.map_or_else(|| cwd.to_owned(), |folder| cwd.join(folder));
        planned(call, self.plan_patch(&embedded.patch, &cwd))
    }

    fn read_image(&self, path: &str) -> Result<ImageData, Error> {
        let path = self.settings.cwd.join(path);
        let path = self.policy().check_read(&path);
        let path = path.map_err(|denied| Error::denied(denied.to_string()))?;
        let data_url = crate::images::data_url(&path)?;
        Ok(ImageData { path: path.display().to_string(), data_url })
    }

    /// Finds the hunks of a patch; nothing is changed.
    fn plan_patch(&self, text: &str, cwd: &Path) -> Planned {
        let parsed = patch::parse(text)
            .map_err(|error| (Vec::new(), format!("the patch cannot be read: {error}")))?;
        let policy = self.policy().settle();
        let mut read = |path: &Path| -> Result<Option<String>, patch::ReadError> {
            policy.check_read(path).map_err(|error| patch::ReadError::new(error.to_string()))?;
            match files::read_text(path, patches::MAX_FILE_BYTES) {
                Ok(text) => Ok(Some(text)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(patch::ReadError::new(error.to_string())),
            }
        };
        let changes = patch::plan(&parsed, cwd, &mut read).map_err(|error| {
            let message = format!("the patch does not apply: {error}");
            (patches::attempted(&parsed, cwd), message)
        })?;
        let outside = changes
            .iter()
            .flat_map(patches::touched)
            .find_map(|path| policy.check_write(path).err())
            .map(|denied| denied.to_string());
        let destinations = outside
            .as_ref()
            .map(|_| sandbox::files::destinations(&patches::writes(&changes)))
            .transpose()
            .map_err(|error| {
                let message = format!("the patch does not apply: {error}");
                (patches::attempted(&parsed, cwd), message)
            })?;
        let plan =
            PatchPlan { changes: changes.iter().flat_map(patches::shown).collect(), outside };
        Ok((plan, PlannedPatch { changes, destinations }))
    }

    /// What was planned within the policy stays within it, whatever a command that runs meanwhile
    /// makes of the folders.
    fn apply_patch(&self, patch: &PlannedPatch) -> Result<(), Error> {
        let writes = patches::writes(&patch.changes);
        let done = match &patch.destinations {
            None => sandbox::files::apply(&writes, Some(&self.policy())),
            Some(approved) => sandbox::files::apply_approved(&writes, approved),
        };
        done.map_err(|error| Error::failed(error.to_string()))
    }

    fn policy(&self) -> sandbox::Resolved {
        let policy = confinement(&self.settings.sandbox, &self.settings.cwd);
        let resolved = policy.resolve(self.core.options.tmpdir().as_deref());
        resolved.guarding(&self.config.trusted_folders)
    }

    /// What the user's own script does, for display; the error says why it may not run.
    pub(super) fn user_shell(&self, script: &str) -> Result<Vec<session::Action>, Error> {
        let (invocation, cwd) = (Invocation::Script(script), &self.settings.cwd);
        permitted::check_full_access(&self.core, &self.config, invocation, cwd)?;
        let found = self.core.rules.assess(invocation, cwd, &self.resolver(), &self.config);
        Ok(found.actions.into_iter().map(action).collect())
    }

    fn workdir(&self, workdir: Option<&str>) -> PathBuf {
        let cwd = &self.settings.cwd;
        workdir.map_or_else(|| cwd.clone(), |folder| cwd.join(folder))
    }

    fn assess(&self, invocation: Invocation<'_>, display: String, cwd: PathBuf) -> Prepared {
        if !cwd.is_dir() {
            let what = if cwd.exists() { "is no folder" } else { "is not there" };
            let message = format!("the working folder {} {what}", cwd.display());
            return refused_command(display, cwd, &message);
        }
        let found = self.core.rules.assess(invocation, &cwd, &self.resolver(), &self.config);
        let normal_form = match invocation {
            Invocation::Script(script) => sandbox::rules::normal_form(script),
            Invocation::Argv(_) => None,
        };
        Prepared::Command(Assessment {
            display,
            cwd,
            actions: found.actions.into_iter().map(action).collect(),
            known_safe: found.known_safe,
            dangerous: found.dangerous,
            rule: found.decision.map(|verdict| (rule(verdict.decision), rules::reason(verdict))),
            amendment: found.proposed_amendment,
            amendable: found.amendable,
            normal_form,
        })
    }

    fn resolver(&self) -> PathResolver {
        let Settings { sandbox, cwd, .. } = &self.settings;
        rules::resolver(&self.core.options, &self.config, sandbox, cwd)
    }
}

fn planned(call: u64, planned: Planned) -> Command {
    match planned {
        Ok((plan, patch)) => Command::Planned { call, plan, patch },
        Err((changes, message)) => {
            let attempted = Attempted::Patch { changes };
            let outcome = Prepared::Refused { attempted, message };
            Command::Input(Input::Prepared { call, outcome })
        }
    }
}

fn refused_command(display: String, cwd: PathBuf, message: &str) -> Prepared {
    let attempted = Attempted::Command { display, cwd };
    Prepared::Refused { attempted, message: message.to_owned() }
}

fn rule(decision: Decision) -> session::RuleDecision {
    match decision {
        Decision::Allow => session::RuleDecision::Allow,
        Decision::Prompt => session::RuleDecision::Prompt,
        Decision::Forbidden => session::RuleDecision::Forbidden,
    }
}

fn action(action: sandbox::rules::Action) -> session::Action {
    use sandbox::rules::Action;
    match action {
        Action::Read { command, name, path } => session::Action::Read { command, name, path },
        Action::ListFiles { command, path } => session::Action::ListFiles { command, path },
        Action::Search { command, query, path } => session::Action::Search { command, query, path },
        Action::Unknown { command } => session::Action::Unknown { command },
    }
}
