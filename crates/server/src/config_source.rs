//! The configuration as threads start from it: the user's file is parsed once and read again only
//! when it changes on disk.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use config::{Config, Error, Layer, Surroundings, Warning};
use serde_json::{Map, Value};

use crate::options::Options;

/// Reads and merges the layers.
pub(crate) struct ConfigSource {
    path: PathBuf,
    cached: Mutex<Option<Cached>>,
}

struct Cached {
    stamp: Option<Stamp>,
    layer: Arc<Layer>,
}

/// What tells that a file changed.
#[derive(PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
}

impl ConfigSource {
    pub(crate) fn new(home: &Path) -> Self {
        Self { path: home.join("config.toml"), cached: Mutex::new(None) }
    }

    /// The configuration for a thread in `cwd` with the overrides of its client.
    pub(crate) fn resolve(
        &self,
        options: &Options,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
    ) -> Result<Config, Error> {
        let file = self.file()?;
        let command_line = Layer::command_line(&options.config_overrides)?;
        let thread = overrides.map(Layer::thread).transpose()?;
        let mut layers: Vec<&Layer> = vec![&file, &command_line];
        layers.extend(&thread);
        let env = |name: &str| options.variable(name);
        config::resolve(&layers, &Surroundings { home: &options.home, cwd, env: &env })
    }

    /// What is ignored in the file and on the command line.
    pub(crate) fn warnings(&self, options: &Options) -> Result<Vec<Warning>, Error> {
        let mut warnings = self.file()?.warnings().to_vec();
        warnings.extend_from_slice(Layer::command_line(&options.config_overrides)?.warnings());
        Ok(warnings)
    }

    fn file(&self) -> Result<Arc<Layer>, Error> {
        let stamp = std::fs::metadata(&self.path)
            .ok()
            .map(|meta| Stamp { modified: meta.modified().ok(), len: meta.len() });
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hit) = cached.as_ref().filter(|cached| cached.stamp == stamp) {
            return Ok(hit.layer.clone());
        }
        let layer = Arc::new(Layer::read(&self.path)?);
        *cached = Some(Cached { stamp, layer: layer.clone() });
        Ok(layer)
    }
}
