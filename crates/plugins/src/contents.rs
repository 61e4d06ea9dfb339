//! What a plugin brings: skills, hooks, MCP servers and apps, as data. Starts and registers nothing.

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

/// A plugin's folder.
#[derive(Clone, Copy, Debug)]
pub struct Plugin;

/// What a plugin brings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    pub manifest: Manifest,
    /// Folders in which skills are searched, as roots of `skills::discover`. Absolute if the plugin's
    /// folder was.
    pub skills: Vec<PathBuf>,
    /// The file with hooks, in the format of `hooks::read_file`.
    pub hooks: Option<PathBuf>,
    /// Definitions of MCP servers by name, not interpreted.
    pub mcp_servers: BTreeMap<String, Value>,
    pub apps: Vec<App>,
    /// Parts that are left out, and why.
    pub problems: Vec<Problem>,
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
        let mut read = Reader { root, contents: Contents { manifest, ..Contents::default() } };
        read.skills(members.get("skills"));
        read.hooks(members.get("hooks"));
        read.mcp_servers(members.get("mcpServers"));
        read.apps(members.get("apps"));
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

    fn hooks(&mut self, named: Option<&Value>) {
        let path = match named {
            None | Some(Value::Null) => PathBuf::from("hooks/hooks.json"),
            Some(Value::Object(_)) => {
                return self
                    .report_manifest("`hooks` must name a file, as in `./hooks/hooks.json`");
            }
            Some(value) => match self.path(value, "hooks") {
                Some(path) => path,
                None => return,
            },
        };
        match beneath::read(self.root, &path, json::MAX_JSON) {
            Ok(Some(_)) => self.contents.hooks = Some(self.root.join(path)),
            Ok(None) if named.is_some() => self.report(path, "the file with hooks does not exist"),
            Ok(None) => {}
            Err(error) => self.fail(&path, error),
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
        let inner = ["mcpServers", "mcp_servers"].into_iter().find_map(|key| members.remove(key));
        match inner {
            Some(Value::Object(servers)) => self.servers(&file, servers),
            Some(_) => self.report(file, "`mcpServers` must be an object"),
            None => self.servers(&file, members),
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
