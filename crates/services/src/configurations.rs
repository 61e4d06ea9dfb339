//! Configurations for the rest of the server: read off the runtime's threads, with the models and the
//! command rules that belong to them.

mod edits;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use config::Config;
use files::Pool;
use serde_json::{Map, Value};

use crate::accounts::{AccountConfig, Accounts};
use crate::config_source::{ConfigSource, Loaded};
use crate::config_watch::{self, ConfigWatch};
use crate::connections::Connections;
use crate::error::{Error, ErrorKind};
use crate::models::Models;
use crate::options::Options;
use crate::peer::Peer;
use crate::rules::CommandRules;
use crate::warnings;

/// The configurations for the rest of the server.
pub struct Configurations {
    reader: Arc<ConfigReader>,
    accounts: Arc<Accounts>,
    files: Pool,
    options: Arc<Options>,
    connections: Arc<Connections>,
}

/// The parts of reading a configuration on a thread of the pool.
struct ConfigReader {
    source: Arc<ConfigSource>,
    models: Arc<Models>,
    rules: Arc<CommandRules>,
    /// Begins with the first client, which would be sent what is found.
    watch: OnceLock<ConfigWatch>,
}

/// Where a thread's configuration comes from.
#[derive(Clone)]
pub struct ConfigurationOrigin {
    /// The folder whose project configuration counts.
    pub cwd: PathBuf,
    /// Files that it came or could have come from.
    pub files: Vec<PathBuf>,
    /// Of the configuration source when the files were read.
    pub generation: u64,
    /// The `config` of the client's request.
    pub overrides: Option<Map<String, Value>>,
    /// The file of an agent's role.
    pub role: Option<PathBuf>,
}

/// The result of reading a thread's configuration again.
pub struct Reload {
    /// The new generation and configuration, when a file has changed.
    pub loaded: Option<(u64, Result<Loaded, config::Error>)>,
    /// The faults of the command rules.
    pub rule_problems: Vec<String>,
}

impl Configurations {
    pub fn new(
        source: Arc<ConfigSource>,
        (models, rules, accounts): (Arc<Models>, Arc<CommandRules>, Arc<Accounts>),
        files: Pool,
        options: Arc<Options>,
        connections: Arc<Connections>,
    ) -> Self {
        let reader = ConfigReader { source, models, rules, watch: OnceLock::new() };
        Self { reader: Arc::new(reader), accounts, files, options, connections }
    }

    /// Returns the reader and editor of the files.
    pub fn source(&self) -> &Arc<ConfigSource> {
        &self.reader.source
    }

    /// The server's own configuration, in which no project has a say.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn own(&self) -> Result<Loaded, Error> {
        Ok(self.reader.source.own()?)
    }

    /// The server's own configuration; `peer` is sent its warnings.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn own_for(&self, peer: &Peer) -> Result<Loaded, Error> {
        let loaded = self.own()?;
        warnings::send(peer, &loaded.resolved.warnings);
        Ok(loaded)
    }

    /// The configuration for work in `cwd`.
    ///
    /// # Errors
    /// A configuration that cannot be used, a file system that does not answer.
    pub async fn in_folder(
        &self,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
    ) -> Result<Loaded, Error> {
        let (reader, folder, overrides) = (self.reader.clone(), cwd.to_owned(), overrides.cloned());
        self.files.run(cwd, move || reader.read(&folder, overrides.as_ref(), None)).await?
    }

    /// As [`Configurations::in_folder`], with what is wrong with the command rules there, for an agent
    /// whose role has a file. `and` reads what else is wanted of the folder, in the same piece of work:
    /// a second one would wake two more threads.
    ///
    /// # Errors
    /// As [`Configurations::in_folder`].
    pub async fn in_folder_with_rules<T: Send + 'static>(
        &self,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
        role: Option<&Path>,
        and: impl FnOnce(&Config) -> T + Send + 'static,
    ) -> Result<(Loaded, Vec<String>, T), Error> {
        let (reader, folder, overrides) = (self.reader.clone(), cwd.to_owned(), overrides.cloned());
        let role = role.map(Path::to_owned);
        let read = self.files.run(cwd, move || {
            let loaded = reader.read(&folder, overrides.as_ref(), role.as_deref())?;
            let problems = reader.rules.problems(&loaded.resolved.config);
            let also = and(&loaded.resolved.config);
            Ok((loaded, problems, also))
        });
        read.await?
    }

    /// Looks at a thread's configuration again: at its files when `looks`, at the command rules always.
    ///
    /// # Errors
    /// A file system that does not answer.
    pub async fn reload(
        &self,
        config: &Arc<Config>,
        origin: &ConfigurationOrigin,
        cwd: &Path,
        looks: bool,
    ) -> Result<Reload, Error> {
        let (reader, config) = (self.reader.clone(), config.clone());
        let (origin, folder) = (origin.clone(), cwd.to_owned());
        let looked = self.files.run(cwd, move || {
            let source = &reader.source;
            let has_moved = origin.cwd != folder;
            let has_changed =
                looks && (has_moved || source.changed(&origin.files, origin.generation));
            let generation = source.generation();
            let loaded = has_changed.then(|| {
                let (overrides, role) = (origin.overrides.as_ref(), origin.role.as_deref());
                (generation, source.load_with_role(&folder, overrides, role))
            });
            let in_force = match &loaded {
                Some((_, Ok(loaded))) => &loaded.resolved.config,
                _ => &*config,
            };
            let rule_problems = reader.rules.problems(in_force);
            Reload { loaded, rule_problems }
        });
        Ok(looked.await?)
    }

    /// Begins to watch the files, with the first client. Sends a new client what is wrong with the
    /// configuration and the command rules.
    pub async fn send_warnings(&self, peer: &Peer) {
        let reader = &self.reader;
        reader.watch.get_or_init(|| {
            let (files, options) = (self.files.clone(), &self.options);
            let connections = self.connections.clone();
            let watched = (reader.source.clone(), self.accounts.clone());
            config_watch::start(watched, files, options, connections)
        });
        let (reader, cwd) = (reader.clone(), self.options.cwd.clone());
        let looked = self.files.run(&self.options.cwd, move || {
            let account = reader.source.own().map(|own| AccountConfig::new(&own.resolved.config));
            let loaded = reader.source.load(&cwd, None)?;
            let problems = reader.rules.problems(&loaded.resolved.config);
            Ok((loaded.resolved.warnings, problems, account))
        });
        match looked.await {
            Ok(Ok((found, problems, account))) => {
                if let Ok(account) = account {
                    // What clients are notified of later is compared with it.
                    self.accounts.look(&account).await;
                }
                warnings::send(peer, &found);
                problems.into_iter().for_each(|problem| warnings::send_plain(peer, problem));
            }
            Ok(Err(error)) => warnings::send_error(peer, &error),
            Err(error) => warnings::send_plain(peer, error.to_string()),
        }
        for error in self.reader.source.broken() {
            warnings::send_error(peer, &error);
        }
    }
}

impl ConfigReader {
    fn read(
        &self,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
        role: Option<&Path>,
    ) -> Result<Loaded, Error> {
        // A client that overrides keys is at fault itself.
        let kind = match overrides {
            Some(_) => ErrorKind::InvalidParams,
            None => ErrorKind::Failed,
        };
        let loaded = self.source.load_with_role(cwd, overrides, role);
        let loaded = loaded.map_err(|error| Error::from(error).with_kind(kind))?;
        let config = &loaded.resolved.config;
        self.models.load(config).map_err(|error| error.with_kind(kind))?;
        if let Some(watch) = self.watch.get() {
            watch.follow(&loaded.files);
        }
        for (key, path) in [
            ("model_instructions_file", &config.model_instructions_file),
            ("experimental_compact_prompt_file", &config.experimental_compact_prompt_file),
        ] {
            if let Some(path) = path {
                files::open(path).map_err(|error| {
                    Error::new(kind, format!("`{key}`: {error}")).with_source(error)
                })?;
            }
        }
        Ok(loaded)
    }
}
