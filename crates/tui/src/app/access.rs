//! The modes of a thread, which say what the agent may do: `/approvals`, and the answer of an approval that allows edits. A mode holds
//! for a thread, or from now on for all new threads of a project (`projects.<path>.access`).

use std::path::{Path, PathBuf};

use protocol::config::{ConfigLayerMetadata, ConfigLayerSource};
use protocol::{
    AskForApproval, ConfigReadParams, ConfigReadResponse, FsGetMetadataParams, SandboxPolicy,
};
use serde_json::{Value, json};

use crate::app::configuration::{Configuration, quoted};
use crate::app::notices;
use crate::app::program::{App, word};
use crate::ask::{Ask, Offer};
use crate::text::Line;

/// The rights of the agent in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Edit,
    Ask,
    ReadOnly,
    Full,
}

impl Access {
    const ALL: [Self; 4] = [Self::Edit, Self::Ask, Self::ReadOnly, Self::Full];

    /// The value of `projects.<path>.access`.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Ask => "ask",
            Self::ReadOnly => "read-only",
            Self::Full => "full-access",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        // The name of `edit` in other agents.
        let name = if name == "auto" { "edit" } else { name };
        Self::ALL.into_iter().find(|access| access.id() == name)
    }

    pub(super) fn letter(self) -> char {
        match self {
            Self::Edit => 'e',
            Self::Ask => 'a',
            Self::ReadOnly => 'r',
            Self::Full => 'f',
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Edit => "Edit files in this folder and run sandboxed commands",
            Self::Ask => "Ask before each edit",
            Self::ReadOnly => "Read only",
            Self::Full => "Full access",
        }
    }

    pub(super) fn effect(self) -> &'static str {
        match self {
            Self::Edit => "asks before anything leaves the sandbox",
            Self::Ask => "commands run in a read-only sandbox, and the agent asks for more",
            Self::ReadOnly => "changes nothing and never asks",
            Self::Full => {
                "runs every command with your rights, without a sandbox and without asking"
            }
        }
    }

    pub(super) fn approval(self) -> AskForApproval {
        match self {
            Self::Edit | Self::Ask => AskForApproval::OnRequest,
            Self::ReadOnly | Self::Full => AskForApproval::Never,
        }
    }

    pub(super) fn sandbox(self, app: &App) -> SandboxPolicy {
        match self {
            Self::Edit => app.settings.workspace.policy(&app.working_folder()),
            Self::Ask | Self::ReadOnly => {
                SandboxPolicy::ReadOnly { access: None, network_access: false }
            }
            Self::Full => SandboxPolicy::DangerFullAccess {},
        }
    }

    /// The mode of a thread that has it.
    pub(super) fn mode(self) -> &'static str {
        match self {
            Self::Edit => EDITS,
            Self::Ask => ASKS,
            Self::ReadOnly => READS,
            Self::Full => FULL,
        }
    }
}

const EDITS: &str = "edits this folder";
const ASKS: &str = "asks before edits";
const READS: &str = "read only";
const FULL: &str = "full access";

/// The mode of a thread under these settings, in the words of the protocol or of the configuration.
pub(super) fn mode(approval: &str, sandbox: &str) -> &'static str {
    let (always, never) = (matches!(approval, "unlessTrusted" | "untrusted"), approval == "never");
    match sandbox {
        "dangerFullAccess" | "danger-full-access" if never => FULL,
        "dangerFullAccess" | "danger-full-access" => "full access, asks",
        "externalSandbox" => "external sandbox",
        _ if always => "asks before edits and commands",
        "workspaceWrite" | "workspace-write" if never => "edits this folder, never asks",
        "workspaceWrite" | "workspace-write" => EDITS,
        _ if never => READS,
        _ => ASKS,
    }
}

/// The thread works under these settings from the next turn on, or since it was opened.
pub(super) fn show(app: &mut App, approval: &AskForApproval, sandbox: &SandboxPolicy) {
    let (kind, words) = match sandbox {
        SandboxPolicy::DangerFullAccess {} => ("dangerFullAccess", "full access"),
        SandboxPolicy::ReadOnly { .. } => ("readOnly", "read only"),
        SandboxPolicy::WorkspaceWrite { .. } => ("workspaceWrite", "writes in the folder"),
        SandboxPolicy::ExternalSandbox { .. } => ("externalSandbox", "external sandbox"),
    };
    app.session.approval = word(approval);
    app.session.mode = mode(&app.session.approval, kind);
    app.session.sandbox = words;
}

/// The user allowed an edit and all that follow in the folder: the server lets the running turn write there,
/// and later turns of the thread have the mode that does the same.
pub(super) fn allow_edits(app: &mut App) {
    let sandbox = Access::Edit.sandbox(app);
    let approval = app.outbox.overrides_mut().approval_policy.clone();
    let approval = approval.unwrap_or(AskForApproval::OnRequest);
    show(app, &approval, &sandbox);
    app.outbox.overrides_mut().sandbox_policy = Some(sandbox);
}

/// `/approvals` and `/permissions`.
pub(super) fn choose(app: &mut App, rest: &str) {
    match (rest, Access::parse(rest)) {
        (_, Some(access)) => confirm(app, access),
        ("", None) => with_configuration(app, offer_modes),
        _ => app.error(&format!(
            "There is no mode {rest:?}: /approvals read-only, ask, edit or full-access"
        )),
    }
}

/// Reads the configuration in force for the thread's folder.
fn with_configuration(app: &mut App, then: impl FnOnce(&mut App, &ConfigReadResponse) + 'static) {
    let params = ConfigReadParams {
        cwd: Some(app.working_folder()),
        include_defaults: true,
        include_layers: false,
    };
    app.call::<protocol::ConfigRead>(&params, |app, result| match result {
        Ok(read) => then(app, &read),
        Err(error) => app.error(&format!("The configuration cannot be read: {}", error.message)),
    });
}

fn offer_modes(app: &mut App, read: &ConfigReadResponse) {
    let facts = vec![
        Line::plain(format!("This thread: {}.", app.session.mode)),
        Line::plain(format!("New threads here: {}.", held(app, read))),
    ];
    let offer = |access: Access| {
        let now = if access.mode() == app.session.mode { " (as now)" } else { "" };
        let label = format!("{}{now}", access.label());
        let offer = Offer::new(access.id(), access.letter(), label).with_effect(access.effect());
        match access {
            Access::Edit | Access::Full => offer.granting(),
            Access::Ask | Access::ReadOnly => offer,
        }
    };
    let mut offers: Vec<Offer> = Access::ALL.into_iter().map(offer).collect();
    offers.push(Offer::new("leave", 'l', "No change").on_escape());
    app.open_dialog(Ask::offer("What may the agent do here?", facts, offers), |app, reply| {
        match reply.as_str().and_then(Access::parse) {
            Some(access) => confirm(app, access),
            None => app.info("Nothing was changed."),
        }
    });
}

fn confirm(app: &mut App, access: Access) {
    match access {
        Access::Full => notices::confirm_full_access(app, |app| change(app, Access::Full)),
        access => change(app, access),
    }
}

/// Changes the thread's mode, and asks whether it holds for new threads, too.
fn change(app: &mut App, access: Access) {
    let (approval, sandbox) = (access.approval(), access.sandbox(app));
    show(app, &approval, &sandbox);
    app.outbox.overrides_mut().approval_policy = Some(approval);
    app.outbox.overrides_mut().sandbox_policy = Some(sandbox);
    app.info(&format!("From the next turn on, this thread: {}.", access.mode()));
    with_configuration(app, move |app, read| {
        let folder = app.folder(&app.working_folder());
        let facts = vec![
            Line::plain(format!("This thread: {}.", access.mode())),
            Line::plain(format!("New threads here: {}.", held(app, read))),
        ];
        let title = format!("{}: for how long?", access.label());
        let later = format!("also for new threads in {folder}; stored in your configuration");
        ask_scope(app, &title, facts, &later, move |app| keep(app, access));
    });
}

/// Asks for how long a setting holds that the thread has now. `later` says what is stored; `keep` stores it.
pub(super) fn ask_scope(
    app: &mut App,
    title: &str,
    facts: Vec<Line>,
    later: &str,
    keep: impl FnOnce(&mut App) + 'static,
) {
    let offers = vec![
        Offer::new("thread", 't', "For this thread").on_escape(),
        Offer::new("later", 'f', "From now on").with_effect(later),
    ];
    app.open_dialog(Ask::offer(title, facts, offers), |app, reply| {
        if reply == "later" {
            keep(app);
        }
    });
}

/// Stores the mode for the project, and says what holds for new threads then.
fn keep(app: &mut App, access: Access) {
    with_configuration(app, move |app, read| {
        let cwd = app.cwd().to_owned();
        let folder = cwd.clone();
        find_root(app, &folder, markers(read), move |app, root| {
            let project = root.unwrap_or(cwd);
            let values = vec![entry(&project, access)];
            app.store_settings(values, move |app, stored| match stored {
                Ok(file) => {
                    with_configuration(app, move |app, read| kept(app, access, &file, read));
                }
                Err(why) => app.error(&format!("It applies to this thread only: {why}")),
            });
        });
    });
}

fn kept(app: &mut App, access: Access, file: &str, read: &ConfigReadResponse) {
    match mode_of(read) == access.mode() {
        true => app.info(&format!(
            "From now on, for this thread and new ones here: {} (stored in {file}).",
            access.mode()
        )),
        // A profile, the project's own file or the command line comes after it.
        false => app.warning(&format!(
            "For this thread: {}. It is stored in {file}, but another setting decides for new \
             threads here: {}.",
            access.mode(),
            held(app, read)
        )),
    }
}

/// The edit that keeps a mode for a project.
pub(super) fn entry(project: &Path, access: Access) -> (String, Value) {
    let key = format!("projects.{}.access", quoted(&project.to_string_lossy()));
    (key, json!(access.id()))
}

/// The mode of new threads, and what decides it.
fn held(app: &App, read: &ConfigReadResponse) -> String {
    let by = |key: &str| read.origins.get(key).map(|origin| source(app, origin));
    let permissions = Configuration::new(&read.config).text("default_permissions");
    match permissions {
        Some(name) => {
            let by = by("default_permissions").unwrap_or_default();
            format!("permission profile {name} ({by})")
        }
        None => format!("{} ({})", mode_of(read), by("sandbox_mode").unwrap_or_default()),
    }
}

fn mode_of(read: &ConfigReadResponse) -> &'static str {
    let config = Configuration::new(&read.config);
    let approval = config.text("approval_policy").unwrap_or_default();
    mode(approval, config.text("sandbox_mode").unwrap_or_default())
}

/// Where a value comes from, for people.
pub(super) fn source(app: &App, origin: &ConfigLayerMetadata) -> String {
    match &origin.name {
        ConfigLayerSource::User { file } | ConfigLayerSource::System { file } => app.folder(file),
        ConfigLayerSource::LegacyManagedConfigTomlFromFile { file } => app.folder(file),
        ConfigLayerSource::Project { dot_agent_folder } => {
            format!("{}/config.toml", app.folder(dot_agent_folder))
        }
        ConfigLayerSource::SessionFlags => "the command line".to_owned(),
        ConfigLayerSource::Mdm { .. } | ConfigLayerSource::LegacyManagedConfigTomlFromMdm => {
            "the administrator".to_owned()
        }
        ConfigLayerSource::Default => "the default".to_owned(),
    }
}

/// The names of what a project's root has.
pub(super) fn markers(read: &ConfigReadResponse) -> Vec<String> {
    let markers = Configuration::new(&read.config).strings("project_root_markers");
    let is_name = |marker: &String| !marker.contains('/') && !matches!(&**marker, "" | "." | "..");
    markers.unwrap_or_else(|| vec![".git".to_owned()]).into_iter().filter(is_name).collect()
}

/// Finds the root of the project of a folder, which is on the server's machine: the nearest parent folder with
/// one of `markers`.
pub(super) fn find_root(
    app: &mut App,
    folder: &Path,
    markers: Vec<String>,
    then: impl FnOnce(&mut App, Option<PathBuf>) + 'static,
) {
    let parts = folder.ancestors();
    let places = parts.flat_map(|at| markers.iter().map(|marker| (at.to_owned(), at.join(marker))));
    let mut places: Vec<(PathBuf, PathBuf)> = places.collect();
    places.reverse();
    look_at_last(app, places, Box::new(then));
}

type OnRoot = Box<dyn FnOnce(&mut App, Option<PathBuf>)>;

/// Looks at the last place, and at the one before it where there is nothing.
fn look_at_last(app: &mut App, mut places: Vec<(PathBuf, PathBuf)>, then: OnRoot) {
    let Some((folder, marker)) = places.pop() else { return then(app, None) };
    let params = FsGetMetadataParams { path: marker.to_string_lossy().into_owned() };
    app.call::<protocol::FsGetMetadata>(&params, move |app, result| match result {
        Ok(_) => then(app, Some(folder)),
        // What cannot be looked at is not there for the server either.
        Err(_) => look_at_last(app, places, then),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_protocol_and_of_the_configuration_name_the_same_modes() {
        for (approval, sandbox, expected) in [
            (["onRequest", "on-request"], ["workspaceWrite", "workspace-write"], EDITS),
            (["onRequest", "on-request"], ["readOnly", "read-only"], ASKS),
            (["never", "never"], ["readOnly", "read-only"], READS),
            (["never", "never"], ["dangerFullAccess", "danger-full-access"], FULL),
            (
                ["unlessTrusted", "untrusted"],
                ["readOnly", "read-only"],
                "asks before edits and commands",
            ),
        ] {
            for at in 0..2 {
                assert_eq!(mode(approval[at], sandbox[at]), expected);
            }
        }
        for access in Access::ALL {
            assert_eq!(Access::parse(access.id()), Some(access));
        }
    }
}
