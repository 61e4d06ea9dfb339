//! Reading and writing the configuration (specification: configuration; shapes of the reference).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::edit::{Edit, Strategy, Written};
use config::{LayerName, Origin, Resolved, StackLayer, WarningKind};
use protocol::config::{
    ConfigEdit, ConfigLayer, ConfigLayerMetadata, ConfigLayerSource, ConfigOverriddenMetadata,
    ConfigWriteStatus, MergeStrategy,
};
use protocol::{
    ConfigBatchWriteParams, ConfigMethods, ConfigReadParams, ConfigReadResponse,
    ConfigRequirementsReadResponse, ConfigValueWriteParams, ConfigWriteResponse, Empty,
};
use serde_json::Value;

use crate::server::Server;
use services::config_source::Loaded;
use services::error::{ConfigWriteFault, Error, ErrorKind};
use services::folders::{self, absolute};
use services::peer::Caller;
use services::{convert, warnings};

impl ConfigMethods<Caller> for Server {
    /// Without `cwd`, project configurations do not count. Values are as in the files; those that are
    /// not set are absent. Features that this version does not implement are off.
    async fn config_read(
        &self,
        caller: Caller,
        params: ConfigReadParams,
    ) -> Result<ConfigReadResponse, Error> {
        let cwd = folders::optional_cwd(&self.services.files, params.cwd.as_deref()).await?;
        let source = self.services.configurations.source();
        let loaded = match &cwd {
            Some(cwd) => {
                let (source, folder) = (source.clone(), cwd.clone());
                self.services.files.run(cwd, move || source.load(&folder, None)).await?
            }
            None => source.own(),
        };
        let loaded = loaded.map_err(Error::from)?;
        let resolved = &loaded.resolved;
        warnings::send(&caller.peer, &resolved.warnings);
        let config = match params.include_defaults {
            true => self.effective(&loaded, cwd.as_deref()),
            false => resolved.to_json(),
        };
        let origins = resolved.origins();
        let origins = origins.into_iter().map(|(key, origin)| {
            let metadata = metadata(resolved, &key, origin);
            (key, metadata)
        });
        let mut origins: BTreeMap<String, ConfigLayerMetadata> = origins.collect();
        if params.include_defaults {
            if let Some(origin) = origin_of_search_mode(resolved) {
                let metadata = metadata(resolved, WEB_SEARCH, origin);
                origins.entry(WEB_SEARCH.to_owned()).or_insert(metadata);
            }
            add_defaults(resolved, &config, &mut Vec::new(), &mut origins);
        }
        let config = match config {
            Value::Object(config) => config.into_iter().collect(),
            _ => BTreeMap::new(),
        };
        let layers = params.include_layers.then(|| {
            // Lowest first in the stack, highest first on the wire.
            loaded.stack.layers.iter().rev().map(wire_layer).collect()
        });
        Ok(ConfigReadResponse { config, origins, layers })
    }

    async fn config_value_write(
        &self,
        caller: Caller,
        params: ConfigValueWriteParams,
    ) -> Result<ConfigWriteResponse, Error> {
        let edit = ConfigEdit {
            key_path: params.key_path,
            value: params.value,
            merge_strategy: params.merge_strategy,
        };
        self.write(&caller, vec![edit], params.file_path, params.expected_version).await
    }

    /// `reloadUserConfig` makes threads reload, which they do before their next turn anyway.
    async fn config_batch_write(
        &self,
        caller: Caller,
        params: ConfigBatchWriteParams,
    ) -> Result<ConfigWriteResponse, Error> {
        let written =
            self.write(&caller, params.edits, params.file_path, params.expected_version).await?;
        if params.reload_user_config {
            self.reload_configuration(&caller)?;
        }
        Ok(written)
    }

    async fn config_requirements_read(
        &self,
        _caller: Caller,
        _: Empty,
    ) -> Result<ConfigRequirementsReadResponse, Error> {
        let loaded = self.services.configurations.own()?;
        let requirements = convert::requirements::wire(&loaded.stack.requirements);
        Ok(ConfigRequirementsReadResponse { requirements })
    }
}

impl Server {
    /// The values in force for a new thread, including those that depend on the model and the sandbox.
    fn effective(&self, loaded: &Loaded, cwd: Option<&Path>) -> Value {
        let config = &loaded.resolved.config;
        let mut effective = loaded.resolved.effective();
        let cwd = cwd.unwrap_or(&self.services.options.cwd);
        let settings = self.services.defaults.settings(config, cwd);
        effective["model"] = settings.model.into();
        let full_access = settings.sandbox == session::SandboxPolicy::DangerFullAccess;
        effective["web_search"] = config.web_search_mode(full_access).0.as_str().into();
        effective
    }

    /// Reads the configuration again and sends the caller its warnings.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub(crate) fn reload_configuration(&self, caller: &Caller) -> Result<(), Error> {
        let source = self.services.configurations.source();
        source.reload();
        self.services.configurations.own_for(&caller.peer)?;
        for error in source.broken() {
            warnings::send_error(&caller.peer, &error);
        }
        Ok(())
    }

    /// Edits the user's file.
    ///
    /// # Errors
    /// The file cannot be written, or would not be valid.
    pub(crate) async fn write(
        &self,
        caller: &Caller,
        edits: Vec<ConfigEdit>,
        file_path: Option<String>,
        expected_version: Option<String>,
    ) -> Result<ConfigWriteResponse, Error> {
        let path = self.writable(file_path.as_deref()).await?;
        let edits: Vec<Edit> = edits.into_iter().map(edit).collect();
        let configurations = &self.services.configurations;
        let (written, remaining) =
            configurations.write(path, expected_version, edits.clone()).await?;
        let (lasting, replaced) = lasting(&edits);
        let replaced: Vec<String> = replaced.into_iter().map(replaced_message).collect();
        for message in &replaced {
            warnings::send_plain(&caller.peer, message.clone());
        }
        // What the file had wrong before is still wrong.
        for mistake in &remaining {
            warnings::send_plain(&caller.peer, mistake.to_string());
        }
        let own = self.services.configurations.own_for(&caller.peer);
        if let (Err(error), true) = (&own, remaining.is_empty()) {
            warnings::send_plain(&caller.peer, error.to_string());
        }
        let overridden = own
            .ok()
            .and_then(|own| lasting.iter().find_map(|edit| overridden(&own.resolved, edit)));
        let (message, last) = (replaced.join("; "), lasting.last());
        let in_batch = last.filter(|_| !message.is_empty()).map(|last| ConfigOverriddenMetadata {
            message,
            overriding_layer: ConfigLayerMetadata {
                name: ConfigLayerSource::User { file: wire_path(&written.path) },
                version: written.version.clone(),
                held_off: None,
            },
            effective_value: last.value.clone(),
        });
        response(written, overridden.or(in_batch))
    }

    /// The file that a client may write: the user's.
    async fn writable(&self, asked: Option<&str>) -> Result<PathBuf, Error> {
        let own = self.services.options.home.join(config::CONFIG_FILE);
        let Some(asked) = asked else { return Ok(own) };
        let asked = absolute("filePath", asked)?;
        if asked == own {
            return Ok(own);
        }
        let paths = (asked.clone(), own.clone());
        let is_same = move || {
            let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
            real(&paths.0) == real(&paths.1)
        };
        if self.services.files.run(&asked, is_same).await? {
            return Ok(own);
        }
        let message = format!(
            "{} cannot be written over the protocol, only {} can",
            asked.display(),
            own.display()
        );
        Err(Error::new(ErrorKind::ConfigWrite(ConfigWriteFault::ReadOnlyLayer), message))
    }
}

fn edit(edit: ConfigEdit) -> Edit {
    let strategy = match edit.merge_strategy {
        MergeStrategy::Replace => Strategy::Replace,
        MergeStrategy::Upsert => Strategy::Upsert,
    };
    Edit { key_path: edit.key_path, value: edit.value, strategy }
}

/// The edits whose values are in the file after all, and those of which a later one wrote the key again.
fn lasting(edits: &[Edit]) -> (Vec<&Edit>, Vec<&Edit>) {
    let key = |edit: &Edit| config::key_parts(&edit.key_path);
    let keys: Vec<Vec<String>> = edits.iter().map(key).collect();
    let is_replaced = |index: usize| {
        let mut later = keys[index + 1..].iter().zip(&edits[index + 1..]);
        later.any(|(key, edit)| {
            keys[index].strip_prefix(&key[..]).is_some_and(|below| replaces(edit, below))
        })
    };
    let (replaced, lasting): (Vec<usize>, Vec<usize>) =
        (0..edits.len()).partition(|index| is_replaced(*index));
    let all = |indexes: Vec<usize>| indexes.into_iter().map(|index| &edits[index]).collect();
    (all(lasting), all(replaced))
}

/// Returns whether an edit replaces what is at `below` under its key. A table that is merged replaces its
/// members only.
fn replaces(edit: &Edit, below: &[String]) -> bool {
    let merges = edit.strategy == Strategy::Upsert;
    let mut value = &edit.value;
    for name in below {
        match value.get(name) {
            Some(inner) => value = inner,
            None => return !(merges && value.is_object()),
        }
    }
    !(merges && value.is_object())
}

fn replaced_message(edit: &Edit) -> String {
    format!(
        "`{}` is in several edits of one batch: they were applied in order, and the value of the \
         last one is in the file",
        edit.key_path
    )
}

/// Returns whether two values are the same; `30.0` is 30.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.as_f64() == other.as_f64() && one.is_f64() != other.is_f64())
        }
        _ => one == other,
    }
}

fn response(
    written: Written,
    overridden_metadata: Option<ConfigOverriddenMetadata>,
) -> Result<ConfigWriteResponse, Error> {
    let status = match overridden_metadata {
        Some(_) => ConfigWriteStatus::OkOverridden,
        None => ConfigWriteStatus::Ok,
    };
    Ok(ConfigWriteResponse {
        status,
        version: written.version,
        file_path: wire_path(&written.path),
        overridden_metadata,
    })
}

/// Why the value that was written is not in force, if it is not.
fn overridden(resolved: &Resolved, edit: &Edit) -> Option<ConfigOverriddenMetadata> {
    let (effective, origin) = resolved.value(&edit.key_path)?;
    let in_force = match edit.strategy {
        Strategy::Replace => is_same(&effective, &edit.value),
        Strategy::Upsert => holds(&effective, &edit.value),
    };
    if in_force || edit.value.is_null() && matches!(origin.layer(), LayerName::System { .. }) {
        return None;
    }
    let origin = origin_of_difference(resolved, &edit.key_path, &edit.value).unwrap_or(origin);
    let by = resolved
        .pending_reason(&edit.key_path)
        .map(|why| format!("it {why}"))
        .or_else(|| warned(resolved, &edit.key_path))
        .unwrap_or_else(|| format!("{origin} sets another value and takes precedence"));
    Some(ConfigOverriddenMetadata {
        message: format!("`{}` was written, but {by}", edit.key_path),
        overriding_layer: metadata(resolved, &edit.key_path, origin),
        effective_value: effective,
    })
}

/// The origin of the first value below `key` that is not as in `written`: of a table, another layer may
/// hold a part.
fn origin_of_difference<'r>(
    resolved: &'r Resolved,
    key: &str,
    written: &Value,
) -> Option<&'r Origin> {
    let (effective, origin) = resolved.value(key)?;
    let Value::Object(members) = &effective else { return Some(origin) };
    let differs = |name: &&String| {
        written.get(name.as_str()).is_none_or(|own| !is_same(own, &members[*name]))
    };
    let name = members.keys().find(differs)?;
    let below = format!("{key}.{}", config::dotted_key(&[name]));
    origin_of_difference(resolved, &below, written.get(name).unwrap_or(&Value::Null))
}

/// The message of a requirement about a key.
fn warned(resolved: &Resolved, key: &str) -> Option<String> {
    let about =
        |warning: &&config::Warning| warning.key == key && warning.kind == WarningKind::Replaced;
    resolved.warnings.iter().find(about).map(|warning| warning.message.clone())
}

/// Returns whether `whole` contains everything in `part`.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part.iter().all(|(key, value)| {
            value.is_null() || whole.get(key).is_some_and(|found| holds(found, value))
        }),
        _ => whole == part,
    }
}

fn metadata(resolved: &Resolved, key: &str, origin: &Origin) -> ConfigLayerMetadata {
    ConfigLayerMetadata {
        name: source(&origin.layer()),
        version: resolved.version(origin),
        held_off: resolved.pending_reason(key),
    }
}

const WEB_SEARCH: &str = "web_search";
/// Switches that decide the mode of the web search while `web_search` is not set, the decisive one first.
const SEARCH_SWITCHES: [&str; 4] = [
    "tools.web_search",
    "features.web_search_request",
    "features.web_search_cached",
    "features.web_search",
];

/// The origin of the switch that decides the mode of the web search; `None` where none does.
fn origin_of_search_mode(resolved: &Resolved) -> Option<&Origin> {
    let decides = |key: &str, value: &Value| match key {
        "tools.web_search" => value.is_boolean(),
        _ => *value == Value::Bool(true),
    };
    let set = SEARCH_SWITCHES.iter().filter_map(|key| Some((*key, resolved.value(key)?)));
    let mut deciding = set.filter(|(key, (value, _))| decides(key, value));
    deciding.next().map(|(_, (_, origin))| origin)
}

/// Adds the origin of each value that no layer sets.
fn add_defaults(
    resolved: &Resolved,
    value: &Value,
    path: &mut Vec<String>,
    origins: &mut BTreeMap<String, ConfigLayerMetadata>,
) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                path.push(name.clone());
                add_defaults(resolved, value, path, origins);
                path.pop();
            }
        }
        _ => {
            let version = env!("CARGO_PKG_VERSION").to_owned();
            let key = config::dotted_key(path);
            let held_off = resolved.pending_reason(&key);
            let default =
                || ConfigLayerMetadata { name: ConfigLayerSource::Default, version, held_off };
            origins.entry(key).or_insert_with(default);
        }
    }
}

fn wire_layer(layer: &StackLayer) -> ConfigLayer {
    ConfigLayer {
        name: source(layer.layer.name()),
        version: layer.layer.version().to_owned(),
        config: layer.layer.to_json(),
        disabled_reason: layer.disabled.clone(),
    }
}

fn source(name: &LayerName) -> ConfigLayerSource {
    match name {
        LayerName::System { file } => ConfigLayerSource::System { file: wire_path(file) },
        LayerName::User { file } => ConfigLayerSource::User { file: wire_path(file) },
        LayerName::Project { folder } => {
            ConfigLayerSource::Project { dot_agent_folder: wire_path(folder) }
        }
        // Of an agent's thread only, whose layers no method returns.
        LayerName::Role { .. } | LayerName::SessionFlags | LayerName::Thread => {
            ConfigLayerSource::SessionFlags
        }
        // The wire's name for what an administrator manages in a file.
        LayerName::Requirements { file } => {
            ConfigLayerSource::LegacyManagedConfigTomlFromFile { file: wire_path(file) }
        }
    }
}

fn wire_path(path: &Path) -> protocol::common::AbsolutePath {
    path.display().to_string()
}
