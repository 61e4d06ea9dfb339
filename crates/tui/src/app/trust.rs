//! Trust in a folder: where it has something that only counts in a trusted one, the user is asked once.

use protocol::config::{ConfigLayer, ConfigLayerSource};
use protocol::{
    ConfigReadParams, ConfigReadResponse, ConfigWarningNotification, FsGetMetadataParams,
};
use serde_json::{Value, json};

use crate::app::configuration::{Configuration, quoted};
use crate::app::program::App;
use crate::app::{completion, first_question};
use crate::ask::{Ask, Offer};
use crate::palette::Palette;
use crate::text::Line;

/// Files and folders that count only in a trusted folder, each with its effect.
const PARTS: &[(&str, &str)] = &[
    (
        ".agent/config.toml",
        "settings: the model, the sandbox, what runs without asking, and MCP servers, which are programs \
         that run with your rights",
    ),
    (".agent/rules", "which commands run without asking"),
    (
        ".agent/hooks.json",
        "programs that run during turns, each only after you trust it \
        separately",
    ),
    (".agent/skills", "instructions for the model, with scripts"),
    (".agents/skills", "instructions for the model, with scripts"),
    (".claude/skills", "instructions for the model, with scripts"),
];
/// Folders that are asked about at once, at most. More are named by warnings.
const MAX_FOLDERS: usize = 8;

/// Keeps a warning until the configuration is known.
pub(super) fn config_warning(app: &mut App, warning: ConfigWarningNotification) {
    app.trust.keep_warning(warning);
    if !app.beginning.is_configuring() {
        print_config_warnings(app);
    }
}

fn print_config_warnings(app: &mut App) {
    for it in app.trust.take_warnings() {
        let place = it.path.map(|path| format!(" ({path})")).unwrap_or_default();
        let details = it.details.map(|text| format!("\n{text}")).unwrap_or_default();
        app.warning(&format!("{}{place}{details}", it.summary));
    }
}

/// Asks about the folders that the configuration leaves out, unless there is an entry for them, and
/// goes on.
pub(super) fn check_trust(
    app: &mut App,
    config: &ConfigReadResponse,
    cwd: String,
    then: fn(&mut App),
    reload: fn(&mut App),
) {
    if !app.trust.look_at(cwd) {
        print_config_warnings(app);
        return proceed(app, then, reload);
    }
    let folders = unknown_folders(app, config);
    app.trust.set_folders(&folders);
    print_config_warnings(app);
    if folders.is_empty() {
        return proceed(app, then, reload);
    }
    app.trust.expect(folders.len() * PARTS.len(), then, reload);
    for folder in folders {
        for (part, (name, _)) in PARTS.iter().enumerate() {
            let params = FsGetMetadataParams { path: format!("{folder}/{name}") };
            let folder = folder.clone();
            app.call::<protocol::FsGetMetadata>(&params, move |app, result| {
                // What cannot be looked at is not there for the server either.
                part_known(app, &folder, part, result.is_ok());
            });
        }
    }
}

/// Goes on without a question about trust.
fn proceed(app: &mut App, then: fn(&mut App), reload: fn(&mut App)) {
    if !first_question::is_due(app) {
        return then(app);
    }
    app.trust.expect(0, then, reload);
    first_question::ask(app, Vec::new(), Vec::new());
}

fn unknown_folders(app: &App, config: &ConfigReadResponse) -> Vec<String> {
    let home = app.environment.home.as_ref().and_then(|home| home.to_str());
    let is_entry = |written: &str, folder: &str| match (written.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => folder.strip_prefix(home) == Some(&format!("/{rest}")),
        _ => written.trim_end_matches('/') == folder,
    };
    let values = Configuration::new(&config.config);
    let has_level = |entry: &Value| entry.get("trust_level").is_some_and(Value::is_string);
    let is_known = |folder: &str| {
        let mut entries = values.table("projects");
        entries.any(|(at, entry)| is_entry(at, folder) && has_level(entry))
    };
    let layers = config.layers.iter().flatten().filter_map(left_out);
    layers.filter(|folder| !is_known(folder)).take(MAX_FOLDERS).collect()
}

fn part_known(app: &mut App, folder: &str, part: usize, is_there: bool) {
    if app.trust.part_known(folder, part, is_there) {
        ask_for_trust(app);
    }
}

fn ask_for_trust(app: &mut App) {
    let mut facts = Vec::new();
    for (folder, parts) in app.trust.found() {
        facts.push(Line::new(format!("{folder} has:"), Palette::STRONG));
        facts.extend(parts.iter().map(|part| {
            let (name, what) = PARTS[*part];
            Line::plain(format!("  {name}")).with(format!("  {what}"), Palette::QUIET)
        }));
    }
    if first_question::is_due(app) {
        facts.push(Line::plain(
            "These settings apply only if you trust them. They then apply even if the files change \
             later.",
        ));
        let folders = app.trust.found().keys().cloned().collect();
        return first_question::ask(app, folders, facts);
    }
    facts.push(Line::plain(
        "If you trust the folder, all of this applies to threads that work here, even if the files \
         change later. Subfolders are trusted separately.",
    ));
    facts.push(Line::plain(
        "If not, none of it is read or run. Otherwise nothing changes: the agent reads and \
         writes files here as the sandbox and your approvals allow.",
    ));
    let offers = vec![
        Offer::new("trusted", 't', "Trust it").granting(),
        Offer::new("untrusted", 'n', "Do not trust it, and do not ask again"),
        Offer::new("later", 'l', "Do not trust it now")
            .with_effect("asked again at the next start")
            .on_escape(),
    ];
    let title = match app.trust.found().len() {
        1 => "Do you trust this folder?",
        _ => "Do you trust these folders?",
    };
    app.open_dialog_later(Ask::offer(title, facts, offers), trust_chosen);
}

fn trust_chosen(app: &mut App, reply: Value) {
    let folders = app.trust.take_folders();
    let names = folders.join(", ");
    let Some(level) = reply.as_str().filter(|level| *level != "later") else {
        app.info(&format!("Not trusted for now: {names}."));
        return go_on(app);
    };
    let key = |folder: &String| format!("projects.{}.trust_level", quoted(folder));
    let values = folders.iter().map(|folder| (key(folder), json!(level))).collect();
    let is_trusted = level == "trusted";
    app.store_settings(values, move |app, stored| {
        match stored {
            Ok(file) if is_trusted => {
                app.info(&format!("Trusted from now on: {names} (`projects` in {file})."));
                reload(app);
            }
            Ok(file) => {
                app.info(&format!(
                    "Not trusted, and not asked again: {names} (`projects` in {file})."
                ));
            }
            Err(why) => app.error(&format!(
                "The answer was not stored, so nothing is trusted: \
                {why}"
            )),
        }
        go_on(app);
    });
}

/// Reads the configuration again, after the answer changed it.
pub(super) fn reload(app: &mut App) {
    if let Some(reload) = app.trust.reload() {
        reload(app);
    }
}

/// Goes on after the question.
pub(super) fn go_on(app: &mut App) {
    app.trust.take_folders();
    if let Some(then) = app.trust.take_then() {
        then(app);
    }
}

/// A thread of another folder than that of the start: asks about that one.
pub(super) fn check_trust_of(app: &mut App, cwd: &str, reload: fn(&mut App)) {
    // A question that is open comes first; this folder is asked about the next time.
    if app.trust.is_settled(cwd) {
        return;
    }
    let params = ConfigReadParams {
        cwd: Some(cwd.to_owned()),
        include_layers: true,
        ..ConfigReadParams::default()
    };
    let cwd = cwd.to_owned();
    app.beginning.set_configuring(true);
    app.call::<protocol::ConfigRead>(&params, move |app, result| {
        app.beginning.set_configuring(false);
        match result {
            Ok(config) => check_trust(app, &config, cwd, completion::load_skills, reload),
            Err(error) => {
                print_config_warnings(app);
                app.error(&format!("The configuration of {cwd} cannot be read: {}", error.message));
            }
        }
    });
}

/// The folder of a project's layer that is left out since it is not trusted.
fn left_out(layer: &ConfigLayer) -> Option<String> {
    layer.disabled_reason.as_ref()?;
    let ConfigLayerSource::Project { dot_agent_folder } = &layer.name else { return None };
    let folder: &str = dot_agent_folder.as_ref();
    Some(folder.strip_suffix("/.agent").unwrap_or(folder).to_owned())
}
