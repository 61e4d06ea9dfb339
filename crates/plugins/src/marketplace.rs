//! Reads marketplaces: folders with a list of plugins, in the layouts `.agents/plugins/marketplace.json`
//! and `.claude-plugin/marketplace.json`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::declared::{self, Declared};
use crate::error::{Error, Problem};
use crate::json::{self, text};
use crate::name::check_name;
use crate::source::Source;

/// The files that make a folder a marketplace, relative to it; the first one that exists is read.
pub const FILES: [&str; 2] =
    [".agents/plugins/marketplace.json", ".claude-plugin/marketplace.json"];
/// Plugins of a marketplace. Further ones are left out with a problem.
pub const MAX_PLUGINS: usize = 2_000;
/// Problems that are reported.
const MAX_PROBLEMS: usize = 100;

/// A marketplace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marketplace {
    /// Checked with [`crate::check_name`].
    pub name: String,
    pub display_name: Option<String>,
    /// The folder. Absolute if the argument of [`Marketplace::read`] was.
    pub root: PathBuf,
    /// The file with the list.
    pub file: PathBuf,
    /// In the order of the file; names are unique.
    pub plugins: Vec<Entry>,
    /// Entries that are left out, and why.
    pub problems: Vec<Problem>,
    /// Why plugins are left out, by name, where that is known.
    pub left_out: BTreeMap<String, String>,
}

/// A plugin of a marketplace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Checked with [`crate::check_name`].
    pub name: String,
    pub source: Source,
    pub install_policy: InstallPolicy,
    pub auth_policy: AuthPolicy,
    pub category: Option<String>,
    pub description: Option<String>,
    pub version: Option<String>,
    pub keywords: Vec<String>,
    /// The parts of the plugin that the entry names itself.
    pub declared: Declared,
}

/// The rule for installing a plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstallPolicy {
    NotAvailable,
    #[default]
    Available,
    InstalledByDefault,
}

/// When a plugin's apps require a login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthPolicy {
    #[default]
    OnInstall,
    OnUse,
}

impl Marketplace {
    /// Reads the marketplace in a folder. An entry that cannot be used is reported in `problems` and
    /// hides no other. Blocks on the file system.
    ///
    /// # Errors
    /// The folder has no marketplace file, or the file is no JSON object with a usable name and a list of
    /// plugins.
    pub fn read(root: &Path) -> Result<Self, Error> {
        for file in FILES {
            if let Some(members) = json::read_object(root, Path::new(file))? {
                return Self::from_members(&members, root, root.join(file)).map_err(Error::Refused);
            }
        }
        Err(no_marketplace_in(root))
    }

    /// Reads the contents of a marketplace file, which is at `file` in the folder `root`. Opens nothing.
    ///
    /// # Errors
    /// As [`Marketplace::read`].
    pub fn parse(bytes: &[u8], root: &Path, file: &Path) -> Result<Self, Problem> {
        Self::from_members(&json::parse_object(bytes, file)?, root, file.to_owned())
    }

    /// The entry of a plugin.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.plugins.iter().find(|entry| entry.name == name)
    }

    fn from_members(
        members: &Map<String, Value>,
        root: &Path,
        file: PathBuf,
    ) -> Result<Self, Problem> {
        let Some(Value::String(name)) = members.get("name") else {
            return Err(Problem::new(file, "`name` is missing, or not a text"));
        };
        check_name(name).map_err(|why| Problem::new(&file, why))?;
        let Some(Value::Array(plugins)) = members.get("plugins") else {
            return Err(Problem::new(file, "`plugins` is missing, or not a list"));
        };
        let inner = |outer: &str, name: &str| members.get(outer).and_then(|outer| outer.get(name));
        let base = inner("metadata", "pluginRoot").and_then(Value::as_str).unwrap_or_default();
        let mut read = Self {
            name: name.clone(),
            display_name: text(inner("interface", "displayName")),
            root: root.to_owned(),
            file,
            plugins: Vec::new(),
            problems: Vec::new(),
            left_out: BTreeMap::new(),
        };
        let mut names = HashSet::new();
        for (index, value) in plugins.iter().enumerate().take(MAX_PLUGINS) {
            for said in value.as_object().into_iter().flat_map(Entry::misspelt) {
                read.report(index, &said);
            }
            match Entry::from_json(value, base) {
                Ok(entry) if names.insert(entry.name.to_lowercase()) => read.plugins.push(entry),
                Ok(entry) => read.report(index, &format!("`{}` is listed twice", entry.name)),
                Err(why) => {
                    if let Some(Value::String(name)) = value.get("name") {
                        read.left_out.insert(name.clone(), why.clone());
                    }
                    read.report(index, &why);
                }
            }
        }
        let outer = json::misspelt(members, &["name", "plugins", "interface", "metadata"], &[]);
        read.problems.extend(outer.into_iter().map(|said| Problem::new(&read.file, said)));
        read.find_shared_folders();
        if plugins.len() > MAX_PLUGINS {
            read.report(MAX_PLUGINS, &format!("only the first {MAX_PLUGINS} plugins are read"));
        }
        Ok(read)
    }

    /// The root of the marketplace belongs to no plugin alone, nor does a folder that several entries name.
    fn find_shared_folders(&mut self) {
        let mut folders: HashMap<PathBuf, usize> = HashMap::from([(PathBuf::new(), 1)]);
        let local = |entry: &Entry| match &entry.source {
            Source::Local { path } => Some(path.clone()),
            Source::Git { .. } | Source::Remote => None,
        };
        for path in self.plugins.iter().filter_map(local) {
            *folders.entry(path).or_default() += 1;
        }
        for entry in &mut self.plugins {
            let count = local(entry).and_then(|path| folders.get(&path).copied());
            entry.declared.shares_folder = count.is_some_and(|count| count > 1);
        }
    }

    fn report(&mut self, index: usize, why: &str) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem::new(&self.file, format!("`plugins[{index}]`: {why}")));
        }
    }
}

/// The error about a folder or a repository without a list of plugins.
pub(crate) fn no_marketplace_in(place: &Path) -> Error {
    let [one, other] = FILES;
    let place = visible::path(place);
    Error::NotFound(format!("{place} is not a marketplace: it has neither `{one}` nor `{other}`"))
}

impl Entry {
    fn misspelt(members: &Map<String, Value>) -> Vec<String> {
        const KNOWN: [&str; 8] = [
            "name",
            "source",
            "policy",
            "category",
            "description",
            "version",
            "keywords",
            "strict",
        ];
        let known: Vec<&str> = KNOWN.into_iter().chain(declared::PARTS).collect();
        json::misspelt(members, &known, &declared::OTHER_PARTS)
    }

    fn from_json(value: &Value, base: &str) -> Result<Self, String> {
        let Value::Object(members) = value else {
            return Err("it must be an object".to_owned());
        };
        let Some(Value::String(name)) = members.get("name") else {
            return Err("`name` is missing, or not a text".to_owned());
        };
        check_name(name)?;
        let named = |why: String| format!("`{name}`: {why}");
        let source =
            members.get("source").ok_or_else(|| named("`source` is missing".to_owned()))?;
        let policy = |key: &str| match members.get("policy").and_then(|policy| policy.get(key)) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(named(format!("`policy.{key}` must be a text"))),
        };
        // A policy that is not known could be a stricter one.
        let unknown =
            |text: &str| named(format!("the policy `{}` is not known", visible::text(text)));
        Ok(Self {
            name: name.clone(),
            source: Source::from_json(source, base).map_err(named)?,
            install_policy: match policy("installation")? {
                None | Some("AVAILABLE") => InstallPolicy::Available,
                Some("NOT_AVAILABLE") => InstallPolicy::NotAvailable,
                Some("INSTALLED_BY_DEFAULT") => InstallPolicy::InstalledByDefault,
                Some(other) => return Err(unknown(other)),
            },
            auth_policy: match policy("authentication")? {
                None | Some("ON_INSTALL") => AuthPolicy::OnInstall,
                Some("ON_USE" | "ON_FIRST_USE") => AuthPolicy::OnUse,
                Some(other) => return Err(unknown(other)),
            },
            category: text(members.get("category")),
            description: text(members.get("description")),
            version: text(members.get("version")),
            keywords: json::texts(members.get("keywords")),
            declared: Declared::from_entry(members).map_err(named)?,
        })
    }
}

#[cfg(test)]
#[path = "marketplace/tests.rs"]
mod tests;
