//! The contents of a plugin: skills, hooks, MCP servers and apps, as data. Starts and registers
//! nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::beneath;
use crate::error::{Error, Problem};
use crate::json;
use crate::manifest::{self, Manifest};
use crate::name::{check_name, relative_path};

/// MCP servers and apps of a plugin, each. Further ones are left out with a problem.
const MAX_DEFINITIONS: usize = 64;
/// Folders with skills that a manifest can name.
const MAX_FOLDERS: usize = 16;
/// Files and objects with hooks that a manifest can have.
const MAX_HOOK_FILES: usize = 16;

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
    /// Reads the plugin in a folder, installed or not. A part that cannot be used is reported in
    /// `problems` and hides no other. Blocks on the file system.
    ///
    /// # Errors
    /// The folder has no usable manifest.
    pub fn read(root: &Path) -> Result<Contents, Error> {
        let Some(manifest) = Manifest::read(root)? else {
            let [one, other] = manifest::FILES;
            let why = format!("it is no plugin: it has neither `{one}` nor `{other}`");
            return Err(Error::refused(root, why));
        };
        let members = manifest.members.clone();
        let files = manifest::FILES.iter().map(|file| root.join(file)).collect();
        let contents = Contents { manifest, files, ..Contents::default() };
        let mut read = Reader { root, contents };
        read.skills(members.get("skills"));
        read.hooks(members.get("hooks"));
        read.mcp_servers(members.get("mcpServers"));
        read.apps(members.get("apps"));
        for said in json::misspelt(&members, &manifest::MEMBERS, &manifest::OTHER_MEMBERS) {
            read.report_manifest(&said);
        }
        Ok(read.contents)
    }
}

struct Reader<'r> {
    root: &'r Path,
    contents: Contents,
}

impl Reader<'_> {
    fn skills(&mut self, named: Option<&Value>) {
        let mut folders = vec![PathBuf::from("skills")];
        let named = match named {
            Some(Value::Array(named)) => named.iter().collect(),
            named => Vec::from_iter(named),
        };
        for value in named.into_iter().take(MAX_FOLDERS) {
            match self.path(value, "skills") {
                Some(path) if folders.contains(&path) => {}
                Some(path) if beneath::has_folder(self.root, &path) => folders.push(path),
                Some(path) => self.report(path, "`skills` names a folder that does not exist"),
                None => {}
            }
        }
        let exist = folders.iter().filter(|folder| beneath::has_folder(self.root, folder));
        self.contents.skills = exist.map(|folder| self.root.join(folder)).collect();
    }

    /// `named` is a file, an object with hooks, or a list of both. What it says adds to the file that
    /// plugins have without naming it.
    fn hooks(&mut self, named: Option<&Value>) {
        self.hook_file(PathBuf::from("hooks/hooks.json"), false);
        let named = match named {
            Some(Value::Array(named)) => named.iter().collect(),
            Some(Value::Null) => Vec::new(),
            named => Vec::from_iter(named),
        };
        if named.len() > MAX_HOOK_FILES {
            self.report_manifest(&format!(
                "only the first {MAX_HOOK_FILES} parts of `hooks` are read"
            ));
        }
        let mut inline = Map::new();
        for value in named.into_iter().take(MAX_HOOK_FILES) {
            if let Value::Object(hooks) = value {
                self.add_inline(&mut inline, hooks);
            } else if let Some(path) = self.path(value, "hooks") {
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
                        "`hooks`: the second `{}` is left out, because one of both is no list",
                        visible::text(event)
                    ));
                }
                (None, groups) => {
                    inline.insert(event.clone(), groups.clone());
                }
            }
        }
    }

    fn mcp_servers(&mut self, named: Option<&Value>) {
        let servers = match named {
            Some(Value::Object(servers)) => {
                let file = self.contents.manifest.file.clone();
                return self.servers(&file, servers.clone());
            }
            None | Some(Value::Null) => self.object(Path::new(".mcp.json"), false),
            Some(value) => match self.path(value, "mcpServers") {
                Some(path) => self.object(&path, true),
                None => None,
            },
        };
        let Some((file, mut members)) = servers else { return };
        let inner =
            ["mcpServers", "mcp_servers"].into_iter().find_map(|key| members.shift_remove(key));
        match inner {
            Some(Value::Object(servers)) => self.servers(&file, servers),
            Some(_) => self.report(file, "`mcpServers` must be an object"),
            None => {
                for said in json::misspelt(&members, &["mcpServers"], &[]) {
                    self.report(&file, &said);
                }
                self.servers(&file, members);
            }
        }
    }

    fn servers(&mut self, file: &Path, servers: Map<String, Value>) {
        for (index, (name, value)) in servers.into_iter().enumerate() {
            if index >= MAX_DEFINITIONS {
                let message = format!("only the first {MAX_DEFINITIONS} MCP servers are read");
                return self.report(file, &message);
            }
            match check_name(&name) {
                Ok(()) if value.is_object() => {
                    self.contents.mcp_servers.insert(name, value);
                }
                Ok(()) => self.report(file, &format!("the MCP server `{name}` must be an object")),
                Err(why) => self.report(file, &format!("an MCP server is left out: {why}")),
            }
        }
    }

    fn apps(&mut self, named: Option<&Value>) {
        let read = match named {
            None | Some(Value::Null) => self.object(Path::new(".app.json"), false),
            Some(value) => match self.path(value, "apps") {
                Some(path) => self.object(&path, true),
                None => None,
            },
        };
        let Some((file, members)) = read else { return };
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
                    self.report(&file, &format!("an app is left out: {why}"));
                }
                (_, None) => self.report(&file, &format!("the app `{name}` has no `id`")),
            }
        }
    }

    /// The object in a file; reports one that cannot be read, and a missing one if it was named.
    fn object(&mut self, path: &Path, named: bool) -> Option<(PathBuf, Map<String, Value>)> {
        self.contents.files.push(self.root.join(path));
        match json::read_object(self.root, path) {
            Ok(Some(members)) => return Some((path.to_owned(), members)),
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
