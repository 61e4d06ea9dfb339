//! The configuration of the server and its threads. Files are parsed once and read again only when
//! they change on disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use config::edit::Edit;
use config::{Environment, Error, FileCache, Layer, Overrides, Resolved, Stack, ThreadDatabase};
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::installed_plugins::InstalledPlugins;
use crate::options::Options;

mod edit_check;

/// Reads and merges the layers.
pub struct ConfigSource {
    options: Arc<Options>,
    files: FileCache,
    /// `None` where only the files count.
    plugins: Option<Arc<InstalledPlugins>>,
    flags: Result<Arc<Layer>, Error>,
    /// Features switched in this process.
    switched: Mutex<BTreeMap<String, bool>>,
    /// The last generation that was announced.
    announced: watch::Sender<u64>,
}

/// The treatment of mistakes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The first one is the error.
    Strict,
    /// They are returned with the configuration without the parts that have them.
    UsableParts,
}

/// A configuration, and the files that it came or could have come from.
pub struct Loaded {
    pub resolved: Resolved,
    pub stack: Stack,
    pub files: Vec<PathBuf>,
    /// Of the source when they were read.
    pub generation: u64,
}

impl ConfigSource {
    pub fn new(options: Arc<Options>) -> Self {
        Self {
            files: FileCache::default(),
            plugins: None,
            flags: Layer::command_line(&options.config_overrides).map(Arc::new),
            switched: Mutex::default(),
            announced: watch::Sender::new(0),
            options,
        }
    }

    /// As [`ConfigSource::new`], with what installed plugins bring.
    pub fn with_plugins(options: Arc<Options>, plugins: Arc<InstalledPlugins>) -> Self {
        Self { plugins: Some(plugins), ..Self::new(options) }
    }

    /// The configuration for a thread in `cwd` with the overrides of its client.
    pub fn load(
        &self,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
    ) -> Result<Loaded, Error> {
        self.load_with_role(cwd, overrides, None)
    }

    /// As [`ConfigSource::load`], for an agent whose role has a file.
    pub(crate) fn load_with_role(
        &self,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
        role: Option<&Path>,
    ) -> Result<Loaded, Error> {
        self.read(cwd, overrides, role, true)
    }

    /// The server's own configuration: no project has a say in it.
    pub fn own(&self) -> Result<Loaded, Error> {
        self.read(&self.options.cwd, None, None, false)
    }

    /// The database of threads in a configuration that cannot be used because of `error`, if its mistakes are
    /// elsewhere.
    ///
    /// # Errors
    /// They may be about where threads are.
    pub(crate) fn thread_database(&self, error: Error) -> Result<Option<ThreadDatabase>, Error> {
        let options = self.options.clone();
        let source = Self { files: FileCache::of_usable_parts(), ..Self::new(options) };
        let read = source.read_with(&self.options.cwd, None, None, false, Reading::UsableParts);
        // Flags with a mistake are not read at all.
        let (Ok((loaded, errors)), Ok(_)) = (read, &self.flags) else { return Err(error) };
        let is_elsewhere = |mistake: Error| {
            let (key, _) = mistake.gist();
            let first = key.map(|key| key.split('.').next().unwrap_or_default());
            first.is_some_and(|first| !matches!(first, "store" | "profile" | "profiles"))
        };
        let mut mistakes = source.files.broken().into_iter().chain(errors).flat_map(Error::each);
        match mistakes.all(is_elsewhere) {
            true => Ok(loaded.resolved.config.thread_database),
            false => Err(error),
        }
    }

    fn read(
        &self,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
        role: Option<&Path>,
        projects: bool,
    ) -> Result<Loaded, Error> {
        Ok(self.read_with(cwd, overrides, role, projects, Reading::Strict)?.0)
    }

    /// Reads, and returns the mistakes that do not prevent it.
    fn read_with(
        &self,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
        role: Option<&Path>,
        projects: bool,
        reading: Reading,
    ) -> Result<(Loaded, Vec<Error>), Error> {
        let options = &self.options;
        // Read first: a concurrent change then causes one reload too many instead of none.
        let generation = self.files.generation();
        let (flags, unread) = match (self.flags.clone(), reading) {
            (Err(error), Reading::UsableParts) => {
                (Arc::new(Layer::command_line::<&str>(&[])?), Some(error))
            }
            (flags, _) => (flags?, None),
        };
        let switched = Arc::new(self.switched_layer()?);
        let thread = overrides.map(Layer::thread).transpose()?.map(Arc::new);
        let env = |name: &str| options.variable(name);
        let environment =
            Environment { home: &options.home, system: &options.system_dir, cwd, variable: &env };
        let with_role = |role: Option<&Path>| {
            let given = Overrides {
                flags: Some(&flags),
                switched: Some(&switched).filter(|layer| !layer.is_empty()),
                thread: thread.as_ref(),
                role,
                strict: options.strict_config,
                projects,
            };
            if reading == Reading::Strict {
                let stack = Stack::load(&self.files, given, &environment)?;
                let resolved = config::resolve(&stack, &environment)?;
                return Ok::<_, Error>((stack, resolved, Vec::new()));
            }
            let (stack, mut errors) = Stack::load_usable(&self.files, given, &environment)?;
            let (resolved, found) = config::resolve_usable(&stack, &environment)?;
            errors.extend(unread.iter().cloned().chain(found));
            Ok((stack, resolved, errors))
        };
        let (stack, mut resolved, errors) = with_role(role)?;
        let mut files = stack.watched(&environment);
        files.extend(resolved.role_files().cloned());
        // Another mistake is not the role's.
        let of_role = |found: Vec<Error>| found.into_iter().nth(errors.len());
        resolved.check_roles(|file| {
            with_role(Some(file)).and_then(|(.., found)| of_role(found).map_or(Ok(()), Err))
        });
        if let Some(plugins) = &self.plugins {
            plugins.add_to(&mut resolved);
        }
        Ok((Loaded { resolved, stack, files, generation }, errors))
    }

    /// Returns whether one of these files has changed since it was read.
    pub fn changed(&self, files: &[PathBuf], since: u64) -> bool {
        self.files.poll(files);
        if self.plugins.as_ref().is_some_and(|plugins| plugins.has_changed()) {
            self.files.touch();
        }
        self.generation() != since
    }

    /// Grows each time that a file is read or a feature is switched.
    pub fn generation(&self) -> u64 {
        self.files.generation()
    }

    /// Reads the files again that have changed.
    pub fn refresh(&self) {
        self.files.refresh();
        self.announce();
    }

    /// Changes when the configuration does, as far as this program noticed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.announced.subscribe()
    }

    fn announce(&self) {
        let generation = self.generation();
        self.announced
            .send_if_modified(|announced| std::mem::replace(announced, generation) != generation);
    }

    /// Returns the errors of files whose last valid content is in use.
    pub fn broken(&self) -> Vec<Error> {
        self.files.broken()
    }

    /// Checks that the user's file could have this text after `edits`, and returns the mistakes that it still
    /// has then. Those do not prevent an edit, so that they can be corrected one by one.
    ///
    /// # Errors
    /// The mistakes that `edits` make.
    pub fn check_text(&self, text: &str, edits: &[Edit]) -> Result<Vec<Error>, Error> {
        let options = &self.options;
        let env = |name: &str| options.variable(name);
        let environment = Environment {
            home: &options.home,
            system: &options.system_dir,
            cwd: &options.cwd,
            variable: &env,
        };
        edit_check::check(text, edits, &self.flags.clone()?, &environment)
    }

    /// The mistakes in all files, and the configuration without the parts that have them, unless nothing
    /// of it can be used.
    pub(crate) fn mistakes(options: &Options) -> (Vec<Error>, Option<Resolved>) {
        let source =
            Self { files: FileCache::of_usable_parts(), ..Self::new(Arc::new(options.clone())) };
        let read = source.read_with(&options.cwd, None, None, true, Reading::UsableParts);
        let (resolved, errors) = match read {
            Ok((loaded, errors)) => (Some(loaded.resolved), errors),
            Err(error) => (None, vec![error]),
        };
        let all = Error::of_all(source.files.broken().into_iter().chain(errors));
        (all.map(Error::each).unwrap_or_default(), resolved)
    }

    /// Makes every thread read its configuration again before its next turn.
    pub fn reload(&self) {
        self.files.touch();
        self.announce();
    }

    /// Switches features for this process.
    pub fn switch(&self, features: BTreeMap<String, bool>) {
        self.switches().extend(features);
        self.files.touch();
        self.announce();
    }

    fn switched_layer(&self) -> Result<Layer, Error> {
        let switches = self.switches();
        Layer::switched(switches.iter().map(|(name, on)| (name.as_str(), *on)))
    }

    fn switches(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.switched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The configuration of the working folder, and the files that it came or could have come from.
///
/// # Errors
/// What makes it unusable.
pub fn configuration_here(options: &Options) -> Result<(Resolved, Vec<PathBuf>), Error> {
    let loaded = ConfigSource::new(Arc::new(options.clone())).load(&options.cwd, None)?;
    Ok((loaded.resolved, loaded.files))
}

/// Checks that the user's file could have this text; see [`ConfigSource::check_text`].
///
/// # Errors
/// The mistakes that `edits` make.
pub fn check_configuration_text(
    options: &Options,
    text: &str,
    edits: &[Edit],
) -> Result<Vec<Error>, Error> {
    ConfigSource::new(Arc::new(options.clone())).check_text(text, edits)
}

/// The configuration that a server would start with: the files of the system and the user, the
/// command line, the requirements; with `projects` also that of the working folder's project.
///
/// # Errors
/// What makes it unusable.
pub fn configuration(options: &Options, projects: bool) -> Result<Resolved, Error> {
    let source = ConfigSource::new(Arc::new(options.clone()));
    Ok(source.read(&options.cwd, None, None, projects)?.resolved)
}
