//! Looks at what a tool call names, off the actor: images and patched files are read, commands are
//! assessed by the rules. A thread makes one inspection after the other, so that results come in the
//! order of the calls.

mod documents;
mod images;
mod outcomes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Config;
use files::Pool;
use sandbox::rules::{Invocation, PathResolver};
use session::{
    Action, Assessment, Attempted, Grant, Id, PatchPlan, PatchTarget, Prepared, Settings,
    ToolError, ToolRequest,
};
use tokio::sync::{mpsc, oneshot};

use crate::thread::patches::{self, Patches, Planned};
use crate::thread::permissions::PermissionChecks;
use documents::Inspected;
pub(in crate::thread) use images::AnswerImages;
use images::Found;
use outcomes::{action, planned, real_folder, refused_command, rule};
use services::allowed::{Allowed, MachineInput};
use services::command_environment::command_tmpdir;
use services::error::Error;
use services::image_reader::ImageReader;
use services::models::Models;
use services::options::Options;
use services::peer::Peer;
use services::rules::{self, CommandRules};
use services::skills::Skills;
use services::thread_port::{Command, PlannedPatch};
use services::undo::{self, CallRecorder};
use services::{command_checks, warnings};

/// Answer to a command that contains more than a patch.
const MIXED_PATCH: &str = "`apply_patch` is a tool, not a program: call the tool with the patch, and \
    run other commands on their own. A command that is nothing but `apply_patch <<'EOF'`, with \
    quotes around the delimiter, the patch, and `EOF` is understood too.";

/// The services that inspections use.
#[derive(Clone)]
pub struct InspectionServices {
    pub files: Pool,
    pub images: Arc<ImageReader>,
    pub models: Arc<Models>,
    pub rules: Arc<CommandRules>,
    pub skills: Arc<Skills>,
    pub options: Arc<Options>,
}

/// The inspections and patches of a thread.
pub struct ToolInspector {
    thread: Id,
    services: InspectionServices,
    sender: mpsc::Sender<Command>,
    patches: Patches,
    /// Resolves when the inspection that was begun last has reported.
    last: Option<oneshot::Receiver<()>>,
}

/// One inspection, and what is known of the thread when it begins.
#[derive(Clone)]
pub(super) struct Inspection {
    services: InspectionServices,
    config: Arc<Config>,
    settings: Allowed<Settings>,
    /// The project documents below the working folder that the model has.
    known_documents: Vec<PathBuf>,
}

/// A thread as tool calls see it.
pub(super) struct ToolContext {
    pub(super) config: Arc<Config>,
    pub(super) settings: Allowed<Settings>,
    /// The project documents below the working folder that the model has.
    pub(super) known_documents: Vec<PathBuf>,
}

impl ToolInspector {
    pub fn new(thread: Id, services: InspectionServices, sender: mpsc::Sender<Command>) -> Self {
        Self { thread, services, sender, patches: Patches::default(), last: None }
    }

    /// Inspects a tool call and reports what was found.
    pub(super) fn prepare(&mut self, call: u64, request: ToolRequest, context: ToolContext) {
        let inspection = self.inspection(context);
        let attempted = inspection.attempted(&request);
        let is_image = matches!(request, ToolRequest::Image { .. });
        let refused = move |message: String| {
            let outcome = match attempted {
                Some(attempted) => Prepared::Refused { attempted, message },
                None if is_image => Prepared::Image(Err(ToolError::new(message))),
                None => Prepared::Permissions(Err(ToolError::new(message))),
            };
            Command::Input(MachineInput::Prepared { call, outcome })
        };
        let look = move |inspection: &Inspection| {
            let place = inspection.place(&request);
            inspection.with_documents(place, inspection.look(call, request))
        };
        self.inspect(inspection, look, refused);
    }

    /// A patch applies: it is kept until it is approved.
    pub(super) fn keep_patch(&mut self, call: u64, patch: PlannedPatch) {
        self.patches.keep(call, patch);
    }

    /// Drops the patch of a call.
    pub(super) fn discard_patch(&mut self, call: u64) {
        self.patches.discard(call);
    }

    /// Writes a patch that was kept. What the user approved beyond the sandbox's roots is allowed for
    /// exactly these files. Returns what follows when there is no such patch.
    pub(super) fn apply(
        &mut self,
        call: u64,
        turn: Id,
        context: ToolContext,
        recorder: Option<CallRecorder>,
    ) -> Option<MachineInput> {
        let Some(patch) = self.patches.take(call) else {
            let outcome = Err(ToolError::new("the patch was dropped; send it again"));
            return Some(MachineInput::Applied { call, outcome });
        };
        let unanswered = move |why: String| {
            let why = format!(
                "{why}. The patch may still be applied when it does: read the files before you \
                 give it again"
            );
            Command::Input(MachineInput::Applied { call, outcome: Err(ToolError::new(why)) })
        };
        let work = move |inspection: &Inspection| {
            let outcome = inspection.apply_patch(&patch);
            Command::Applied { call, turn, patch, outcome }
        };
        let inspection = self.inspection(context);
        self.inspect_recorded(inspection, recorder, work, unanswered);
        None
    }

    /// A patch was written, or could not be. Returns what the turn has changed so far.
    pub(super) fn applied(
        &mut self,
        turn: Id,
        changes: &[patch::Change],
        outcome: Result<(), Error>,
        cwd: &Path,
    ) -> Result<String, Error> {
        outcome?;
        Ok(self.patches.record(turn, changes, cwd))
    }

    /// Looks at the folders of a grant once more, and reports whether they are as they were.
    pub(super) fn check_grant(&mut self, call: u64, grant: Grant, context: ToolContext) {
        let work = move |inspection: &Inspection| {
            let outcome = inspection.permissions().check(&grant).map(|()| grant);
            Command::GrantChecked { call, outcome }
        };
        let unanswered =
            move |why| Command::GrantChecked { call, outcome: Err(Error::failed(why)) };
        let inspection = self.inspection(context);
        self.inspect(inspection, work, unanswered);
    }

    pub(super) fn turn_ended(&mut self, turn: &Id) {
        self.patches.turn_ended(turn);
    }

    /// Returns the apparent actions of the user's own command, for display. It runs outside the
    /// sandbox, so the requirements have to allow that, and the command rules the command.
    ///
    /// # Errors
    /// Why it may not run.
    pub(super) async fn user_shell(
        &self,
        script: &str,
        context: ToolContext,
    ) -> Result<Vec<Action>, Error> {
        let (inspection, script) = (self.inspection(context), script.to_owned());
        let place = inspection.settings.cwd.clone();
        self.services.files.run(&place, move || inspection.user_shell(&script)).await?
    }

    /// Allows a command prefix from now on; `peers` learn when that fails.
    pub(super) fn allow_prefix(
        &self,
        cwd: &Path,
        prefix: Vec<String>,
        context: ToolContext,
        peers: Vec<Arc<Peer>>,
    ) {
        let (inspection, thread) = (self.inspection(context), self.thread.clone());
        let (files, cwd) = (self.services.files.clone(), cwd.to_owned());
        tokio::spawn(async move {
            let work = {
                let cwd = cwd.clone();
                move || inspection.services.rules.allow(&prefix, &cwd, &inspection.resolver())
            };
            let why = match files.run(&cwd, work).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            let message = format!(
                "the command was run, but will need approval again, because the rule was not \
                 stored: {why}"
            );
            for peer in &peers {
                warnings::send_about_thread(peer, &thread, message.clone());
            }
        });
    }

    fn inspection(&self, context: ToolContext) -> Inspection {
        let ToolContext { config, settings, known_documents } = context;
        Inspection { services: self.services.clone(), config, settings, known_documents }
    }

    /// Does `work` off the runtime's threads after what was begun before, and sends the thread the
    /// command that it returns, or `unanswered` when the file system does not answer.
    fn inspect<T: Into<Inspected> + Send + 'static>(
        &mut self,
        inspection: Inspection,
        work: impl FnOnce(&Inspection) -> T + Send + 'static,
        unanswered: impl FnOnce(String) -> Command + Send + 'static,
    ) {
        self.inspect_recorded(inspection, None, work, unanswered);
    }

    /// As [`ToolInspector::inspect`], for work that changes files.
    fn inspect_recorded<T: Into<Inspected> + Send + 'static>(
        &mut self,
        inspection: Inspection,
        recorder: Option<CallRecorder>,
        work: impl FnOnce(&Inspection) -> T + Send + 'static,
        unanswered: impl FnOnce(String) -> Command + Send + 'static,
    ) {
        let place = inspection.settings.cwd.clone();
        let InspectionServices { files, images, .. } = inspection.services.clone();
        self.in_order(async move {
            let _recorded = undo::begin_call(recorder).await;
            let Inspected { skills, documents, found } =
                match files.run(&place, move || work(&inspection).into()).await {
                    Ok(inspected) => inspected,
                    Err(error) => unanswered(error.to_string()).into(),
                };
            let command = match found {
                Found::Command(command) => *command,
                Found::Image(image) => image.prepared(&images).await,
            };
            let documents = documents.map(|found| Command::ProjectDocuments { found });
            let opened = (!skills.is_empty()).then_some(Command::SkillsOpened { files: skills });
            documents.into_iter().chain(opened).chain([command])
        });
    }

    /// Sends the thread the commands of `work`, which begins after what was begun before.
    fn in_order<T: IntoIterator<Item = Command, IntoIter: Send>>(
        &mut self,
        work: impl Future<Output = T> + Send + 'static,
    ) {
        let sender = self.sender.clone();
        let (done, next) = oneshot::channel::<()>();
        let before = self.last.replace(next);
        tokio::spawn(async move {
            if let Some(before) = before {
                // Its sender is dropped when it has reported.
                let _ = before.await;
            }
            for command in work.await.into_iter() {
                // A thread that has ended needs no result.
                let _ = sender.send(command).await;
            }
            drop(done);
        });
    }
}

impl Inspection {
    fn look(&self, call: u64, request: ToolRequest) -> Found {
        let outcome = match request {
            ToolRequest::Image { path } => return self.look_at_image(call, &path),
            ToolRequest::Permissions { read, write, network } => {
                let missing = self.permissions().missing(&read, &write, network);
                Prepared::Permissions(
                    missing.map_err(|error| ToolError::new(format!("not granted: {error}"))),
                )
            }
            ToolRequest::Patch { text } => {
                let cwd = &self.settings.cwd;
                // Models that know the shell write their command into the tool's input.
                let command = match patch::embedded(&text) {
                    Some(embedded) => self.embedded(call, &embedded, cwd),
                    None => planned(call, self.plan_patch(&text, cwd)),
                };
                return command.into();
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
                    return self.embedded(call, &embedded, &cwd).into();
                }
                match patch::is_mixed(&script) {
                    true => refused_command(script, cwd, MIXED_PATCH),
                    false => self.assess(Invocation::Script(&script), script.clone(), cwd),
                }
            }
            ToolRequest::Argv { argv, workdir } => {
                let cwd = self.workdir(workdir.as_deref());
                if let Some(embedded) = patch::embedded_argv(&argv) {
                    return self.embedded(call, &embedded, &cwd).into();
                }
                match patch::is_mixed_argv(&argv) {
                    true => refused_command(sandbox::rules::quote(&argv), cwd, MIXED_PATCH),
                    false => {
                        self.assess(Invocation::Argv(&argv), sandbox::rules::quote(&argv), cwd)
                    }
                }
            }
        };
        Command::Input(MachineInput::Prepared { call, outcome }).into()
    }

    fn permissions(&self) -> PermissionChecks<'_> {
        PermissionChecks {
            options: &self.services.options,
            config: &self.config,
            settings: &self.settings,
            policy: self.policy(),
        }
    }

    /// Returns the attempted action of a request, before it is inspected; `None` for an image and
    /// for permissions.
    fn attempted(&self, request: &ToolRequest) -> Option<Attempted> {
        let command = |display: String, workdir: &Option<String>| {
            let cwd = self.workdir(workdir.as_deref());
            Some(Attempted::Command { display, cwd })
        };
        match request {
            ToolRequest::Image { .. } | ToolRequest::Permissions { .. } => None,
            ToolRequest::Patch { .. } => Some(Attempted::Patch { changes: Vec::new() }),
            ToolRequest::Script { script, workdir, .. } => command(script.clone(), workdir),
            ToolRequest::Argv { argv, workdir } => command(sandbox::rules::quote(argv), workdir),
        }
    }

    fn embedded(&self, call: u64, embedded: &patch::Embedded, cwd: &Path) -> Command {
        let folder = embedded.workdir.as_ref();
        let cwd = folder.map_or_else(|| cwd.to_owned(), |folder| cwd.join(folder));
        // The model called the shell, so the error names the tool that it reached.
        let named = |(changes, why)| (changes, format!("`apply_patch`: {why}"));
        planned(call, self.plan_patch(&embedded.patch, &cwd).map_err(named))
    }

    /// Finds where the hunks of a patch apply; changes nothing.
    fn plan_patch(&self, text: &str, cwd: &Path) -> Planned {
        let parsed = patch::parse(text)
            .map_err(|error| (Vec::new(), format!("the patch cannot be read: {error}")))?;
        let policy = self.policy().settle();
        let mut read = |path: &Path| -> Result<Option<String>, patch::Error> {
            policy.check_read(path).map_err(|error| patch::Error::read(path, error.to_string()))?;
            match files::read_utf8(path, patches::MAX_FILE_BYTES) {
                Ok(text) => Ok(Some(text)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(patch::Error::read(path, error.to_string())),
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
        let writes = patches::writes(&changes);
        let destinations = sandbox::files::destinations(&writes).map_err(|error| {
            let message = format!("the patch does not apply: {error}");
            (patches::attempted(&parsed, cwd), message)
        })?;
        let target = |(write, real): (&sandbox::files::Change, &PathBuf)| PatchTarget {
            path: write.path.clone(),
            real: real.clone(),
        };
        let targets = writes.iter().zip(&destinations).map(target).collect();
        let is_outside = outside.is_some();
        let grantable_folder = is_outside.then(|| self.grantable_folder(&changes)).flatten();
        let shown = changes.iter().flat_map(patches::shown).collect();
        let plan = PatchPlan { changes: shown, targets, outside, grantable_folder };
        Ok((plan, PlannedPatch { changes, destinations, is_outside }))
    }

    /// The working folder, if the user can grant it and all the changes are in it, none of them at a
    /// protected path.
    fn grantable_folder(&self, changes: &[patch::Change]) -> Option<PathBuf> {
        let cwd = &self.settings.cwd;
        let named = cwd.to_str()?.to_owned();
        // What cannot be granted is not offered.
        let permissions = self.permissions().missing(&[], &[named], false).ok()?;
        let folder = permissions.write.first()?.clone();
        let widened = self.settings.sandbox.widened(cwd, &permissions).rooted(cwd);
        let tmpdir = command_tmpdir(&self.services.options, &self.config);
        let home = std::slice::from_ref(&self.services.options.home);
        let policy = sandbox::Resolved::new(&widened, tmpdir.as_deref())
            .guarding(&self.config.trusted_folders)
            .keeping(home)
            .granting(std::slice::from_ref(&folder))
            .settle();
        let is_allowed = |path: &Path| {
            let real = policy.check_write(path);
            real.is_ok_and(|real| real.starts_with(&folder))
        };
        changes.iter().flat_map(patches::touched).all(is_allowed).then_some(folder)
    }

    /// Writes a patch to the files that its paths led to when it was planned. One that was planned
    /// within the policy stays within it, even when a running command replaces folders by links.
    fn apply_patch(&self, patch: &PlannedPatch) -> Result<(), Error> {
        let writes = patches::writes(&patch.changes);
        let policy = (!patch.is_outside).then(|| self.policy());
        let done = sandbox::files::apply_approved(&writes, &patch.destinations, policy.as_ref());
        done.map_err(|error| Error::failed(error.to_string()))
    }

    fn policy(&self) -> sandbox::Resolved {
        let policy = self.settings.sandbox().confinement(&self.settings.cwd);
        let tmpdir = command_tmpdir(&self.services.options, &self.config);
        let resolved = sandbox::Resolved::new(&policy, tmpdir.as_deref());
        let home = std::slice::from_ref(&self.services.options.home);
        let resolved = resolved.guarding(&self.config.trusted_folders).keeping(home);
        resolved.granting(&self.settings.granted.folders())
    }

    /// Returns the apparent actions of the user's own script, for display.
    ///
    /// # Errors
    /// Why it may not run.
    pub(super) fn user_shell(&self, script: &str) -> Result<Vec<Action>, Error> {
        let (invocation, cwd) = (Invocation::Script(script), &self.settings.cwd);
        command_checks::check_full_access(
            &self.services.rules,
            &self.services.options,
            &self.config,
            invocation,
            cwd,
        )?;
        let found = self.services.rules.assess(invocation, cwd, &self.resolver(), &self.config);
        Ok(found.actions.into_iter().map(action).collect())
    }

    fn workdir(&self, workdir: Option<&str>) -> PathBuf {
        let cwd = &self.settings.cwd;
        workdir.map_or_else(|| cwd.clone(), |folder| cwd.join(folder))
    }

    fn assess(&self, invocation: Invocation<'_>, display: String, cwd: PathBuf) -> Prepared {
        let real_cwd = match real_folder(&cwd) {
            Ok(real) => real,
            Err(what) => {
                let message = format!("the working folder {} {what}", cwd.display());
                return refused_command(display, cwd, &message);
            }
        };
        let resolver = self.resolver();
        let found = self.services.rules.assess(invocation, &real_cwd, &resolver, &self.config);
        let is_skill_script =
            self.services.skills.runs_script(invocation, &real_cwd, &self.settings, &self.config);
        let normal_form = match invocation {
            Invocation::Script(script) => sandbox::rules::normal_form(script),
            Invocation::Argv(_) => None,
        };
        Prepared::Command(Assessment {
            display,
            cwd,
            real_cwd,
            actions: found.actions.into_iter().map(action).collect(),
            known_safe: found.known_safe,
            dangerous: found.dangerous,
            is_skill_script,
            is_rule_required: found.decision.as_ref().is_some_and(|verdict| verdict.is_required),
            rule: found.decision.map(|verdict| (rule(verdict.decision), rules::reason(verdict))),
            amendment: found.proposed_amendment,
            amendable: found.amendable,
            normal_form,
        })
    }

    fn resolver(&self) -> PathResolver {
        let Settings { sandbox, cwd, .. } = &*self.settings;
        rules::resolver(&self.services.options, &self.config, sandbox, cwd)
    }
}
