//! The hooks that apply in a folder, read from their files, and whether each runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{Config, PluginParts, dotted_key};
use hooks::{Event, Handler, Hook, Origin, Source};
use sandbox::rules::file_words;
use session::HookEvents;

/// Bytes of a file of hooks.
const MAX_FILE: u64 = 1 << 20;
/// Hooks without trust of which a thread is sent a warning each.
const MAX_SHOWN: usize = 4;
/// Files that a hook's command names and its digest covers, at most.
const MAX_NAMED_FILES: usize = 16;
/// Folders that a hook's command changes to in which files that it names are looked for.
const MAX_FOLDERS: usize = 8;
/// Bytes of such a file.
const MAX_NAMED_FILE: u64 = 16 << 20;

/// The variable with the project's root.
const PROJECT_DIR: &str = "AGENT_PROJECT_DIR";
/// The variables with the folder of a hook's plugin: ours, and the one that plugins for another agent use.
const PLUGIN_ROOT: [&str; 2] = ["AGENT_PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT"];

/// The hooks that apply in a folder.
#[derive(Debug, Default)]
pub struct LoadedHooks {
    pub hooks: Vec<Arc<LoadedHook>>,
    /// Parts of files that have no effect, and why.
    pub warnings: Vec<String>,
    /// Files that cannot be read, and why.
    pub errors: Vec<(PathBuf, String)>,
}

/// A hook, and whether it runs.
#[derive(Debug)]
pub struct LoadedHook {
    pub hook: Hook,
    /// See [`Hook::digest`].
    pub digest: String,
    pub trust: Trust,
    /// True if the user left it on.
    pub is_enabled: bool,
}

/// The user's trust in a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is the administrator's.
    Managed,
    /// It is the user's own, or the user trusts exactly this.
    Trusted,
    /// The user has not decided.
    Untrusted,
    /// The user trusts what it was before.
    Modified,
}

impl LoadedHook {
    /// Returns whether an event starts it.
    pub fn runs(&self) -> bool {
        let is_trusted = matches!(self.trust, Trust::Managed | Trust::Trusted);
        is_trusted && self.is_enabled && unsupported(&self.hook).is_none()
    }
}

impl LoadedHooks {
    /// The events that start any hook.
    pub fn events(&self) -> HookEvents {
        self.hooks.iter().filter(|loaded| loaded.runs()).map(|loaded| loaded.hook.event).collect()
    }

    /// The hooks that an event starts, in their order.
    pub fn matching(&self, event: &Event, agent_type: Option<&str>) -> Vec<Arc<LoadedHook>> {
        let is_started =
            |loaded: &&Arc<LoadedHook>| loaded.runs() && loaded.hook.is_for(event, agent_type);
        self.hooks.iter().filter(is_started).cloned().collect()
    }

    /// Keeps the hooks of files that could be read before and cannot be now.
    pub fn keep_of_broken_files(&mut self, before: &Self) {
        for (path, why) in &mut self.errors {
            let kept = before.hooks.iter().filter(|loaded| loaded.hook.origin.path == *path);
            let kept: Vec<_> = kept.cloned().collect();
            if !kept.is_empty() {
                why.push_str("; its last valid content stays in force");
                self.hooks.extend(kept);
            }
        }
    }

    /// Everything that is wrong or waits for the user's decision, a sentence each.
    pub fn problems(&self) -> Vec<String> {
        let errors = self.errors.iter();
        let errors = errors
            .map(|(path, why)| format!("{}: the hooks cannot be read: {why}", visible::path(path)));
        let undecided = self
            .hooks
            .iter()
            .filter(|loaded| matches!(loaded.trust, Trust::Untrusted | Trust::Modified))
            .filter(|loaded| loaded.is_enabled && !loaded.digest.is_empty())
            .map(|loaded| {
                let LoadedHook { hook, digest, trust, .. } = &**loaded;
                let why = match trust {
                    Trust::Modified => "has changed since you trusted it",
                    _ => "is not trusted",
                };
                let file = visible::path(&hook.origin.path);
                format!(
                    "{file}: a hook of {} {why}, and does not run; look at it, and to let it run set \
                     `{}` to \"{digest}\", or run `agentd hooks trust`",
                    hook.event,
                    visible::text(&dotted_key(&["hooks", "state", &hook.key, "trusted_hash"])),
                )
            });
        let mut undecided: Vec<String> = undecided.collect();
        if undecided.len() > MAX_SHOWN {
            let more = undecided.len() - MAX_SHOWN;
            undecided.truncate(MAX_SHOWN);
            undecided.push(format!(
                "{more} further hooks are not trusted; `agentd hooks list` shows them"
            ));
        }
        errors.chain(self.warnings.iter().cloned()).chain(undecided).collect()
    }
}

/// Reads the hooks of a configuration that are on. Waits for the file system.
pub fn load(config: &Config) -> LoadedHooks {
    read(config, config.has_hooks())
}

/// As [`load`], and those of the user, of projects and of plugins even while the feature is off.
pub fn load_all(config: &Config) -> LoadedHooks {
    read(config, true)
}

fn read(config: &Config, with_feature: bool) -> LoadedHooks {
    let mut loaded = LoadedHooks::default();
    if with_feature {
        loaded.add_files(config);
        loaded.add_plugins(config);
    }
    // The last of several that change the same thing counts, which is the administrator's.
    for required in config.required_hooks() {
        loaded.add(required.definitions().hooks, config);
    }
    loaded
}

impl LoadedHooks {
    /// Adds those of the user and of projects.
    fn add_files(&mut self, config: &Config) {
        for (path, is_user) in config.hook_files() {
            let source = if is_user { Source::User } else { Source::Project };
            let origin = Origin { source, path: path.clone(), plugin: None };
            match files::read_text(&path, MAX_FILE) {
                Ok(text) => self.add_file(text.as_bytes(), &origin, config),
                Err(error) if error.is_not_found() => {}
                Err(error) => self.errors.push((path, error.to_string())),
            }
        }
    }

    fn add_plugins(&mut self, config: &Config) {
        for plugin in config.plugin_parts.iter() {
            for (path, text) in &plugin.hooks {
                let id = Some(plugin.id.clone());
                let origin = Origin { source: Source::Plugin, path: path.clone(), plugin: id };
                self.add_file(text.as_bytes(), &origin, config);
            }
        }
    }

    fn add_file(&mut self, text: &[u8], origin: &Origin, config: &Config) {
        let file = &origin.path;
        let read = match hooks::read_file(text, origin) {
            Ok(read) => read,
            Err(error) => return self.errors.push((file.clone(), error.to_string())),
        };
        let shown = visible::path(file);
        self.warnings.extend(read.warnings.iter().map(|warning| format!("{shown}: {warning}")));
        self.add(read.hooks, config);
    }

    fn add(&mut self, hooks: Vec<Hook>, config: &Config) {
        for mut hook in hooks {
            if let Some(plugin) = plugin_of(&hook, config) {
                hook.key = key_in_plugin(&hook, plugin);
            }
            let (shown, event) = (visible::path(&hook.origin.path).to_string(), hook.event);
            if let Some(why) = unsupported(&hook) {
                self.warnings.push(format!("{shown}: a hook of {event} does not run: {why}"));
            }
            let (loaded, problem) = judged(hook, config);
            if let Some(why) = problem {
                let why = format!("{shown}: a hook of {event} can never be trusted: {why}");
                self.warnings.push(why);
            }
            self.hooks.push(Arc::new(loaded));
        }
    }
}

/// Why a hook never runs.
fn unsupported(hook: &Hook) -> Option<&'static str> {
    match &hook.handler {
        // They act outside of the sandbox, with the user's logins.
        Handler::McpTool { .. } if !hook.origin.source.is_unconfined() => {
            Some("only hooks of the user can call tools of MCP servers; put it into your own file")
        }
        Handler::Command(_)
        | Handler::Prompt { .. }
        | Handler::Agent { .. }
        | Handler::McpTool { .. } => None,
    }
}

fn judged(hook: Hook, config: &Config) -> (LoadedHook, Option<String>) {
    let digest = digest(&hook, config);
    let state = config.hooks.state.get(&hook.key);
    let trusted = state.and_then(|state| state.trusted_hash.as_deref());
    let trust = match (hook.origin.source, &digest, trusted) {
        (Source::Managed | Source::Fetched, ..) => Trust::Managed,
        (Source::User, ..) => Trust::Trusted,
        (Source::Project | Source::Plugin, Ok(digest), Some(trusted)) if trusted == digest => {
            Trust::Trusted
        }
        (Source::Project | Source::Plugin, _, Some(_)) => Trust::Modified,
        (Source::Project | Source::Plugin, _, None) => Trust::Untrusted,
    };
    let is_enabled = hook.origin.source.is_managed() || state.is_none_or(|state| state.enabled);
    let problem = digest.as_ref().err().cloned();
    (LoadedHook { hook, digest: digest.unwrap_or_default(), trust, is_enabled }, problem)
}

/// The digest of a hook as it is now. That of a project covers the files that its command names, so that a
/// changed script is not trusted either: by an absolute path, from the folder in which it runs or one that it
/// changes to, or from the project's root. That of a plugin also covers all files that the plugin was installed
/// with.
///
/// # Errors
/// The files that it names cannot be covered: such a hook is never trusted.
pub(super) fn digest(hook: &Hook, config: &Config) -> Result<String, String> {
    let Handler::Command(command) = &hook.handler else { return Ok(hook.digest([])) };
    if hook.origin.source.is_unconfined() {
        return Ok(hook.digest([]));
    }
    let plugin = plugin_of(hook, config);
    let folder = project_folder(hook).unwrap_or(&config.project_root);
    let mut covered: Vec<(String, Vec<u8>)> = Vec::new();
    if let Some(plugin) = plugin {
        covered.push((String::new(), plugin.digest.clone().into_bytes()));
    }
    for path in named_files(command, folder, &variables(config, plugin))? {
        if covered.len() == MAX_NAMED_FILES {
            return Err(format!("its command names more than {MAX_NAMED_FILES} files"));
        }
        let contents = files::read(&path, MAX_NAMED_FILE).map_err(|error| error.to_string())?;
        let shown = path.strip_prefix(folder).unwrap_or(&path);
        covered.push((shown.to_string_lossy().into_owned(), contents));
    }
    Ok(hook.digest(covered.iter().map(|(path, contents)| (&**path, contents.as_slice()))))
}

/// The variables that a hook's command has from us, with their values.
pub(super) fn variables(
    config: &Config,
    plugin: Option<&PluginParts>,
) -> Vec<(&'static str, PathBuf)> {
    let mut variables = vec![(PROJECT_DIR, config.project_root.clone())];
    if let Some(plugin) = plugin {
        variables.extend(PLUGIN_ROOT.map(|name| (name, plugin.root.clone())));
    }
    variables
}

/// The files that a command names which runs in `folder`, each once.
fn named_files(
    command: &str,
    folder: &Path,
    variables: &[(&str, PathBuf)],
) -> Result<Vec<PathBuf>, String> {
    let value = |name: &str| {
        let known = variables.iter().find(|(known, _)| *known == name).map(|(_, path)| &**path);
        let path = if name == "PWD" { Some(folder) } else { known };
        path.map(|path| path.to_string_lossy().into_owned())
    };
    let words = file_words(command, &value)
        .ok_or("its command is too long for the files that it names to be found")?;
    let changes = words.windows(2).filter(|pair| pair[0].text == "cd" && !pair[1].expands);
    let mut folders = vec![folder.to_owned()];
    folders.extend(changes.map(|pair| folder.join(&pair[1].text)).take(MAX_FOLDERS));
    let mut files: Vec<PathBuf> = Vec::new();
    for word in words.iter().filter(|word| !word.expands) {
        let paths = folders.iter().map(|folder| folder.join(&word.text));
        let named = paths.filter(|path| path.is_file()).collect::<Vec<_>>();
        files.extend(named.into_iter().filter(|path| !files.contains(path)).collect::<Vec<_>>());
    }
    Ok(files)
}

/// The plugin that has the hook, as the configuration knows it.
pub(super) fn plugin_of<'c>(hook: &Hook, config: &'c Config) -> Option<&'c PluginParts> {
    let id = hook.origin.plugin.as_deref()?;
    config.plugin_parts.iter().find(|plugin| plugin.id == id)
}

/// The key of a plugin's hook: `NAME@MARKETPLACE/file:event:group:handler`, the same for every version, so
/// that what the user decided outlasts an upgrade and a change asks again.
pub fn key_in_plugin(hook: &Hook, plugin: &PluginParts) -> String {
    let file = &hook.origin.path;
    let place = hook.key.strip_prefix(&*file.to_string_lossy()).unwrap_or(&hook.key);
    let file = file.strip_prefix(&plugin.root).unwrap_or(file);
    format!("{}/{}{place}", plugin.id, file.display())
}

/// The folder that has the `.agent` of a project's hook, in which it runs.
pub(super) fn project_folder(hook: &Hook) -> Option<&Path> {
    match hook.origin.source {
        Source::Project => hook.origin.path.ancestors().nth(2),
        Source::User | Source::Plugin | Source::Managed | Source::Fetched => None,
    }
}
