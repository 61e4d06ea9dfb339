//! The question of the first start in a repository: what the agent may do there. It is asked where nothing
//! decides that yet, together with trust in the repository's own settings, and kept in the user's configuration.

use std::path::{Path, PathBuf};

use protocol::common::Empty;
use protocol::config::ConfigLayerSource;
use protocol::{ConfigReadResponse, SandboxMode};
use serde_json::{Value, json};

use crate::app::access::{self, Access};
use crate::app::configuration::quoted;
use crate::app::first_start::Due;
use crate::app::program::App;
use crate::app::trust;
use crate::ask::{Ask, Offer};
use crate::text::Line;

/// The keys that decide what the agent may do.
const DECIDING: [&str; 3] = ["sandbox_mode", "approval_policy", "default_permissions"];

/// Finds out whether the question is to be asked, and goes on.
pub(super) fn prepare(
    app: &mut App,
    read: &ConfigReadResponse,
    then: impl FnOnce(&mut App) + 'static,
) {
    if !app.first_start.is_open() || !app.beginning.takes_defaults() || !is_undecided(read) {
        return then(app);
    }
    let cwd = app.beginning.cwd().to_owned();
    access::find_root(app, &cwd, access::markers(read), |app, root| match root {
        Some(root) => ask_requirements(app, root, then),
        None => then(app),
    });
}

/// True if the server says that the keys are not set anywhere.
fn is_undecided(read: &ConfigReadResponse) -> bool {
    let is_default = |key: &str| {
        read.origins.get(key).is_some_and(|origin| origin.name == ConfigLayerSource::Default)
    };
    let is_set = |key: &str| {
        let below = format!("{key}.");
        read.origins.iter().any(|(name, origin)| {
            (name == key || name.starts_with(&below)) && origin.name != ConfigLayerSource::Default
        })
    };
    is_default(DECIDING[0]) && !DECIDING.into_iter().any(is_set)
}

fn ask_requirements(app: &mut App, root: PathBuf, then: impl FnOnce(&mut App) + 'static) {
    app.call::<protocol::ConfigRequirementsRead>(&Empty {}, |app, result| {
        match result {
            Ok(read) => {
                let required = read.requirements.unwrap_or_default();
                app.first_start.set_due(Due::new(root, &required));
            }
            Err(error) => {
                app.warning(&format!(
                    "The administrator's requirements cannot be read, so you are not asked what \
                     the agent may do here: {}",
                    error.message
                ));
            }
        }
        then(app);
    });
}

/// True if the question is to be asked now.
pub(super) fn is_due(app: &App) -> bool {
    app.first_start.due().is_some()
}

/// Asks. `untrusted` are folders with settings that count only in a trusted folder, and `found` says which
/// settings; the answer goes for them, too.
pub(super) fn ask(app: &mut App, untrusted: Vec<String>, found: Vec<Line>) {
    let Some(Due { root, may_never_ask }) = app.first_start.due().cloned() else { return };
    let has_settings = !untrusted.is_empty();
    let mut facts = found;
    facts.push(Line::plain(
        "The answer is stored in your configuration. /approvals changes it at any time.",
    ));
    let suffix = if has_settings { ", without its settings" } else { "" };
    let offer = |access: Access| {
        let label = format!("{}{suffix}", access.label());
        Offer::new(access.id(), access.letter(), label).with_effect(access.effect())
    };
    let mut offers = Vec::new();
    if has_settings {
        let label = "Trust its settings, edit files and run sandboxed commands";
        offers.push(Offer::new(TRUST, 't', label).granting());
    }
    offers.extend([offer(Access::Edit).granting(), offer(Access::Ask)]);
    offers.extend(may_never_ask.then(|| offer(Access::ReadOnly)));
    let safest = if may_never_ask { "read only" } else { "asks before each edit" };
    offers.push(
        Offer::new("later", 'n', "Not now")
            .with_effect(format!("{safest} until the next start, which asks again"))
            .on_escape(),
    );
    let folder = app.folder(&root.to_string_lossy());
    let title = format!("What may the agent do in {folder}?");
    app.open_dialog_later(Ask::offer(&title, facts, offers), move |app, reply| {
        app.first_start.settle();
        let answer = reply.as_str().filter(|reply| *reply != "later");
        match answer {
            Some(answer) => keep(app, &root, answer, untrusted),
            None => not_now(app, may_never_ask),
        }
    });
}

/// The reply that trusts the settings and lets the agent edit.
const TRUST: &str = "trust";

fn not_now(app: &mut App, may_never_ask: bool) {
    let access = if may_never_ask { Access::ReadOnly } else { Access::Ask };
    restrict(app, access);
    app.info(&format!("Until the next start: {}. /approvals changes it.", access.mode()));
    trust::go_on(app);
}

/// The first thread has this mode, whatever the configuration says.
fn restrict(app: &mut App, access: Access) {
    let sandbox = match access {
        Access::Edit => SandboxMode::WorkspaceWrite,
        _ => SandboxMode::ReadOnly,
    };
    app.beginning.restrict(access.approval(), sandbox);
}

fn keep(app: &mut App, root: &Path, answer: &str, untrusted: Vec<String>) {
    let is_trusted = answer == TRUST;
    let access = Access::parse(answer).unwrap_or(Access::Edit);
    let level = if is_trusted { "trusted" } else { "untrusted" };
    let mut values: Vec<(String, Value)> = vec![access::entry(root, access)];
    let key = |folder: &String| format!("projects.{}.trust_level", quoted(folder));
    values.extend(untrusted.iter().map(|folder| (key(folder), json!(level))));
    let folder = app.folder(&root.to_string_lossy());
    app.store_settings(values, move |app, stored| {
        match stored {
            Ok(file) => {
                let trust = match (is_trusted, untrusted.is_empty()) {
                    (true, _) => "; its settings are trusted",
                    (false, false) => "; its settings are not used",
                    (false, true) => "",
                };
                app.info(&format!(
                    "In {folder}, from now on: {}{trust} (`projects` in {file}). /approvals changes it.",
                    access.mode()
                ));
                if is_trusted {
                    trust::reload(app);
                }
            }
            Err(why) => {
                restrict(app, access);
                app.error(&format!(
                    "Not stored: it applies to this thread, and you are asked again next time: {why}"
                ));
            }
        }
        trust::go_on(app);
    });
}
