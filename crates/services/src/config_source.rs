//! The configuration of the server and its threads. Files are parsed once and read again only when
//! they change on disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use config::edit::Edit;
use config::{
    Environment, Error, FileCache, Layer, LayerName, Overrides, Resolved, Stack, Strictness,
    WarningKind,
};
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::installed_plugins::InstalledPlugins;
use crate::options::Options;

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

/// Merges a stack, and returns the mistakes that it leaves out.
type Resolve = dyn Fn(&Stack, &Environment<'_>) -> Result<(Resolved, Vec<Error>), Error>;

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

    fn read(
        &self,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
        role: Option<&Path>,
        projects: bool,
    ) -> Result<Loaded, Error> {
        let resolve = |stack: &Stack, environment: &Environment<'_>| {
            Ok::<_, Error>((config::resolve(stack, environment)?, Vec::new()))
        };
        Ok(self.read_with(cwd, overrides, role, projects, &resolve)?.0)
    }

    /// Reads with a function that resolves a stack; also returns the mistakes that it found.
    fn read_with(
        &self,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
        role: Option<&Path>,
        projects: bool,
        resolve: &Resolve,
    ) -> Result<(Loaded, Vec<Error>), Error> {
        let options = &self.options;
        // Read first: a concurrent change then causes one reload too many instead of none.
        let generation = self.files.generation();
        let flags = self.flags.clone()?;
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
            let stack = Stack::load(&self.files, given, &environment)?;
            let (resolved, errors) = resolve(&stack, &environment)?;
            Ok::<_, Error>((stack, resolved, errors))
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

    /// Checks that the user's file could have this text: `edits` set no key that does not exist, no
    /// value that its key does not accept, and cause no mistake. Those that the file has already stay
    /// possible, so that they can be corrected one by one.
    pub fn check_text(&self, text: &str, edits: &[Edit]) -> Result<(), Error> {
        let options = &self.options;
        let env = |name: &str| options.variable(name);
        let environment = Environment {
            home: &options.home,
            system: &options.system_dir,
            cwd: &options.cwd,
            variable: &env,
        };
        let file = options.home.join(config::CONFIG_FILE);
        let (layer, wrong) = Layer::parse_usable(LayerName::User { file }, text)?;
        let flags = self.flags.clone()?;
        let given = Overrides { flags: Some(&flags), projects: false, ..Overrides::default() };
        let files = FileCache::of_usable_parts();
        let stack = Stack::load(&files, given, &environment)?;
        let unresolved = config::resolve(&stack, &environment).err();
        let before = files.broken().into_iter().chain(unresolved).flat_map(Error::each);
        let before: Vec<Error> = before.collect();
        let resolved = config::resolve(&stack.with_layer(layer.clone()), &environment);
        let touches = |key: &str| edits.iter().any(|edit| overlap(key, &edit.key_path));
        let odd =
            layer.warnings().iter().find(|warning| is_odd(warning.kind) && touches(&warning.key));
        let left_out = resolved.iter().flat_map(|resolved| &resolved.warnings);
        let odd = odd.or_else(|| {
            left_out
                .into_iter()
                .find(|warning| warning.kind == WarningKind::LeftOut && touches(&warning.key))
        });
        let odd = odd.cloned().map(|warning| match warning.kind {
            WarningKind::LeftOut | WarningKind::Converted => Error::Refused {
                origin: warning.origin,
                key: warning.key,
                message: warning.message,
            },
            _ => Error::UnknownKey { warning: Box::new(warning), strictness: Strictness::Edit },
        });
        let after = wrong.into_iter().chain(resolved.err()).flat_map(Error::each);
        let caused = after.filter(|error| {
            let gist = error.gist();
            gist.0.is_some_and(touches) || !before.iter().any(|known| known.gist() == gist)
        });
        Error::of_all(odd.into_iter().chain(caused)).map_or(Ok(()), Err)
    }

    /// The mistakes in all files, and the configuration without the parts that have them, unless nothing
    /// of it can be used.
    pub(crate) fn mistakes(options: &Options) -> (Vec<Error>, Option<Resolved>) {
        let source =
            Self { files: FileCache::of_usable_parts(), ..Self::new(Arc::new(options.clone())) };
        let read = source.read_with(&options.cwd, None, None, true, &config::resolve_usable);
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

/// Returns whether a warning in a file is a mistake in an edit.
fn is_odd(kind: WarningKind) -> bool {
    matches!(kind, WarningKind::Unknown | WarningKind::LeftOut | WarningKind::Converted)
}

/// Returns whether one of two dotted keys contains the other.
fn overlap(one: &str, other: &str) -> bool {
    let is_within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let other = config::canonical_key(other);
    is_within(one, &other) || is_within(&other, one)
}

/// Checks that the user's file could have this text; see [`ConfigSource::check_text`].
///
/// # Errors
/// What makes it unusable.
pub fn check_configuration_text(
    options: &Options,
    text: &str,
    edits: &[Edit],
) -> Result<(), Error> {
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
