//! Reads a plugin's manifest: `.agent-plugin/plugin.json`, `.codex-plugin/plugin.json` or
//! `.claude-plugin/plugin.json`, with what the marketplace's entry declares.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::declared::{self, Declared};
use crate::error::{Error, Problem};
use crate::json::{self, text, texts};
use crate::name::{check_name, relative_path};

/// The manifests, relative to the plugin's folder; the first one that exists is read.
pub const FILES: [&str; 3] =
    [".agent-plugin/plugin.json", ".codex-plugin/plugin.json", ".claude-plugin/plugin.json"];

/// Members about the plugin as a whole.
const FACTS: [&str; 5] = ["name", "version", "description", "keywords", "interface"];
/// Members that other agents read, and which are no parts.
const OTHER_FACTS: [&str; 4] = ["author", "homepage", "license", "repository"];

/// A plugin's manifest. Members that are not known are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Checked with [`crate::check_name`].
    pub name: String,
    pub version: Option<String>,
    pub description: Option<String>,
    pub keywords: Vec<String>,
    pub interface: Option<Interface>,
    /// Relative to the plugin's folder.
    pub(crate) file: PathBuf,
    /// Members that name files or hold definitions; [`crate::Contents`] has what they lead to.
    pub(crate) members: Map<String, Value>,
    /// Parts of which nothing is read but what the members name.
    pub(crate) without_default: Vec<&'static str>,
}

/// A plugin's presentation in clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub display_name: Option<String>,
    pub short_description: Option<String>,
    pub long_description: Option<String>,
    pub developer_name: Option<String>,
    pub category: Option<String>,
    pub capabilities: Vec<String>,
    /// `https` only, as the other URLs.
    pub website_url: Option<String>,
    pub privacy_policy_url: Option<String>,
    pub terms_of_service_url: Option<String>,
    pub default_prompt: Option<Vec<String>>,
    /// `#rrggbb`.
    pub brand_color: Option<String>,
    /// A file of the plugin, relative to its folder.
    pub composer_icon: Option<PathBuf>,
    /// A file of the plugin, relative to its folder.
    pub logo: Option<PathBuf>,
    /// Files of the plugin, relative to its folder.
    pub screenshots: Vec<PathBuf>,
}

impl Manifest {
    /// Reads the manifest in a plugin's folder with what the marketplace's entry declares; `None` if there is
    /// neither. Blocks on the file system.
    ///
    /// # Errors
    /// A manifest is no JSON object with a usable name, or says what the entry says alone.
    pub(crate) fn read(root: &Path, declared: Option<&Declared>) -> Result<Option<Self>, Error> {
        let own = own_members(root)?;
        let path = root.join(own.as_ref().map_or(declared::FILE, |(file, _)| file));
        let (file, members) = match (own, declared) {
            (None, None) => return Ok(None),
            (None, Some(declared)) => (declared::FILE, declared.alone()),
            (Some((file, own)), declared) => {
                let nothing = Declared::default();
                let merged = declared.unwrap_or(&nothing).merged(own);
                (file, merged.map_err(|why| Error::refused(&path, why))?)
            }
        };
        let read = Self::from_members(members.all, &path, file, &members.without_default);
        read.map(Some).map_err(Error::Refused)
    }

    /// Reads the contents of a manifest; `path` is for errors.
    ///
    /// # Errors
    /// It is no JSON object with a usable name.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, Problem> {
        let members = json::parse_object(bytes, path)?;
        Self::from_members(members, path, &path.to_string_lossy(), &[])
    }

    fn from_members(
        members: Map<String, Value>,
        path: &Path,
        file: &str,
        without_default: &[&'static str],
    ) -> Result<Self, Problem> {
        let Some(Value::String(name)) = members.get("name") else {
            return Err(Problem::new(path, "`name` is missing, or not a text"));
        };
        check_name(name).map_err(|why| Problem::new(path, why))?;
        Ok(Self {
            name: name.clone(),
            version: text(members.get("version")),
            description: text(members.get("description")),
            keywords: texts(members.get("keywords")),
            interface: members.get("interface").and_then(Value::as_object).map(interface),
            file: file.into(),
            members,
            without_default: without_default.to_vec(),
        })
    }
}

/// Returns whether the folder has a manifest.
pub(crate) fn exists(root: &Path) -> Result<bool, Error> {
    own_members(root).map(|found| found.is_some())
}

/// The file of a manifest, and its members.
type OwnMembers = (&'static str, Map<String, Value>);

/// The first manifest of a folder.
fn own_members(root: &Path) -> Result<Option<OwnMembers>, Error> {
    for file in FILES {
        if let Some(members) = json::read_object(root, Path::new(file))? {
            return Ok(Some((file, members)));
        }
    }
    Ok(None)
}

/// The members that are not known, and look misspelt: what to say of each.
pub(crate) fn misspelt(members: &Map<String, Value>) -> Vec<String> {
    let known: Vec<&str> = FACTS.into_iter().chain(declared::PARTS).collect();
    let others: Vec<&str> = OTHER_FACTS.into_iter().chain(declared::OTHER_PARTS).collect();
    json::misspelt(members, &known, &others)
}

fn interface(members: &Map<String, Value>) -> Interface {
    let member = |name: &str| text(members.get(name));
    let url = |name: &str| {
        let text = members.get(name)?.as_str()?;
        let url = url::Url::parse(text).ok()?;
        (url.scheme() == "https" && url.as_str().len() <= 2_048).then(|| url.to_string())
    };
    let file = |value: &Value| {
        let path = relative_path(value.as_str()?).ok()?;
        (!path.as_os_str().is_empty()).then_some(path)
    };
    let is_color = |text: &String| {
        text.strip_prefix('#')
            .is_some_and(|rest| rest.len() == 6 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let screenshots = members.get("screenshots").and_then(Value::as_array);
    Interface {
        display_name: member("displayName"),
        short_description: member("shortDescription"),
        long_description: member("longDescription"),
        developer_name: member("developerName"),
        category: member("category"),
        capabilities: texts(members.get("capabilities")),
        website_url: url("websiteURL").or_else(|| url("websiteUrl")),
        privacy_policy_url: url("privacyPolicyURL").or_else(|| url("privacyPolicyUrl")),
        terms_of_service_url: url("termsOfServiceURL").or_else(|| url("termsOfServiceUrl")),
        default_prompt: match members.get("defaultPrompt") {
            Some(Value::String(_)) => member("defaultPrompt").map(|prompt| vec![prompt]),
            Some(list @ Value::Array(_)) => Some(texts(Some(list))),
            _ => None,
        },
        brand_color: member("brandColor").filter(is_color),
        composer_icon: members.get("composerIcon").and_then(file),
        logo: members.get("logo").and_then(file),
        screenshots: screenshots.into_iter().flatten().take(16).filter_map(file).collect(),
    }
}
