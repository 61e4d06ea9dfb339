//! The contents of a plugin: skills, hooks, MCP servers and apps, as data. Starts and registers
//! nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::beneath;
use crate::declared::{self, Declared, listed};
use crate::error::{Error, Problem};
use crate::json;
use crate::manifest::{self, Manifest};
use crate::name::{check_name, relative_path};

/// MCP servers and apps of a plugin, each. Further ones are left out with a problem.
const MAX_DEFINITIONS: usize = 64;
/// Folders with skills, and files or objects with MCP servers, that a manifest can name. Further ones are left
/// out with a problem.
const MAX_FOLDERS: usize = 256;
/// Files and objects with hooks that a manifest can have.
const MAX_HOOK_FILES: usize = 16;

/// Where plugins have their parts without naming them.
const HOOKS: &str = "hooks/hooks.json";
const SERVERS: &str = ".mcp.json";
const APPS: &str = ".app.json";

/// A plugin's folder.
#[derive(Clone, Copy, Debug)]
pub struct Plugin;

/// The contents of a plugin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    pub manifest: Manifest,
    /// Folders in which skills are searched, as roots of `skills::discover`. Absolute if the plugin's
    /// folder was.
    pub skills: Vec<PathBuf>,
    /// Files with hooks, in the format of `hooks::read_file`.
    pub hooks: Vec<PathBuf>,
    /// The hooks that stand in the manifest itself, in the same format.
    pub inline_hooks: Option<InlineHooks>,
    /// Definitions of MCP servers by name, not interpreted.
    pub mcp_servers: BTreeMap<String, Value>,
    pub apps: Vec<App>,
    /// The files that were looked for, even those that do not exist: a change of one can change all this.
    /// Folders with skills are not among them.
    pub files: Vec<PathBuf>,
    /// Parts that are left out, and why.
    pub problems: Vec<Problem>,
    /// Members and folders with parts that only other agents use, sorted.
    pub unused: Vec<&'static str>,
}

/// Hooks in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineHooks {
    /// The manifest.
    pub file: PathBuf,
    pub text: String,
}

/// An app (a connector of the hosted service) that a plugin uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    pub name: String,
    pub id: String,
}

impl Plugin {
    /// Reads an installed plugin. A part that cannot be used is reported in `problems` and hides no other.
    /// Blocks on the file system.
    ///
    /// # Errors
    /// The folder is not a plugin, or has no usable manifest.
    pub fn read(root: &Path) -> Result<Contents, Error> {
        Self::read_with(root, Declared::read(root)?.as_ref())
    }

    /// As [`Plugin::read`], for a plugin that is not installed: with what its marketplace declares.
    ///
    /// # Errors
    /// As [`Plugin::read`].
    pub fn read_declared(root: &Path, declared: &Declared) -> Result<Contents, Error> {
        Self::read_with(root, Some(declared))
    }

    fn read_with(root: &Path, declared: Option<&Declared>) -> Result<Contents, Error> {
        let is_defined = manifest::exists(root)? || declared.is_some_and(Declared::has_parts);
        let manifest = Manifest::read(root, declared)?;
        let Some(manifest) = manifest.filter(|_| is_defined || has_usual_parts(root)) else {
            let [one, two, three] = manifest::FILES;
            let why = format!(
                "it is not a plugin: it has no manifest (`{one}`, `{two}` or `{three}`), the entry of its \
                 marketplace names no parts, and there is nothing in the usual places, such as `skills`"
            );
            return Err(Error::refused(root, why));
        };
        let members = manifest.members.clone();
        let looked_for = manifest::FILES.into_iter().chain([declared::FILE]);
        let files = looked_for.map(|file| root.join(file)).collect();
        let contents = Contents { manifest, files, ..Contents::default() };
        let mut read = Reader { root, contents };
        let named = |part: &str| members.get(part).cloned().map(listed).unwrap_or_default();
        read.skills(named("skills"));
        read.hooks(named("hooks"));
        read.mcp_servers(named("mcpServers"));
        read.apps(named("apps"));
        read.unused(&members);
        for said in manifest::misspelt(&members) {
            read.report_manifest(&said);
        }
        Ok(read.contents)
    }
}

/// Returns whether a folder without a manifest has parts where plugins have them, for this or another agent.
fn has_usual_parts(root: &Path) -> bool {
    let has_file = |file: &&str| beneath::has_file(root, Path::new(file));
    ["skills", "commands", "agents"].iter().any(|name| beneath::has_folder(root, Path::new(name)))
        || [HOOKS, SERVERS, APPS].iter().any(has_file)
}

struct Reader<'r> {
    root: &'r Path,
    contents: Contents,
}

impl Reader<'_> {
    /// Returns whether the usual place of a part is read besides what is named.
    fn has_default(&self, part: &str) -> bool {
        !self.contents.manifest.without_default.contains(&part)
    }

    fn skills(&mut self, named: Vec<Value>) {
        let default = self.has_default("skills").then(|| PathBuf::from("skills"));
        let mut folders = Vec::from_iter(default);
        if named.len() > MAX_FOLDERS {
            let message = format!("only the first {MAX_FOLDERS} folders of `skills` are read");
            self.report_manifest(&message);
        }
        for value in named.into_iter().take(MAX_FOLDERS) {
            match self.path(&value, "skills") {
                Some(path) if folders.contains(&path) => {}
                Some(path) if beneath::has_folder(self.root, &path) => folders.push(path),
                Some(path) => self.report(path, "`skills` names a folder that does not exist"),
                None => {}
            }
        }
        let exist = folders.iter().filter(|folder| beneath::has_folder(self.root, folder));
        self.contents.skills = exist.map(|folder| self.root.join(folder)).collect();
    }

    /// `named` has files and objects with hooks. They add to the file that plugins have without naming it.
    fn hooks(&mut self, named: Vec<Value>) {
        if self.has_default("hooks") {
            self.hook_file(PathBuf::from(HOOKS), false);
        }
        if named.len() > MAX_HOOK_FILES {
            self.report_manifest(&format!(
                "only the first {MAX_HOOK_FILES} parts of `hooks` are read"
            ));
        }
        let mut inline = Map::new();
        for value in named.into_iter().take(MAX_HOOK_FILES) {
            if let Value::Object(hooks) = &value {
                self.add_inline(&mut inline, hooks);
            } else if let Some(path) = self.path(&value, "hooks") {
                self.hook_file(path, true);
            }
        }
        if !inline.is_empty() {
            let mut members = Map::new();
            members.insert("hooks".to_owned(), Value::Object(inline));
            let file = self.root.join(&self.contents.manifest.file);
            let text = Value::Object(members).to_string();
            self.contents.inline_hooks = Some(InlineHooks { file, text });
        }
    }

    fn hook_file(&mut self, path: PathBuf, named: bool) {
        let file = self.root.join(&path);
        if self.contents.hooks.contains(&file) {
            return;
        }
        self.contents.files.push(file.clone());
        match beneath::read(self.root, &path, json::MAX_JSON) {
            Ok(Some(_)) => self.contents.hooks.push(file),
            Ok(None) if named => self.report(path, "the file with hooks does not exist"),
            Ok(None) => {}
            Err(error) => self.fail(&path, error),
        }
    }

    /// Adds an object with hooks: events with their groups, or as a file has them, in `hooks`.
    fn add_inline(&mut self, inline: &mut Map<String, Value>, hooks: &Map<String, Value>) {
        let events = match hooks.get("hooks") {
            Some(Value::Object(events)) => events,
            _ => hooks,
        };
        for (event, groups) in events {
            match (inline.get_mut(event), groups) {
                (Some(Value::Array(before)), Value::Array(groups)) => {
                    before.extend(groups.iter().cloned());
                }
                (Some(_), _) => {
                    self.report_manifest(&format!(
                        "`hooks`: the second `{}` is left out, because one of both is not a list",
                        visible::text(event)
                    ));
                }
                (None, groups) => {
                    inline.insert(event.clone(), groups.clone());
                }
            }
        }
    }

    /// `named` has files and objects with servers. Of two servers with one name, the first counts.
    fn mcp_servers(&mut self, named: Vec<Value>) {
        if named.len() > MAX_FOLDERS {
            self.report_manifest(&format!(
                "only the first {MAX_FOLDERS} parts of `mcpServers` are read"
            ));
        }
        let mut seen = Vec::new();
        for value in named.into_iter().take(MAX_FOLDERS) {
            if let Value::Object(servers) = value {
                let file = self.contents.manifest.file.clone();
                self.servers(&file, servers);
            } else if let Some(path) = self.path(&value, "mcpServers")
                && !seen.contains(&path)
            {
                self.server_file(&path, true);
                seen.push(path);
            }
        }
        let usual = PathBuf::from(SERVERS);
        if self.has_default("mcpServers") && !seen.contains(&usual) {
            self.server_file(&usual, false);
        }
    }

    fn server_file(&mut self, path: &Path, named: bool) {
        let Some(mut members) = self.object(path, named) else { return };
        let inner =
            ["mcpServers", "mcp_servers"].into_iter().find_map(|key| members.shift_remove(key));
        match inner {
            Some(Value::Object(servers)) => self.servers(path, servers),
            Some(_) => self.report(path, "`mcpServers` must be an object"),
            None => {
                for said in json::misspelt(&members, &["mcpServers"], &[]) {
                    self.report(path, &said);
                }
                self.servers(path, members);
            }
        }
    }

    fn servers(&mut self, file: &Path, servers: Map<String, Value>) {
        for (name, value) in servers {
            if self.contents.mcp_servers.len() >= MAX_DEFINITIONS {
                let message = format!("only the first {MAX_DEFINITIONS} MCP servers are read");
                return self.report(file, &message);
            }
            match check_name(&name) {
                Ok(()) if self.contents.mcp_servers.contains_key(&name) => {
                    let message =
                        format!("the MCP server `{name}` is there twice; the first counts");
                    self.report(file, &message);
                }
                Ok(()) if value.is_object() => {
                    self.contents.mcp_servers.insert(name, value);
                }
                Ok(()) => self.report(file, &format!("the MCP server `{name}` must be an object")),
                Err(why) => self.report(file, &format!("an MCP server is left out: {why}")),
            }
        }
    }

    fn apps(&mut self, named: Vec<Value>) {
        let mut files = Vec::new();
        for value in named.into_iter().take(MAX_FOLDERS) {
            files.extend(self.path(&value, "apps").map(|path| (path, true)));
        }
        if self.has_default("apps") && files.iter().all(|(path, _)| path != Path::new(APPS)) {
            files.push((PathBuf::from(APPS), false));
        }
        for (file, named) in files {
            self.app_file(&file, named);
        }
    }

    fn app_file(&mut self, file: &Path, named: bool) {
        let Some(members) = self.object(file, named) else { return };
        let Some(Value::Object(apps)) = members.get("apps") else {
            return self.report(file, "`apps` is missing, or not an object");
        };
        for (index, (name, app)) in apps.iter().enumerate() {
            let id = app.get("id").and_then(Value::as_str);
            match (check_name(name), id.map(|id| (id, check_name(id)))) {
                _ if index >= MAX_DEFINITIONS => {
                    let message = format!("only the first {MAX_DEFINITIONS} apps are read");
                    return self.report(file, &message);
                }
                (Ok(()), Some((id, Ok(())))) => {
                    self.contents.apps.push(App { name: name.clone(), id: id.to_owned() });
                }
                (Err(why), _) | (_, Some((_, Err(why)))) => {
                    self.report(file, &format!("an app is left out: {why}"));
                }
                (_, None) => self.report(file, &format!("the app `{name}` has no `id`")),
            }
        }
    }

    /// Notes the parts that only other agents use.
    fn unused(&mut self, members: &Map<String, Value>) {
        let has_default = !self.contents.manifest.without_default.contains(&"skills");
        let is_there = |part: &&'static str| {
            members.get(*part).is_some_and(|value| !value.is_null())
                || (has_default
                    && ["agents", "commands"].contains(part)
                    && beneath::has_folder(self.root, Path::new(part)))
        };
        self.contents.unused = declared::OTHER_PARTS.into_iter().filter(is_there).collect();
    }

    /// The object in a file; reports one that cannot be read, and a missing one if it was named.
    fn object(&mut self, path: &Path, named: bool) -> Option<Map<String, Value>> {
        self.contents.files.push(self.root.join(path));
        match json::read_object(self.root, path) {
            Ok(Some(members)) => return Some(members),
            Ok(None) if named => self.report(path, "the manifest names it, and it does not exist"),
            Ok(None) => {}
            Err(error) => self.fail(path, error),
        }
        None
    }

    fn path(&mut self, value: &Value, member: &str) -> Option<PathBuf> {
        let path = match value.as_str() {
            Some(text) => relative_path(text),
            None => Err("it must be a path".to_owned()),
        };
        path.map_err(|why| self.report_manifest(&format!("`{member}`: {why}"))).ok()
    }

    fn report_manifest(&mut self, message: &str) {
        self.report(self.contents.manifest.file.clone(), message);
    }

    fn report(&mut self, path: impl AsRef<Path>, message: &str) {
        self.contents.problems.push(Problem::new(self.root.join(path), message));
    }

    fn fail(&mut self, path: &Path, error: Error) {
        self.contents.problems.push(error.into_problem(&self.root.join(path)));
    }
}
