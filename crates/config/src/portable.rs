//! The settings of another program's configuration file that mean something here, too, and those that have no
//! counterpart, with the reason.

use std::path::Path;

use serde_json::Value as Json;

use crate::error::{Error, Warning, WarningKind};
use crate::key_path::join;
use crate::kind::{Kind, Section};
use crate::layer::Layer;
use crate::layer_name::LayerName;
use crate::table::Keys;
use crate::unused_parts::{DEFAULT_PROVIDER, OTHER_DEFAULT, selects_other_default};
use crate::value::{Node, Table, Value};

/// The settings of a file that could be set in a file of this program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Portable {
    /// In the order of their keys.
    pub settings: Vec<PortableSetting>,
    /// The keys of the others, and why each is left out: a sentence without a full stop.
    pub left_out: Vec<(String, String)>,
}

/// A setting with a counterpart.
#[derive(Debug, Clone, PartialEq)]
pub struct PortableSetting {
    pub key_path: Vec<String>,
    /// As this program writes it, with absolute paths.
    pub value: Json,
    /// The difference here.
    pub note: Option<String>,
}

impl Portable {
    /// Reads the text of a file at `path`, which is to become settings of the file of `target`.
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn read(text: &str, path: &Path, target: &LayerName) -> Result<Self, Error> {
        let name = match target {
            LayerName::Project { .. } => LayerName::Project { folder: folder_of(path) },
            _ => LayerName::User { file: path.to_owned() },
        };
        if let Some(error) = Error::of_all(Layer::syntax_mistakes(&name, text)) {
            return Err(error);
        }
        let (layer, error) = Layer::parse_usable(name, text);
        let mut found = Self::default();
        for error in error.into_iter().flat_map(Error::each) {
            found.left_out.push(match &error {
                Error::Invalid(invalid) => (invalid.key.clone(), invalid.mistake()),
                other => {
                    let (key, why) = other.gist();
                    (key.unwrap_or("the file").to_owned(), why)
                }
            });
        }
        for warning in layer.warnings() {
            let why = match warning.kind {
                WarningKind::Unknown => "there is no such key here".to_owned(),
                WarningKind::Ignored | WarningKind::LeftOut => warning.message.clone(),
                _ => continue,
            };
            found.left_out.push((warning.key.clone(), why));
        }
        let mut walk = Walk { folder: &folder_of(path), warnings: layer.warnings(), found };
        walk.table(&layer.root, Keys::SECTION, &mut Vec::new());
        for setting in &mut walk.found.settings {
            let is_selection = setting.key_path.last().is_some_and(|key| key == "model_provider");
            if is_selection && selects_other_default(&layer.root, setting.value.as_str()) {
                setting.value = DEFAULT_PROVIDER.into();
                setting.note = Some(format!("for `{OTHER_DEFAULT}`"));
            }
        }
        Ok(walk.found)
    }
}

fn folder_of(path: &Path) -> std::path::PathBuf {
    path.parent().unwrap_or(path).to_owned()
}

struct Walk<'w> {
    /// Base of relative paths.
    folder: &'w Path,
    warnings: &'w [Warning],
    found: Portable,
}

impl Walk<'_> {
    fn table(&mut self, table: &Table, section: &Section, path: &mut Vec<String>) {
        for (name, node) in table {
            // Unknown keys are in the warnings.
            let Some(entry) = section.entry(name) else { continue };
            self.below(name, node, &entry.kind, path);
        }
    }

    fn below(&mut self, name: &str, node: &Node, kind: &Kind, path: &mut Vec<String>) {
        path.push(name.to_owned());
        self.node(node, kind, path);
        path.pop();
    }

    fn node(&mut self, node: &Node, kind: &Kind, path: &mut Vec<String>) {
        match (kind, &node.value) {
            (_, Value::Unset) => {}
            (_, Value::Wrong(wrong)) => self.found.left_out.push((join(path), wrong.1.mistake())),
            (Kind::Table(section), Value::Table(table)) => self.table(table, section, path),
            (Kind::Profile, Value::Table(table)) => self.table(table, Keys::SECTION, path),
            (Kind::Map(_, of), Value::Table(table)) => {
                for (name, inner) in table {
                    self.below(name, inner, of, path);
                }
            }
            (Kind::Either(kinds), value) => {
                let is_table = matches!(value, Value::Table(_));
                let mut kinds = kinds.iter();
                let kind = kinds.find(|kind| {
                    is_table && matches!(kind, Kind::Table(_) | Kind::Map(..) | Kind::Profile)
                });
                match kind {
                    Some(kind) => self.node(node, kind, path),
                    None => self.setting(value.to_json(), path),
                }
            }
            (kind, value) => {
                let mut json = value.to_json();
                self.make_absolute(&mut json, kind);
                self.setting(json, path);
            }
        }
    }

    fn setting(&mut self, value: Json, path: &[String]) {
        let key = join(path);
        let of_key = self.warnings.iter().find(|warning| warning.key == key);
        let note = of_key.map(|warning| warning.message.clone());
        self.found.settings.push(PortableSetting { key_path: path.to_vec(), value, note });
    }

    /// Relative paths begin in the folder of their file, which the settings leave.
    fn make_absolute(&self, value: &mut Json, kind: &Kind) {
        match (kind, value) {
            (Kind::Path, Json::String(text)) if !text.starts_with("~/") => {
                *text = self.folder.join(&*text).to_string_lossy().into_owned();
            }
            (Kind::List(of), Json::Array(values)) => {
                values.iter_mut().for_each(|value| self.make_absolute(value, of));
            }
            (Kind::Table(section), Json::Object(members)) => {
                for (name, value) in members {
                    if let Some(entry) = section.entry(name) {
                        self.make_absolute(value, &entry.kind);
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str, target: &LayerName) -> Portable {
        Portable::read(text, Path::new("/home/u/.codex/config.toml"), target).unwrap()
    }

    fn user() -> LayerName {
        LayerName::User { file: "/home/u/.agent/config.toml".into() }
    }

    #[test]
    fn settings_have_their_counterparts_or_a_reason() {
        for (text, expect) in [
            ("model = 'm'", Ok(("model", json!("m"), ""))),
            ("model_provider = 'x'\n", Ok(("model_provider", json!("x"), ""))),
            ("model_provider = 'openai'", Ok(("model_provider", json!("default"), "`openai`"))),
            (
                "[profiles.f]\nmodel_provider = 'openai'",
                Ok(("profiles.f.model_provider", json!("default"), "`openai`")),
            ),
            (
                "model_provider = 'openai'\n[model_providers.openai]\nbase_url = 'https://h'",
                Ok(("model_provider", json!("openai"), "")),
            ),
            ("file_opener = 'vscode'", Ok(("file_opener", json!("editor"), "understood as"))),
            (
                "default_permissions = ':workspace'",
                Ok(("sandbox_mode", json!("workspace-write"), "")),
            ),
            (
                "openai_base_url = 'https://h/v1'",
                Ok(("default_provider_base_url", json!("https://h/v1"), "")),
            ),
            (
                "model_instructions_file = 'a/b.md'",
                Ok(("model_instructions_file", json!("/home/u/.codex/a/b.md"), "")),
            ),
            (
                "model_instructions_file = '~/b.md'",
                Ok(("model_instructions_file", json!("~/b.md"), "")),
            ),
            (
                "[sandbox_workspace_write]\nwritable_roots = ['x', '/y']",
                Ok((
                    "sandbox_workspace_write.writable_roots",
                    json!(["/home/u/.codex/x", "/y"]),
                    "",
                )),
            ),
            (
                "[model_providers.p.http_headers]\n\"a.b\" = 'c'",
                Ok(("model_providers.p.http_headers.\"a.b\"", json!("c"), "")),
            ),
            (
                "[model_providers.p]\nrequires_openai_auth = true",
                Ok(("model_providers.p.requires_default_auth", json!(true), "")),
            ),
            (
                "[profiles.f]\nmodel_reasoning_effort = 'low'",
                Ok(("profiles.f.model_reasoning_effort", json!("low"), "")),
            ),
            (
                "[otel.exporter.otlp-http]\nendpoint = 'https://h'\nprotocol = 'json'",
                Ok(("otel.exporter.otlp-http.endpoint", json!("https://h"), "")),
            ),
            ("project_doc_max_bytes = 10.0", Ok(("project_doc_max_bytes", json!(10), ""))),
            ("nothing_like_it = 1", Err(("nothing_like_it", "no such key"))),
            ("[tui]\nnothing_like_it = 1", Err(("tui.nothing_like_it", "no such key"))),
            ("model_reasoning_effort = 'ultra'", Err(("model_reasoning_effort", "must be"))),
            ("sandbox_mode = 'open'", Err(("sandbox_mode", "must be"))),
            ("approval_policy = 3", Err(("approval_policy", "must be"))),
            (
                "[model_providers.p]\nwire_api = 'soap'",
                Err(("model_providers.p.wire_api", "must be")),
            ),
        ] {
            let found = read(text, &user());
            match expect {
                Ok((key, value, note)) => {
                    assert_eq!(found.left_out, [], "{text}");
                    let first = &found.settings[0];
                    assert_eq!(
                        (join(&first.key_path).as_str(), &first.value),
                        (key, &value),
                        "{text}"
                    );
                    assert!(first.note.as_deref().unwrap_or_default().contains(note), "{found:?}");
                }
                Err((key, why)) => {
                    assert_eq!(found.settings, [], "{text}");
                    let [(left_out, reason)] = &found.left_out[..] else { panic!("{found:?}") };
                    assert!(left_out == key && reason.contains(why), "{found:?}");
                }
            }
        }
        assert!(Portable::read("a = ", Path::new("/c.toml"), &user()).is_err());
    }

    #[test]
    fn keys_of_the_user_are_not_those_of_a_project() {
        let project = LayerName::Project { folder: "/p/.agent".into() };
        let found = read("model = 'm'\nlog_dir = 'l'", &project);
        assert_eq!(found.settings.len(), 1);
        assert!(found.left_out[0].1.contains("a project's file cannot set this key"), "{found:?}");
    }
}
