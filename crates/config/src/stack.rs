//! Finds the layers that apply in a folder: the administrator's file, the user's, those of trusted
//! project folders, and the caller's overrides.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::environment::Environment;
use crate::error::{Error, Strictness, Warning, WarningKind};
use crate::file_cache::FileCache;
use crate::kind::Setting;
use crate::layer::Layer;
use crate::layer_name::LayerName;
use crate::origin::Origin;
use crate::project_access::ProjectEntries;
use crate::requirements::{Requirements, requirement_files};
use crate::resolve::{Merged, merge_layers};
use crate::trust::{folders, project_root};
use crate::value::Table;

/// The folder of a project's configuration.
pub const PROJECT_FOLDER: &str = ".agent";
/// The folder of `.rules` files, in the agent's home and in [`PROJECT_FOLDER`].
const RULES_FOLDER: &str = "rules";
/// The name of a configuration file.
pub const CONFIG_FILE: &str = "config.toml";

/// Layers and options that the caller adds to the files.
#[derive(Debug, Clone, Copy)]
pub struct Overrides<'a> {
    /// The command line.
    pub flags: Option<&'a Arc<Layer>>,
    /// Features switched in this process.
    pub switched: Option<&'a Arc<Layer>>,
    /// A thread's `config`.
    pub thread: Option<&'a Arc<Layer>>,
    /// The file of the role of an agent.
    pub role: Option<&'a Path>,
    /// True if unknown keys are errors.
    pub strict: bool,
    /// True if the project's own files are read.
    pub projects: bool,
}

impl Default for Overrides<'_> {
    fn default() -> Self {
        Self {
            flags: None,
            switched: None,
            thread: None,
            role: None,
            strict: false,
            projects: true,
        }
    }
}

/// The layers that apply in a folder, and the requirements.
#[derive(Debug, Clone)]
pub struct Stack {
    /// In ascending precedence.
    pub layers: Vec<StackLayer>,
    /// The administrator's requirements.
    pub requirements: Arc<Requirements>,
    /// The root of the project of the working folder.
    pub project_root: PathBuf,
    /// True if the working folder is trusted.
    pub trusted: bool,
    /// Folders whose `.rules` files apply, whether they exist or not: the user's, then those of
    /// trusted projects.
    pub rule_folders: Vec<PathBuf>,
    /// Folders that the user trusts, from the project's root to the working folder.
    pub project_folders: Vec<PathBuf>,
    /// See [`crate::Config::trusted_folders`].
    pub trusted_folders: Vec<PathBuf>,
    /// Values above the user's own file: those of the user's entry for the project
    /// (`projects.<path>.access`).
    pub(crate) access: Table,
    /// Warnings about the layers and about trust.
    pub warnings: Vec<Warning>,
}

/// A layer of a stack.
#[derive(Debug, Clone)]
pub struct StackLayer {
    /// Its values.
    pub layer: Arc<Layer>,
    /// Why the layer is not used. Such a layer is not read either.
    pub disabled: Option<String>,
}

impl Stack {
    /// Finds and reads the layers.
    ///
    /// # Errors
    /// A file that has never been valid, or, in strict mode, a key that does not exist.
    pub fn load(
        files: &FileCache,
        overrides: Overrides<'_>,
        environment: &Environment<'_>,
    ) -> Result<Self, Error> {
        let (stack, errors) = Self::load_usable(files, overrides, environment)?;
        Error::of_all(errors).map_or(Ok(stack), Err)
    }

    /// As [`Stack::load`], but without the requirements where these have a mistake, and with the mistakes
    /// that leave the rest to be checked.
    ///
    /// # Errors
    /// A mistake that leaves nothing to check.
    pub fn load_usable(
        files: &FileCache,
        overrides: Overrides<'_>,
        environment: &Environment<'_>,
    ) -> Result<(Self, Vec<Error>), Error> {
        let mut errors = Vec::new();
        let mut own = Vec::new();
        for name in [
            LayerName::System { file: environment.system.join(CONFIG_FILE) },
            LayerName::User { file: environment.home.join(CONFIG_FILE) },
        ] {
            own.extend(files.layer(&name)?.map(StackLayer::enabled));
        }
        let added: Vec<StackLayer> = [overrides.flags, overrides.switched, overrides.thread]
            .into_iter()
            .flatten()
            .map(|layer| StackLayer::enabled(layer.clone()))
            .collect();
        let mut warnings = Vec::new();
        let all: Vec<&Layer> = own.iter().chain(&added).map(|layer| &*layer.layer).collect();
        let Merged { root: base, undefined, .. } = merge_layers(&all, &Table::new());
        errors.extend(undefined);
        let found = project_layers(files, &base, overrides.projects, environment, &mut warnings)?;
        let role = role_layer(files, overrides.role)?;
        let layers = own.into_iter().chain(found.layers).chain(added).chain(role);
        let layers: Vec<StackLayer> = layers.collect();
        let from_layers = layers.iter().flat_map(|layer| layer.layer.warnings());
        let warnings: Vec<Warning> = from_layers.cloned().chain(warnings).collect();
        let is_strict = |w: &Warning| {
            overrides.strict
                && matches!(
                    w.kind,
                    WarningKind::Unknown | WarningKind::LeftOut | WarningKind::Converted
                )
        };
        let (refused, warnings): (Vec<Warning>, Vec<Warning>) =
            warnings.into_iter().partition(is_strict);
        errors.extend(refused.into_iter().map(|warning| match warning.kind {
            WarningKind::LeftOut | WarningKind::Converted => {
                Error::refused(&warning.origin, warning.key, warning.message)
            }
            _ => {
                let warning = Box::new(warning);
                Error::UnknownKey { warning, strictness: Strictness::Option }
            }
        }));
        let requirements = Requirements::load(files, environment.system, environment.home);
        let requirements = requirements.unwrap_or_else(|error| {
            errors.push(error);
            Requirements::default()
        });
        let stack = Self {
            layers,
            requirements: Arc::new(requirements),
            project_root: found.root,
            trusted: found.trusted,
            rule_folders: found.rule_folders,
            project_folders: found.project_folders,
            trusted_folders: found.trusted_folders,
            access: found.access,
            warnings,
        };
        Ok((stack, errors))
    }

    /// The stack as it would be with this layer in place of the one of the same name.
    #[must_use]
    pub fn with_layer(mut self, layer: Layer) -> Self {
        let name = layer.name().clone();
        self.warnings.retain(|warning| warning.origin.layer() != name);
        self.warnings.extend(layer.warnings().iter().cloned());
        let layer = StackLayer::enabled(Arc::new(layer));
        match self.layers.iter().position(|layer| *layer.layer.name() == name) {
            Some(at) => self.layers[at] = layer,
            None => {
                let at = self.layers.partition_point(|layer| *layer.layer.name() < name);
                self.layers.insert(at, layer);
            }
        }
        self
    }

    /// The layers in use, in ascending precedence.
    pub fn enabled(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(|layer| layer.disabled.is_none()).map(|layer| &*layer.layer)
    }

    /// Every file that this stack depends on, whether it exists or not.
    pub fn watched(&self, environment: &Environment<'_>) -> Vec<PathBuf> {
        let mut paths =
            vec![environment.system.join(CONFIG_FILE), environment.home.join(CONFIG_FILE)];
        let requirements = requirement_files(environment.system, environment.home);
        paths.extend(requirements.iter().filter_map(LayerName::file));
        let roles = self.layers.iter().map(|layer| layer.layer.name());
        let roles = roles.filter(|name| matches!(name, LayerName::Role { .. }));
        paths.extend(roles.filter_map(LayerName::file));
        let unread: Vec<PathBuf> = self
            .layers
            .iter()
            .filter(|layer| layer.disabled.is_some())
            .filter_map(|layer| layer.layer.name().file())
            .collect();
        paths.extend(
            folders(&self.project_root, environment.cwd)
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

/// The layer of a role, above all others. It has no say in which folders are trusted.
fn role_layer(files: &FileCache, role: Option<&Path>) -> Result<Option<StackLayer>, Error> {
    let Some(file) = role else { return Ok(None) };
    match files.layer(&LayerName::Role { file: file.to_owned() })? {
        Some(layer) => Ok(Some(StackLayer::enabled(layer))),
        None => {
            let cause = Arc::new(std::io::ErrorKind::NotFound.into());
            Err(Error::Read { path: file.to_owned(), cause })
        }
    }
}

struct ProjectLayers {
    layers: Vec<StackLayer>,
    root: PathBuf,
    trusted: bool,
    rule_folders: Vec<PathBuf>,
    project_folders: Vec<PathBuf>,
    trusted_folders: Vec<PathBuf>,
    access: Table,
}

/// Parts of a project's own folder, besides its configuration and rules, that count only when it is trusted.
const OWN_PARTS: [&str; 2] = [".agent/hooks.json", ".agent/skills"];
/// Such parts elsewhere.
const OTHER_PARTS: [&str; 2] = [".agents/skills", ".claude/skills"];

fn project_layers(
    files: &FileCache,
    base: &Table,
    wanted: bool,
    environment: &Environment<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<ProjectLayers, Error> {
    let cx = environment.read_context();
    let markers = match base.get("project_root_markers") {
        Some(node) => Vec::<String>::read(node, &cx)?,
        None => vec![".git".to_owned()],
    };
    let root = project_root(environment.cwd, &markers);
    let ProjectEntries { trust, access } = ProjectEntries::read(base, &cx)?;
    let mut layers = Vec::new();
    let mut rule_folders = vec![environment.home.join(RULES_FOLDER)];
    let mut project_folders = Vec::new();
    for folder in folders(&root, environment.cwd).into_iter().filter(|_| wanted) {
        let own = folder.join(PROJECT_FOLDER);
        // A thread starts with this, so a folder that is not there is looked at once.
        let has_own = own.symlink_metadata().is_ok();
        if has_own && same_folder(&own, environment.home) {
            continue;
        }
        let rules = own.join(RULES_FOLDER);
        let name = LayerName::Project { folder: own };
        let exists = has_own && name.file().is_some_and(|file| file.symlink_metadata().is_ok());
        if trust.is_trusted(&folder, &root) {
            // Whether it exists or not.
            rule_folders.push(rules);
            project_folders.push(folder);
            if exists {
                layers.extend(files.layer(&name)?.map(StackLayer::enabled));
            }
            continue;
        }
        let has =
            |parts: &[&str]| parts.iter().any(|part| folder.join(part).symlink_metadata().is_ok());
        let has_rules = has_own && rules.symlink_metadata().is_ok();
        let has_more = has_own && has(&OWN_PARTS) || has(&OTHER_PARTS);
        if !exists && !has_rules && !has_more {
            continue;
        }
        let reason = format!(
            "{folder} is not trusted: its configuration, rules, hooks, skills and MCP servers are \
             not used; to trust it, add `[projects.\"{folder}\"]` with `trust_level = \"trusted\"` \
             to your own `config.toml`",
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
    let trusted = trust.is_trusted_for(environment.cwd, &root);
    let trusted_folders = trust.folders();
    let access = access.nearest(environment.cwd, &root).map(|it| it.values()).unwrap_or_default();
    Ok(ProjectLayers {
        layers,
        trusted,
        root,
        rule_folders,
        project_folders,
        trusted_folders,
        access,
    })
}

fn same_folder(one: &Path, other: &Path) -> bool {
    one == other
        || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
