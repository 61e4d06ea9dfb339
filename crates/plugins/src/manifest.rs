//! Reads a plugin's manifest: `.codex-plugin/plugin.json` or `.claude-plugin/plugin.json`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::{Error, Problem};
use crate::json::{self, text, texts};
use crate::name::{check_name, relative_path};

/// The manifests, relative to the plugin's folder; the first one that exists is read.
pub const FILES: [&str; 2] = [".codex-plugin/plugin.json", ".claude-plugin/plugin.json"];

/// Members that are read.
pub(crate) const MEMBERS: [&str; 9] = [
    "name",
    "version",
    "description",
    "keywords",
    "interface",
    "skills",
    "hooks",
    "mcpServers",
    "apps",
];
/// Members that other agents read.
pub(crate) const OTHER_MEMBERS: [&str; 4] = ["agents", "author", "commands", "lspServers"];

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
    /// Reads the manifest in a plugin's folder; `None` if there is none. Blocks on the file system.
    ///
    /// # Errors
    /// The manifest is no JSON object with a usable name.
    pub fn read(root: &Path) -> Result<Option<Self>, Error> {
        for file in FILES {
            if let Some(members) = json::read_object(root, Path::new(file))? {
                let path = root.join(file);
                let manifest = Self::from_members(members, &path).map_err(Error::Refused)?;
                return Ok(Some(Self { file: file.into(), ..manifest }));
            }
        }
        Ok(None)
    }

    /// Reads the contents of a manifest; `path` is for errors.
    ///
    /// # Errors
    /// As [`Manifest::read`].
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, Problem> {
        Self::from_members(json::parse_object(bytes, path)?, path)
    }

    fn from_members(members: Map<String, Value>, path: &Path) -> Result<Self, Problem> {
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
            file: path.to_owned(),
            members,
        })
    }
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
