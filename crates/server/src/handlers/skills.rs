//! Lists of skills, and switching single ones on and off (specification: Skill entry).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::LayerName;
use protocol::config::{ConfigEdit, MergeStrategy};
use protocol::skills::{
    SkillDependencies, SkillErrorInfo, SkillInterface, SkillMetadata, SkillScope,
    SkillToolDependency, SkillsListEntry,
};
use protocol::{
    Encoded, SkillsConfigWriteParams, SkillsConfigWriteResponse, SkillsListParams,
    SkillsListResponse, SkillsMethods,
};
use serde_json::{Value, json};
use skills::{Problem, SKILL_FILE, Scope, Skill};

use crate::server::Server;
use services::error::{ConfigWriteFault, Error, ErrorKind};
use services::folders::{self, absolute};
use services::peer::Caller;
use services::skills::{Listed, SkillSet, Switches, skill_folder};

/// Folders of a request, and added roots of a folder.
const MAX_FOLDERS: usize = 100;
/// Tries to write the list of a file that others write at the same time: each conflict is a write of one of them
/// that has succeeded.
const MAX_TRIES: usize = 64;
const KEY: &str = "skills.config";

impl SkillsMethods<Caller> for Server {
    /// A folder that cannot be used gets an entry with the error. Faults that do not keep a skill from
    /// being used are in `errors` too.
    async fn skills_list(
        &self,
        _: Caller,
        params: SkillsListParams,
    ) -> Result<SkillsListResponse, Error> {
        let cwds = match params.cwds.is_empty() {
            true => vec![self.services.options.cwd.display().to_string()],
            false => params.cwds,
        };
        if cwds.len() > MAX_FOLDERS {
            let message = format!("`cwds`: at most {MAX_FOLDERS} folders are allowed");
            return Err(Error::invalid_params(message));
        }
        for (at, added) in params.per_cwd_extra_user_roots.iter().flatten().enumerate() {
            if !cwds.contains(&added.cwd) {
                continue;
            }
            let member = format!("perCwdExtraUserRoots[{at}].extraUserRoots");
            if added.extra_user_roots.len() > MAX_FOLDERS {
                let message = format!("`{member}`: at most {MAX_FOLDERS} folders are allowed");
                return Err(Error::invalid_params(message));
            }
            let roots = added.extra_user_roots.iter().map(|root| absolute(&member, root));
            let roots = roots.collect::<Result<Vec<PathBuf>, Error>>()?;
            self.services.skills.set_extra_roots(Path::new(&added.cwd), roots);
        }
        let mut data = Vec::with_capacity(cwds.len());
        for cwd in cwds {
            data.push(match self.skills_of(&cwd, params.force_reload).await {
                Ok(entry) => entry,
                Err(error) => {
                    let error = SkillErrorInfo { path: cwd.clone(), message: error.to_string() };
                    Encoded::new(SkillsListEntry { cwd, skills: Vec::new(), errors: vec![error] })
                }
            });
        }
        Ok(SkillsListResponse { data })
    }

    /// Writes an entry of `skills.config` to the user's file.
    async fn skills_config_write(
        &self,
        caller: Caller,
        params: SkillsConfigWriteParams,
    ) -> Result<SkillsConfigWriteResponse, Error> {
        let folder = match (&params.path, &params.name) {
            (Some(path), None) => self.skill_folder_at(path).await?,
            (None, Some(name)) => self.skill_folder_named(name).await?,
            (Some(_), Some(_)) => return Err(Error::exclusive("path", "name")),
            (None, None) => return Err(Error::invalid_params("`path` or `name` is missing")),
        };
        let mut tries = 1;
        loop {
            match self.write_switch(&caller, &folder, params.enabled).await {
                Err(error) if tries < MAX_TRIES && is_conflict(&error) => tries += 1,
                written => break written?,
            }
        }
        self.services.skills.announce_change();
        let config = self.services.configurations.own()?.resolved.config;
        Ok(SkillsConfigWriteResponse { effective_enabled: Switches::new(&config).is_on(&folder) })
    }
}

impl Server {
    async fn skills_of(&self, cwd: &str, reload: bool) -> Result<Encoded<SkillsListEntry>, Error> {
        let services = &self.services;
        let folder = absolute("cwds", cwd)?;
        if !reload && let Some(entry) = self.kept_skills(&folder).await? {
            return Ok(entry);
        }
        let folder = folders::check_cwd(&services.files, folder).await?;
        let loaded = services.configurations.in_folder(&folder, None).await?;
        let config = &loaded.resolved.config;
        let set = services.skills.in_folder(&folder, config, reload).await?;
        let entry = Encoded::new(SkillsListEntry {
            cwd: cwd.to_owned(),
            skills: wire_skills(&set, config),
            errors: set.found.problems.iter().map(wire_problem).collect(),
        });
        services.skills.keep_list(folder, Listed { loaded, set, entry: entry.clone() });
        Ok(entry)
    }

    /// The last list of a folder, unless its configuration or its skills have changed.
    async fn kept_skills(&self, folder: &Path) -> Result<Option<Encoded<SkillsListEntry>>, Error> {
        let services = &self.services;
        let Some(listed) = services.skills.listed(folder) else { return Ok(None) };
        let source = services.configurations.source().clone();
        let (of, place) = (listed.clone(), folder.to_owned());
        let is_current = services.files.run(folder, move || {
            place.is_dir() && !source.changed(&of.loaded.files, of.loaded.generation)
        });
        if !is_current.await? {
            return Ok(None);
        }
        let set = services.skills.in_folder(folder, &listed.loaded.resolved.config, false).await?;
        Ok(Arc::ptr_eq(&set, &listed.set).then(|| listed.entry.clone()))
    }

    /// The folder of a skill that a client names by the path of its folder or its `SKILL.md`.
    async fn skill_folder_at(&self, path: &str) -> Result<PathBuf, Error> {
        let path = absolute("path", path)?;
        let folder = skill_folder(&path).to_owned();
        let file = folder.join(SKILL_FILE);
        if self.services.files.run(&folder, move || file.is_file()).await? {
            return Ok(folder);
        }
        Err(Error::invalid_params(format!("`path`: {} has no {SKILL_FILE}", folder.display())))
    }

    /// The folder of the skill of this name in the server's working folder.
    async fn skill_folder_named(&self, name: &str) -> Result<PathBuf, Error> {
        let services = &self.services;
        let cwd = services.options.cwd.clone();
        let config = services.configurations.in_folder(&cwd, None).await?.resolved.config;
        let set = services.skills.in_folder(&cwd, &config, false).await?;
        let found = set.found.skills.iter().find(|skill| skill.name == name);
        let message = || format!("`name`: {} has no skill `{name}`", cwd.display());
        let found = found.ok_or_else(|| {
            Error::invalid_params(message()).next_step("give the `path` from `skills/list`")
        })?;
        Ok(found.folder().to_owned())
    }

    async fn write_switch(
        &self,
        caller: &Caller,
        folder: &Path,
        enabled: bool,
    ) -> Result<(), Error> {
        let own = self.services.configurations.own()?;
        let is_user = |name: &LayerName| matches!(name, LayerName::User { .. });
        let mut layers = own.stack.layers.iter().map(|layer| &layer.layer);
        let layer = layers.find(|layer| is_user(layer.name()));
        let version = layer.map(|layer| layer.version().to_owned());
        let before = layer.map(|layer| layer.to_json()["skills"]["config"].take());
        let mut entries = match before {
            Some(Value::Array(entries)) => entries,
            _ => Vec::new(),
        };
        let is_about = |entry: &Value| {
            let path = entry["path"].as_str().map(Path::new);
            path.is_some_and(|path| skill_folder(path) == folder)
        };
        entries.retain(|entry| !is_about(entry));
        entries.push(json!({ "path": folder, "enabled": enabled }));
        let edit = ConfigEdit {
            key_path: KEY.to_owned(),
            value: Value::Array(entries),
            merge_strategy: MergeStrategy::Replace,
        };
        self.write(caller, vec![edit], None, version).await.map(drop)
    }
}

fn is_conflict(error: &Error) -> bool {
    error.kind() == ErrorKind::ConfigWrite(ConfigWriteFault::VersionConflict)
}

fn wire_skills(set: &SkillSet, config: &config::Config) -> Vec<SkillMetadata> {
    let switches = Switches::new(config);
    set.found.skills.iter().map(|skill| wire_skill(skill, &switches)).collect()
}

fn wire_skill(skill: &Skill, switches: &Switches) -> SkillMetadata {
    let path = |path: &PathBuf| path.display().to_string();
    SkillMetadata {
        name: skill.name.clone(),
        description: skill.description.clone(),
        short_description: skill.short_description.clone(),
        path: path(&skill.path),
        scope: match skill.scope {
            Scope::Project => SkillScope::Repo,
            Scope::User => SkillScope::User,
            Scope::Admin => SkillScope::Admin,
        },
        enabled: switches.is_on(skill.folder()),
        interface: skill.interface.as_ref().map(|interface| SkillInterface {
            display_name: interface.display_name.clone(),
            short_description: interface.short_description.clone(),
            brand_color: interface.brand_color.clone(),
            default_prompt: interface.default_prompt.clone(),
            icon_large: interface.icon_large.as_ref().map(path),
            icon_small: interface.icon_small.as_ref().map(path),
        }),
        dependencies: skill.dependencies.as_ref().map(|dependencies| SkillDependencies {
            tools: dependencies.tools.iter().map(wire_dependency).collect(),
        }),
    }
}

fn wire_dependency(tool: &skills::Dependency) -> SkillToolDependency {
    SkillToolDependency {
        kind: tool.kind.clone(),
        value: tool.value.clone(),
        description: tool.description.clone(),
        transport: tool.transport.clone(),
        url: tool.url.clone(),
        command: tool.command.clone(),
    }
}

fn wire_problem(problem: &Problem) -> SkillErrorInfo {
    SkillErrorInfo { path: problem.path.display().to_string(), message: problem.fault.to_string() }
}
