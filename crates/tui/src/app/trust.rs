//! Trust in a folder: where it has something that only counts in a trusted one, the user is asked once.

pub(super) mod state;

use protocol::config::{ConfigLayer, ConfigLayerSource};
use protocol::{
    ConfigReadParams, ConfigReadResponse, ConfigWarningNotification, FsGetMetadataParams,
};
use serde_json::{Value, json};

use crate::app::App;
use crate::app::asking::quoted;
use crate::app::configuration::Configuration;
use crate::ask::{Ask, Offer};
use crate::palette::Palette;
use crate::text::Line;

/// The parts that count only in a trusted folder, and their meaning.
const PARTS: &[(&str, &str)] = &[
    (
        ".agent/config.toml",
        "settings: the model, the sandbox, what runs without asking, and MCP servers, which are programs \
         that run with your rights",
    ),
    (".agent/rules", "which commands run without asking"),
    (".agent/hooks.json", "programs that run during turns, each only after you trust it by itself"),
    (".agent/skills", "instructions for the model, with scripts"),
    (".agents/skills", "instructions for the model, with scripts"),
    (".claude/skills", "instructions for the model, with scripts"),
];
/// Folders that are asked about at once, at most. More are named by warnings.
const MAX_FOLDERS: usize = 8;

impl App {
    /// Keeps a warning until the configuration is known.
    pub(super) fn config_warning(&mut self, warning: ConfigWarningNotification) {
        self.trust.warnings.push(warning);
        if !self.is_configuring {
            self.print_config_warnings();
        }
    }

    fn print_config_warnings(&mut self) {
        for it in std::mem::take(&mut self.trust.warnings) {
            let is_asked = it.path.as_ref().is_some_and(|path| self.trust.found.contains_key(path));
            if is_asked {
                continue;
            }
            let place = it.path.map(|path| format!(" ({path})")).unwrap_or_default();
            let details = it.details.map(|text| format!("\n{text}")).unwrap_or_default();
            self.warning(&format!("{}{place}{details}", it.summary));
        }
    }

    /// Asks about the folders that the configuration leaves out, unless there is an entry for them, and
    /// goes on.
    pub(super) fn check_trust(
        &mut self,
        config: &ConfigReadResponse,
        cwd: String,
        then: fn(&mut Self),
    ) {
        if !self.trust.checked.insert(cwd) {
            self.print_config_warnings();
            return then(self);
        }
        let folders = self.unknown_folders(config);
        self.trust.found = folders.iter().map(|it| (it.clone(), Vec::new())).collect();
        self.print_config_warnings();
        if folders.is_empty() {
            return then(self);
        }
        self.trust.then = Some(then);
        self.trust.pending = folders.len() * PARTS.len();
        for folder in folders {
            for (part, (name, _)) in PARTS.iter().enumerate() {
                let params = FsGetMetadataParams { path: format!("{folder}/{name}") };
                let folder = folder.clone();
                self.call::<protocol::FsGetMetadata>(&params, move |app, result| {
                    // What cannot be looked at is not there for the server either.
                    app.part_known(&folder, part, result.is_ok());
                });
            }
        }
    }

    fn unknown_folders(&self, config: &ConfigReadResponse) -> Vec<String> {
        let home = self.environment.home.as_ref().and_then(|home| home.to_str());
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

    fn part_known(&mut self, folder: &str, part: usize, is_there: bool) {
        if is_there && let Some(parts) = self.trust.found.get_mut(folder) {
            parts.push(part);
        }
        self.trust.pending -= 1;
        if self.trust.pending == 0 {
            self.ask_for_trust();
        }
    }

    fn ask_for_trust(&mut self) {
        let mut facts = Vec::new();
        for (folder, parts) in &mut self.trust.found {
            parts.sort_unstable();
            facts.push(Line::new(format!("{folder} has:"), Palette::STRONG));
            facts.extend(parts.iter().map(|part| {
                let (name, what) = PARTS[*part];
                Line::plain(format!("  {name}")).with(format!("  {what}"), Palette::QUIET)
            }));
        }
        facts.push(Line::plain(
            "If you trust it, all of this counts for threads that work here, even when a file of it \
             changes later. Subfolders need a trust of their own.",
        ));
        facts.push(Line::plain(
            "If not, none of it is read or run. Everything else works the same: the agent reads and \
             writes files here as the sandbox and your approvals allow.",
        ));
        let offers = vec![
            Offer::new("trusted", 't', "Trust it").granting(),
            Offer::new("untrusted", 'n', "Do not trust it, and do not ask again"),
            Offer::new("later", 'l', "Do not trust it now (Esc)")
                .with_effect("asked again at the next start"),
        ];
        let title = match self.trust.found.len() {
            1 => "Do you trust this folder?",
            _ => "Do you trust these folders?",
        };
        self.open_dialog_later(Ask::offer(title, facts, offers), Self::trust_chosen);
    }

    fn trust_chosen(&mut self, reply: Value) {
        let folders: Vec<String> = std::mem::take(&mut self.trust.found).into_keys().collect();
        let names = folders.join(", ");
        let Some(level) = reply.as_str().filter(|level| *level != "later") else {
            self.info(&format!("Not trusted for now: {names}."));
            return self.go_on();
        };
        let key = |folder: &String| format!("projects.{}.trust_level", quoted(folder));
        let values = folders.iter().map(|folder| (key(folder), json!(level))).collect();
        let is_trusted = level == "trusted";
        self.store_settings(values, move |app, stored| {
            match stored {
                Ok(file) if is_trusted => {
                    app.info(&format!("Trusted from now on: {names} (`projects` in {file})."));
                    app.read_configuration();
                }
                Ok(file) => {
                    app.info(&format!(
                        "Not trusted, and not asked again: {names} (`projects` in {file})."
                    ));
                }
                Err(why) => app.error(&format!("It was not stored, so nothing is trusted: {why}")),
            }
            app.go_on();
        });
    }

    fn go_on(&mut self) {
        if let Some(then) = self.trust.then.take() {
            then(self);
        }
    }

    /// A thread of another folder than that of the start: asks about that one.
    pub(super) fn check_trust_of(&mut self, cwd: &str) {
        // A question that is open comes first; this folder is asked about the next time.
        if self.trust.checked.contains(cwd) || !self.trust.found.is_empty() {
            return;
        }
        let params = ConfigReadParams {
            cwd: Some(cwd.to_owned()),
            include_layers: true,
            ..ConfigReadParams::default()
        };
        let cwd = cwd.to_owned();
        self.is_configuring = true;
        self.call::<protocol::ConfigRead>(&params, |app, result| {
            app.is_configuring = false;
            match result {
                Ok(config) => app.check_trust(&config, cwd, |app| {
                    app.load_skills();
                }),
                Err(error) => {
                    app.print_config_warnings();
                    app.error(&format!(
                        "The configuration of {cwd} cannot be read: {}",
                        error.message
                    ));
                }
            }
        });
    }
}

/// The folder of a project's layer that is left out since it is not trusted.
fn left_out(layer: &ConfigLayer) -> Option<String> {
    layer.disabled_reason.as_ref()?;
    let ConfigLayerSource::Project { dot_agent_folder } = &layer.name else { return None };
    let folder: &str = dot_agent_folder.as_ref();
    Some(folder.strip_suffix("/.agent").unwrap_or(folder).to_owned())
}
