//! Edits of the user's file.

use std::path::PathBuf;
use std::time::Duration;

use config::LayerName;
use config::edit::{Edit, Strategy, Written};
use serde_json::Value;

use super::Configurations;
use crate::error::{ConfigWriteFault, Error, ErrorKind};

/// Time limit of a write; it may wait for another writer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

impl Configurations {
    /// Edits the user's file, `path`, when it has the expected version. Also returns the mistakes that the
    /// file still has.
    ///
    /// # Errors
    /// The file cannot be written, or would not be valid.
    pub async fn write(
        &self,
        path: PathBuf,
        expected_version: Option<String>,
        edits: Vec<Edit>,
    ) -> Result<(Written, Vec<config::Error>), Error> {
        let source = self.source().clone();
        let place = path.clone();
        let writing = self.files.run_within(WRITE_TIMEOUT, &place, move || {
            let mut remaining = Vec::new();
            let mut usable = |text: &str| {
                remaining = source.check_text(text, &edits)?;
                Ok(())
            };
            let expected = expected_version.as_deref();
            let written = config::edit::write(&path, expected, &edits, &mut usable)?;
            Ok::<_, config::Error>((written, remaining))
        });
        let written = writing.await.map_err(|error| {
            Error::failed(format!("{error}. The change may still be made when it does"))
        })?;
        written.map_err(refusal)
    }

    /// Adds an MCP server to the user's file, which must not have one of this name.
    ///
    /// # Errors
    /// It has one; the file cannot be written, has changed meanwhile, or would not be valid.
    pub async fn add_mcp_server(&self, name: &str, entry: Value) -> Result<(), Error> {
        let own = self.own()?;
        let mut layers = own.stack.layers.iter().map(|layer| &layer.layer);
        let layer = layers.find(|layer| matches!(layer.name(), LayerName::User { .. }));
        let (json, version) = match layer {
            Some(layer) => (layer.to_json(), Some(layer.version().to_owned())),
            None => (Value::Null, None),
        };
        if !json["mcp_servers"][name].is_null() {
            return Err(Error::wrong_state(format!(
                "the configuration has an MCP server `{name}` meanwhile"
            )));
        }
        let key_path = config::dotted_key(&["mcp_servers".to_owned(), name.to_owned()]);
        let edit = Edit { key_path, value: entry, strategy: Strategy::Upsert };
        let path = self.options.home.join(config::CONFIG_FILE);
        self.write(path, version, vec![edit]).await.map(drop)
    }
}

fn refusal(error: config::Error) -> Error {
    let kind = match &error {
        config::Error::Conflict { .. } => ErrorKind::ConfigWrite(ConfigWriteFault::VersionConflict),
        config::Error::Write { cause, .. }
            if matches!(
                cause.kind(),
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            ErrorKind::ConfigWrite(ConfigWriteFault::ReadOnlyLayer)
        }
        config::Error::Busy { .. }
        | config::Error::NotAFile { .. }
        | config::Error::Write { .. } => ErrorKind::Failed,
        _ => ErrorKind::ConfigWrite(ConfigWriteFault::Validation),
    };
    Error::new(kind, error.diagnostic())
}
