//! The hooks that apply in a folder, read from their files, and whether each runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Config;
use hooks::{Event, Handler, Hook, Origin, Source};
use session::HookEvents;

/// Bytes of a file of hooks.
const MAX_FILE: u64 = 1 << 20;
/// Hooks without trust of which a thread is sent a warning each.
const MAX_SHOWN: usize = 4;
/// Files that a hook's command names and its digest covers, at most.
const MAX_NAMED_FILES: usize = 16;

/// What applies in a folder.
#[derive(Debug, Default)]
pub(crate) struct LoadedHooks {
    pub(crate) hooks: Vec<Arc<LoadedHook>>,
    /// Parts of files that have no effect, and why.
    pub(crate) warnings: Vec<String>,
    /// Files that cannot be read, and why.
    pub(crate) errors: Vec<(PathBuf, String)>,
}

/// A hook, and whether it runs.
#[derive(Debug)]
pub(crate) struct LoadedHook {
    pub(crate) hook: Hook,
    /// See [`Hook::digest`].
    pub(crate) digest: String,
    pub(crate) trust: Trust,
    /// Whether the user left it on.
    pub(crate) is_enabled: bool,
}

/// Whether the user trusts a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
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
    /// Whether an event starts it.
    pub(crate) fn runs(&self) -> bool {
        let is_trusted = matches!(self.trust, Trust::Managed | Trust::Trusted);
        is_trusted && self.is_enabled && is_supported(&self.hook.handler)
    }
}

impl LoadedHooks {
    /// The events that start any hook.
    pub(crate) fn events(&self) -> HookEvents {
        self.hooks.iter().filter(|loaded| loaded.runs()).map(|loaded| loaded.hook.event).collect()
    }

    /// The hooks that an event starts, in their order.
    pub(crate) fn matching(&self, event: &Event, agent_type: Option<&str>) -> Vec<Arc<LoadedHook>> {
        let is_started =
            |loaded: &&Arc<LoadedHook>| loaded.runs() && loaded.hook.is_for(event, agent_type);
        self.hooks.iter().filter(is_started).cloned().collect()
    }

    /// Keeps the hooks of files that could be read before and cannot be now.
    pub(crate) fn keep_of_broken_files(&mut self, before: &Self) {
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
    pub(crate) fn problems(&self) -> Vec<String> {
        let errors = self.errors.iter();
        let errors = errors
            .map(|(path, why)| format!("{}: the hooks cannot be read: {why}", visible::path(path)));
        let undecided = self
            .hooks
            .iter()
            .filter(|loaded| matches!(loaded.trust, Trust::Untrusted | Trust::Modified))
            .filter(|loaded| loaded.is_enabled)
            .map(|loaded| {
                let LoadedHook { hook, digest, trust, .. } = &**loaded;
                let why = match trust {
                    Trust::Modified => "has changed since you trusted it",
                    _ => "is not trusted",
                };
                let file = visible::path(&hook.origin.path);
                format!(
                    "{file}: a hook of {} {why}, and does not run; look at it, and to let it run set \
                     `hooks.state.\"{}\".trusted_hash` to \"{digest}\", or run `agentd hooks trust`",
                    hook.event,
                    visible::text(&hook.key),
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

/// Reads the hooks of a configuration. Waits for the file system.
pub(crate) fn load(config: &Config) -> LoadedHooks {
    let mut loaded = LoadedHooks::default();
    if !config.has_hooks() {
        return loaded;
    }
    for (path, is_user) in config.hook_files() {
        let source = if is_user { Source::User } else { Source::Project };
        let origin = Origin { source, path: path.clone(), plugin: None };
        match files::read(&path, MAX_FILE) {
            Ok(text) => loaded.add_file(&text, &origin, config),
            Err(error) if error.is_not_found() => {}
            Err(error) => loaded.errors.push((path, error.to_string())),
        }
    }
    loaded
}

impl LoadedHooks {
    fn add_file(&mut self, text: &[u8], origin: &Origin, config: &Config) {
        let file = &origin.path;
        let read = match hooks::read_file(text, origin) {
            Ok(read) => read,
            Err(error) => return self.errors.push((file.clone(), error.to_string())),
        };
        let shown = visible::path(file);
        self.warnings.extend(read.warnings.iter().map(|warning| format!("{shown}: {warning}")));
        for hook in read.hooks {
            if !is_supported(&hook.handler) {
                self.warnings.push(format!(
                    "{shown}: a hook of {} has a handler of the type `agent`, which this version does \
                     not run; use `prompt` or `command`",
                    hook.event
                ));
            }
            self.hooks.push(Arc::new(judged(hook, config)));
        }
    }
}

/// Agents as handlers are not implemented.
fn is_supported(handler: &Handler) -> bool {
    !matches!(handler, Handler::Agent { .. })
}

fn judged(hook: Hook, config: &Config) -> LoadedHook {
    let digest = digest(&hook, &config.project_root);
    let state = config.hooks.state.get(&hook.key);
    let trusted = state.and_then(|state| state.trusted_hash.as_deref());
    let trust = match (hook.origin.source, trusted) {
        (Source::Managed, _) => Trust::Managed,
        (Source::User, _) => Trust::Trusted,
        (Source::Project | Source::Plugin, Some(trusted)) if trusted == digest => Trust::Trusted,
        (Source::Project | Source::Plugin, Some(_)) => Trust::Modified,
        (Source::Project | Source::Plugin, None) => Trust::Untrusted,
    };
    let is_enabled =
        hook.origin.source == Source::Managed || state.is_none_or(|state| state.enabled);
    LoadedHook { hook, digest, trust, is_enabled }
}

/// How a command names the project's root.
const PROJECT_DIR: [&str; 2] = ["$AGENT_PROJECT_DIR/", "${AGENT_PROJECT_DIR}/"];

/// The digest of a hook as it is now. That of a project covers the files that its command names, so that a
/// changed script is not trusted either: by an absolute path, from the project's root, or from the folder
/// that has the hook's `.agent`.
pub(super) fn digest(hook: &Hook, project: &Path) -> String {
    if hook.origin.source.is_unconfined() {
        return hook.digest([]);
    }
    let folder = hook.origin.path.ancestors().nth(2).unwrap_or(project);
    let read = |word| {
        let path = PROJECT_DIR.iter().find_map(|prefix| str::strip_prefix(word, prefix));
        let path = path.unwrap_or(word);
        let roots = [project, folder].into_iter();
        let contents = roots.filter_map(|root| files::read(&root.join(path), MAX_FILE).ok()).next();
        Some((word, contents?))
    };
    let named: Vec<(&str, Vec<u8>)> = hook.words().filter_map(read).take(MAX_NAMED_FILES).collect();
    hook.digest(named.iter().map(|(word, contents)| (*word, contents.as_slice())))
}
