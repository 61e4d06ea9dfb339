//! Importing what other agents have: detecting it, and writing the plans of the crate `migration`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use config::edit::{Edit, Strategy};
use migration::{Detected, Item, Kind, Plan, Roots};
use sandbox::files::{Action, Change};

use services::error::Error;
use services::options::Options;

/// An item that can be imported, and what is still to be written.
pub(crate) struct Offer {
    pub(crate) item: Item,
    /// Of all parts.
    pub(crate) plan: Plan,
}

/// Where other agents' files are, and where this agent's are.
///
/// # Errors
/// The home folder of the user is unknown.
pub(crate) fn roots(options: &Options) -> Result<Roots, Error> {
    let home = options.variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let user_home = home.ok_or_else(|| {
        Error::failed("the user's home folder is unknown")
            .next_step("set the environment variable `HOME` to an absolute path")
    })?;
    Ok(Roots {
        user_home,
        agent_home: options.home.clone(),
        // Next to this agent's own, as `/etc` is for `/etc/agent`.
        machine_settings: options.system_dir.parent().unwrap_or(&options.system_dir).to_owned(),
        project_folder: config::PROJECT_FOLDER,
    })
}

/// Returns the items that can be imported, including earlier imported ones, and the files that
/// cannot be used. Blocks.
pub(crate) fn offers(roots: &Roots, project: Option<&Path>) -> (Vec<Offer>, Vec<String>) {
    let Detected { items, problems } = migration::detect(roots, project);
    let mut problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let mut offers = Vec::new();
    let configuration = match migration::configuration(roots, project, config::CONFIG_FILE) {
        Ok(configuration) => configuration,
        Err(error) => {
            problems.push(error.to_string());
            return (offers, problems);
        }
    };
    for item in items {
        match migration::plan(&item, roots, &configuration, &|_| true) {
            Ok(plan) => offers.push(Offer { item, plan }),
            Err(error) => problems.push(error.to_string()),
        }
    }
    (offers, problems)
}

/// Returns the description of an item that the user sees before anything is written. It is the same
/// before and after an import.
pub(crate) fn description(offer: &Offer, roots: &Roots) -> String {
    let Offer { item, plan } = offer;
    let own = roots.own_folder(item.project.as_deref());
    let target = match (item.kind, &item.project) {
        (Kind::Instructions, Some(project)) => project.join("AGENTS.md"),
        (Kind::Permissions, _) => own.join("rules").join(format!("{}.rules", item.agent.id())),
        (Kind::Skills | Kind::Commands, _) => own.join("skills"),
        (Kind::McpServers | Kind::Settings, _) | (Kind::Instructions, None) => {
            own.join(config::CONFIG_FILE)
        }
        (Kind::Subagents, _) => own.join("roles"),
        (Kind::Hooks, _) => own.join("hooks.json"),
    };
    let (noun, agent) = (item.kind.noun(), item.agent.name());
    let mut text = format!("Import {noun} of {agent} into {}", visible::path(&target));
    for part in &item.parts {
        let name = visible::exact(&part.name);
        text.push_str(&format!("\n- {}", one_line(&format!("{name}: {}", part.summary))));
    }
    if !item.left_out.is_empty() || !plan.conflicts.is_empty() {
        text.push_str("\nNot imported:");
    }
    for left_out in item.left_out.iter().chain(&plan.conflicts) {
        text.push_str(&format!("\n- {}", one_line(left_out)));
    }
    if item.kind == Kind::Hooks {
        text.push_str("\nNone of them runs while `features.codex_hooks` is off.");
    }
    text.push_str(&format!("\nContents: sha256:{}", item.digest()));
    text
}

/// The text of another agent's files cannot look like a further entry.
fn one_line(text: &str) -> String {
    text.replace('\n', "\\n").replace('\r', "\\r")
}

/// The writes into the home or one project.
pub(crate) struct Writes {
    pub(crate) project: Option<PathBuf>,
    pub(crate) plan: Plan,
    changes: Vec<Change>,
    real_root: PathBuf,
}

/// Checks all that a plan writes. In a project, settings go to its file; the caller writes those of the user.
/// Blocks.
///
/// # Errors
/// A folder that leads elsewhere, a file that cannot be changed.
pub(crate) fn prepared(
    plan: Plan,
    project: Option<PathBuf>,
    roots: &Roots,
) -> Result<Writes, Error> {
    let root = roots.write_root(project.as_deref());
    let real_root = root.canonicalize().map_err(|cause| failed(&root, &cause.to_string()))?;
    let mut changes: Vec<Change> = plan
        .files
        .iter()
        .map(|file| written(file.path.clone(), file.contents.clone(), file.mode_of.clone()))
        .chain(project_settings(&plan, project.as_deref(), roots)?)
        .collect();
    // A skill does not count before it is whole, even when the process is killed in between.
    changes.sort_by_key(|change| change.path.ends_with(skills::SKILL_FILE));
    let folders: BTreeSet<&Path> = changes.iter().filter_map(|it| it.path.parent()).collect();
    let left: Vec<PathBuf> = folders.into_iter().flat_map(migration::leftovers).collect();
    changes.extend(left.into_iter().map(|path| Change { path, action: Action::Remove }));
    for change in &mut changes {
        migration::unlinked(&root, &change.path).map_err(refused)?;
        let relative = change.path.strip_prefix(&root).map_err(|_| outside(&change.path))?;
        change.path = real_root.join(relative);
    }
    Ok(Writes { project, plan, changes, real_root })
}

/// Writes the files, all or none, and waits until they are durable. Blocks.
///
/// # Errors
/// A file that cannot be written. Nothing was changed.
pub(crate) fn write_files(writes: &Writes) -> Result<(), Error> {
    let Writes { changes, real_root, .. } = writes;
    let approved: Vec<PathBuf> = changes.iter().map(|change| change.path.clone()).collect();
    sandbox::files::apply_approved(changes, &approved, None)
        .map_err(|error| Error::failed(error.to_string()))?;
    for change in changes.iter().filter(|change| change.action != Action::Remove) {
        sync(&change.path, real_root)?;
    }
    Ok(())
}

/// The configuration file of a project with the settings of the plan.
fn project_settings(
    plan: &Plan,
    project: Option<&Path>,
    roots: &Roots,
) -> Result<Option<Change>, Error> {
    if project.is_none() || plan.settings.is_empty() {
        return Ok(None);
    }
    let text = migration::configuration_text(roots, project, config::CONFIG_FILE);
    let text = text.map_err(refused)?.unwrap_or_default();
    let edits: Vec<Edit> = edits(plan).collect();
    let text =
        config::edit::apply(&text, &edits).map_err(|error| Error::failed(error.to_string()))?;
    let path = roots.own_folder(project).join(config::CONFIG_FILE);
    Ok(Some(written(path, text.into_bytes(), None)))
}

/// `mode_of`: the file whose mode the new one gets.
fn written(path: PathBuf, contents: Vec<u8>, mode_of: Option<PathBuf>) -> Change {
    Change { path, action: Action::Write { contents, create_parents: true, mode_of } }
}

/// The settings of a plan as edits.
pub(crate) fn edits(plan: &Plan) -> impl Iterator<Item = Edit> + '_ {
    plan.settings.iter().map(|setting| Edit {
        key_path: config::dotted_key(&setting.key_path),
        value: setting.value.clone(),
        strategy: Strategy::Replace,
    })
}

/// Makes a file and the folders above it durable.
fn sync(path: &Path, root: &Path) -> Result<(), Error> {
    let opened =
        files::open_without_links(path).map_err(|error| Error::failed(error.to_string()))?;
    opened.file.sync_all().map_err(|cause| failed(path, &cause.to_string()))?;
    for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(root)) {
        filesystem::sync_folder(folder).map_err(|cause| failed(folder, &cause.to_string()))?;
    }
    Ok(())
}

fn refused(error: migration::Error) -> Error {
    Error::failed(error.to_string())
}

fn outside(path: &Path) -> Error {
    failed(path, "it is outside of the folder that the import may change")
}

fn failed(path: &Path, why: &str) -> Error {
    Error::failed(format!("{}: {why}", path.display()))
}
