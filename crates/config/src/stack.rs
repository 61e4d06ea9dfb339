//! Finds the layers that hold in a folder: the administrator's file, the user's, those of a trusted
//! project, and what the caller gives.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Origin, Warning, WarningKind};
use crate::files::Files;
use crate::kind::{Reading, Setting};
use crate::layer::Layer;
use crate::layer_name::LayerName;
use crate::requirements::{Requirements, requirement_files};
use crate::resolve::merge_layers;
use crate::table::{Project, TrustLevel};
use crate::trust::{Trust, folders, project_root};
use crate::value::{Table, Value};

/// The folder of a project's own files.
pub const PROJECT_FOLDER: &str = ".agent";
/// The folder of `.rules` files, in the home and in a project's own folder.
const RULES_FOLDER: &str = "rules";
/// The name of a configuration file.
pub const CONFIG_FILE: &str = "config.toml";

/// What the caller knows about the world.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The agent's home folder, where the user's `config.toml` lies.
    pub home: &'a Path,
    /// The administrator's folder, `/etc/agent`.
    pub system: &'a Path,
    /// The working folder. Absolute.
    pub cwd: &'a Path,
    /// Looks up an environment variable: credentials, headers, and `HOME` for `~/`.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

impl Surroundings<'_> {
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading { cwd: self.cwd, user_home: (self.env)("HOME").map(PathBuf::from) }
    }
}

/// What the caller adds to the files.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// The command line.
    pub flags: Option<&'a Arc<Layer>>,
    /// Features switched in this process.
    pub switched: Option<&'a Arc<Layer>>,
    /// A thread's `config`.
    pub thread: Option<&'a Arc<Layer>>,
    /// Unknown keys are errors.
    pub strict: bool,
    /// Whether the project of the working folder has a say.
    pub projects: bool,
}

impl Default for Given<'_> {
    fn default() -> Self {
        Self { flags: None, switched: None, thread: None, strict: false, projects: true }
    }
}

/// The layers that hold in a folder, and the requirements.
#[derive(Debug, Clone)]
pub struct Stack {
    /// Lowest first.
    pub layers: Vec<StackLayer>,
    /// What the administrator requires.
    pub requirements: Arc<Requirements>,
    /// The root of the project of the working folder.
    pub project_root: PathBuf,
    /// Whether the working folder is trusted.
    pub trusted: bool,
    /// Folders whose `.rules` files hold here, if they are there: the user's, then those of
    /// trusted projects.
    pub rule_folders: Vec<PathBuf>,
    pub trusted_folders: Vec<PathBuf>,
    /// What is remarkable in the layers and around them.
    pub warnings: Vec<Warning>,
}

/// A layer in its place.
#[derive(Debug, Clone)]
pub struct StackLayer {
    /// What it says.
    pub layer: Arc<Layer>,
    /// Why it does not count. Such a layer was not read.
    pub disabled: Option<String>,
}

impl Stack {
    /// Finds and reads the layers.
    ///
    /// # Errors
    /// A file that cannot be used and was never good, and, when strict, a key that does not exist.
    pub fn load(files: &Files, given: Given<'_>, around: &Surroundings<'_>) -> Result<Self, Error> {
        let mut own = Vec::new();
        for name in [
            LayerName::System { file: around.system.join(CONFIG_FILE) },
            LayerName::User { file: around.home.join(CONFIG_FILE) },
        ] {
            own.extend(files.layer(&name)?.map(StackLayer::enabled));
        }
        let added: Vec<StackLayer> = [given.flags, given.switched, given.thread]
            .into_iter()
            .flatten()
            .map(|layer| StackLayer::enabled(layer.clone()))
            .collect();
        let mut warnings = Vec::new();
        let all: Vec<&Layer> = own.iter().chain(&added).map(|layer| &*layer.layer).collect();
        let base = merge_layers(&all)?.root;
        let found = project_layers(files, &base, given.projects, around, &mut warnings)?;
        let layers: Vec<StackLayer> = own.into_iter().chain(found.layers).chain(added).collect();
        let told = layers.iter().flat_map(|layer| layer.layer.warnings());
        let mut warnings: Vec<Warning> = told.cloned().chain(warnings).collect();
        if let Some(at) =
            warnings.iter().position(|w| given.strict && w.kind == WarningKind::Unknown)
        {
            return Err(Error::Strict(warnings.swap_remove(at)));
        }
        Ok(Self {
            layers,
            requirements: Arc::new(Requirements::load(files, around.system, around.home)?),
            project_root: found.root,
            trusted: found.trusted,
            rule_folders: found.rule_folders,
            trusted_folders: found.trusted_folders,
            warnings,
        })
    }

    /// The same with another text of the file of a layer: what it would be after a write.
    ///
    /// # Errors
    /// A text that is no configuration.
    pub fn with_text(&self, name: &LayerName, text: &str) -> Result<Self, Error> {
        let layer = StackLayer::enabled(Arc::new(Layer::parse(name.clone(), text)?));
        let mut stack = self.clone();
        match stack.layers.iter().position(|layer| layer.layer.name() == name) {
            Some(at) => stack.layers[at] = layer,
            None => {
                let at = stack.layers.partition_point(|layer| layer.layer.name() < name);
                stack.layers.insert(at, layer);
            }
        }
        Ok(stack)
    }

    /// The first key of the layer `name` that does not exist and that one of `edited` set.
    pub fn unknown_keys<'k>(
        &self,
        name: &LayerName,
        edited: impl Iterator<Item = &'k str> + Clone,
    ) -> Option<Warning> {
        let layer = self.layers.iter().find(|layer| layer.layer.name() == name)?;
        let touches = |warning: &&Warning| {
            warning.kind == WarningKind::Unknown
                && edited.clone().any(|key| {
                    let key =
                        crate::key_path::parse(key).map(|parts| crate::key_path::join(&parts));
                    key.is_ok_and(|key| {
                        warning.key == key
                            || warning.key.starts_with(&format!("{key}."))
                            || key.starts_with(&format!("{}.", warning.key))
                    })
                })
        };
        layer.layer.warnings().iter().find(touches).cloned()
    }

    /// The layers that count, lowest first.
    pub fn enabled(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(|layer| layer.disabled.is_none()).map(|layer| &*layer.layer)
    }

    /// Every file that this stack depends on, those that do not exist included.
    pub fn watched(&self, around: &Surroundings<'_>) -> Vec<PathBuf> {
        let mut paths = vec![around.system.join(CONFIG_FILE), around.home.join(CONFIG_FILE)];
        let requirements = requirement_files(around.system, around.home);
        paths.extend(requirements.iter().filter_map(LayerName::file));
        let unread: Vec<PathBuf> = self
            .layers
            .iter()
            .filter(|layer| layer.disabled.is_some())
            .filter_map(|layer| layer.layer.name().file())
            .collect();
        paths.extend(
            folders(&self.project_root, around.cwd)
                .iter()
                .map(|folder| folder.join(PROJECT_FOLDER).join(CONFIG_FILE))
                .filter(|file| !unread.contains(file)),
        );
        paths
    }
}

impl StackLayer {
    fn enabled(layer: Arc<Layer>) -> Self {
        Self { layer, disabled: None }
    }
}

struct Found {
    layers: Vec<StackLayer>,
    root: PathBuf,
    trusted: bool,
    rule_folders: Vec<PathBuf>,
    trusted_folders: Vec<PathBuf>,
}

fn project_layers(
    files: &Files,
    base: &Table,
    wanted: bool,
    around: &Surroundings<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Found, Error> {
    let cx = around.reading();
    let markers = match base.get("project_root_markers") {
        Some(node) => Vec::<String>::read(node, &cx)?,
        None => vec![".git".to_owned()],
    };
    let root = project_root(around.cwd, &markers);
    let trust = trust(base, &cx)?;
    let mut layers = Vec::new();
    let mut rule_folders = vec![around.home.join(RULES_FOLDER)];
    for folder in folders(&root, around.cwd).into_iter().filter(|_| wanted) {
        let own = folder.join(PROJECT_FOLDER);
        if same_folder(&own, around.home) {
            continue;
        }
        let rules = own.join(RULES_FOLDER);
        let has_rules = rules.symlink_metadata().is_ok();
        let name = LayerName::Project { folder: own };
        let exists = name.file().is_some_and(|file| file.symlink_metadata().is_ok());
        if trust.is_trusted(&folder, &root) {
            // Also one that is not there yet.
            rule_folders.push(rules);
            if exists {
                layers.extend(files.layer(&name)?.map(StackLayer::enabled));
            }
            continue;
        }
        if !exists && !has_rules {
            continue;
        }
        let reason = format!(
            "{folder} is not trusted: its configuration, rules, hooks, skills and MCP servers are \
             not used; to trust it, write `[projects.\"{folder}\"]` and `trust_level = \"trusted\"` \
             in your own `config.toml`",
            folder = folder.display(),
        );
        warnings.push(Warning {
            origin: Origin::Folder(folder.clone()),
            key: format!("projects.\"{}\".trust_level", folder.display()),
            message: reason.clone(),
            kind: WarningKind::Ignored,
        });
        let unread = Arc::new(Layer::parse(name, "")?);
        layers.push(StackLayer { layer: unread, disabled: Some(reason) });
    }
    let trusted = trust.vouches_for(around.cwd, &root);
    Ok(Found { layers, trusted, root, rule_folders, trusted_folders: trust.folders() })
}

fn trust(base: &Table, cx: &Reading<'_>) -> Result<Trust, Error> {
    let Some(Value::Table(projects)) = base.get("projects").map(|node| &node.value) else {
        return Ok(Trust::new(std::iter::empty(), None));
    };
    let mut levels: Vec<(&str, TrustLevel)> = Vec::new();
    for (path, node) in projects {
        if let Some(level) = Project::read(node, cx)?.trust_level {
            levels.push((path, level));
        }
    }
    Ok(Trust::new(levels.into_iter(), cx.user_home.as_deref()))
}

fn same_folder(one: &Path, other: &Path) -> bool {
    one == other
        || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
